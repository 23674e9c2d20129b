"""The ``.ggmlviz`` format."""
