"""What several formats share: JSON, CSV, lives of buffers."""
