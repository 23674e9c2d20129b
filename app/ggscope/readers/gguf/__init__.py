"""Model files: GGUF."""
