"""Facts as English text: of spans, tensors, graphs and sessions."""
