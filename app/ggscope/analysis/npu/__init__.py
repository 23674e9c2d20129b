"""Engines, bandwidth, memory and bits in the trace of an NPU simulator."""
