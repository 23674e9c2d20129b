"""SQL over the tables of a trace, by DuckDB where that is installed."""
