"""Tensors of the model: tree, map of the files, metadata."""
