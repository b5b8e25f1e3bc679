"""Derivatives of the dynamics, analytical and traced."""
