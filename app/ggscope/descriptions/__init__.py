"""Facts in English: what is said about spans, tensors, graphs and sessions."""
