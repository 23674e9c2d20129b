"""Commands: menu, keys, palette."""
