"""Comparison of runs: what takes more or less time in the other, and by how much."""
