"""Orders of spans: by time, and by the columns of a table."""
