"""Capture of llama.cpp runs (not yet built)."""
