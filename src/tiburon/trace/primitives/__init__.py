"""Solvers that a graph calls: each is written once, then run, counted, differentiated, compiled."""
