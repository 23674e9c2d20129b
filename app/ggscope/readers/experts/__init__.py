"""Expert routing, in CSV."""
