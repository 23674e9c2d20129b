"""Several files as one session: clocks, names, graphs."""
