"""Traces of NPU simulators, in JSON."""
