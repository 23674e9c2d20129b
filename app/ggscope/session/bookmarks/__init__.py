"""Bookmarks: values, files, and what keeps them."""
