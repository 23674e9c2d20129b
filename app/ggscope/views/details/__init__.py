"""Details of what is selected."""
