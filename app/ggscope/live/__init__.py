"""Traces of programs that run: rings and growing files become traces that grow."""
