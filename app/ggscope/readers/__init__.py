"""Readers: bytes become columns. Nothing else touches a file format."""
