"""The display list, drawn by OpenGL."""
