"""Pictures of the file heatmap."""
