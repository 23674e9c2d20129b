"""Pictures of a computation graph."""
