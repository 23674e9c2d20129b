"""Which backend runs which op, and what that costs in copies."""
