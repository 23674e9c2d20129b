"""Single instance: a later process sends its files to the window that is open."""
