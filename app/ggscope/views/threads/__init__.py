"""Threads and waits: a table per question."""
