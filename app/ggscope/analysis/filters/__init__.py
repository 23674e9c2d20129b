"""Filters: the text that is typed, and the spans that it leaves."""
