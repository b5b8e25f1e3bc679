"""Measured runs, and parameters estimated from them."""
