"""Statistics of a selection."""
