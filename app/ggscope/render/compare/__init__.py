"""Pictures of two sides: both timelines, steps from A to B, changes, durations."""
