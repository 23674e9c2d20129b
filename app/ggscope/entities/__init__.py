"""What can be selected: one module per kind of entity."""
