"""What every view stands on."""
