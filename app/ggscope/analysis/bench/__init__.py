"""Tests of llama-bench: tables, intervals, curves, and two sides compared."""
