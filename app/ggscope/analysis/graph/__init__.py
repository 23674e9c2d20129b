"""Computation graphs: layout, measures, search."""
