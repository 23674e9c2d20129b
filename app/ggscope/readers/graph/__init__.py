"""Computation graphs, in JSON and DOT."""
