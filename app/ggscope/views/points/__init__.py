"""The 3D view: accesses over time, layer and file offset."""
