"""Heatmaps of the model file."""
