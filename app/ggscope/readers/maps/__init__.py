"""Maps of model files: what lies where."""
