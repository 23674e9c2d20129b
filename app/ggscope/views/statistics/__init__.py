"""Statistics of the selection."""
