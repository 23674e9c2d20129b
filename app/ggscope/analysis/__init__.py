"""Questions: pure functions from (trace, parameters) to arrays."""
