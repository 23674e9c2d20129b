"""The compiled library: its C files, what they hold for Python, and the loader."""
