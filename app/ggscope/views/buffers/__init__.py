"""Buffers and memory over time."""
