"""How a model was read from storage: requests, rates, depth, and what caused them."""
