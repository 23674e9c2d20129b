"""Benchmarks: opening, frames, memory."""
