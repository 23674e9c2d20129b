"""The same accesses as JSON, with an entry per token."""
