"""The trace table."""
