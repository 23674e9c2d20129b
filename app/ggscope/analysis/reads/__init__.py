"""Reading: who reads which bytes, how hot, and what a cache would do."""
