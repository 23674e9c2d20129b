"""The compiled library: its sources, and the one loader."""
