"""The summary of a run: tokens, ops, threads, weights, and what limits it."""
