"""Spans of a lane in rows, and what a pixel column shows of them."""
