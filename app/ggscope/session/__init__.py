"""The document: what is open, selected, visible and filtered."""
