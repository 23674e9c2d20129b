"""Lives of buffers and allocations."""
