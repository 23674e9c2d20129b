"""Pictures of what an NPU does: over time, by address, by stall and by bits."""
