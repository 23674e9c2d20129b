"""Live sources (none yet): growing files and ring buffers."""
