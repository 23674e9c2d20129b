"""Pictures of the timeline."""
