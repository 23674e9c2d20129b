"""Pictures: (arrays, view state) become display lists, drawn by two painters."""
