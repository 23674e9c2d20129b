"""Tensor-access traces: binary records of 64 to 1024 bytes."""
