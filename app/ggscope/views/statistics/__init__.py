"""Selection statistics: a table, a pivot table and a histogram of what is marked."""
