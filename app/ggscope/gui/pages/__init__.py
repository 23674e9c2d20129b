"""Pages that stand where no trace is shown."""
