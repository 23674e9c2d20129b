"""The tracer in C, and what compiles it."""
