"""Which records a trace should hold, and which of them are missing."""
