"""Experts: which ran, how often, and what they read."""
