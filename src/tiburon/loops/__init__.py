"""Closed chains: what closes loops, and how robots move that have them."""
