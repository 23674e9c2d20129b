"""The heatmap of the model file."""
