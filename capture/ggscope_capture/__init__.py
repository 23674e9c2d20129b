"""Capture of llama.cpp runs: what they compute, when and where, as a trace."""

__version__ = "0.2.0"
