"""What is known of ggml: op tables, rules of what is read and written, types."""
