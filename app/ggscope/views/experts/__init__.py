"""Experts and their work."""
