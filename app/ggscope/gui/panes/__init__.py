"""Where the views stand in the window."""
