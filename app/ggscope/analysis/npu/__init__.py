"""What the trace of an NPU simulator tells of engines, bandwidth, memory and bits."""
