"""Which experts the router chose, where records of a tensor trace list them."""
