"""Integrators, one file each; all step on the manifold of positions."""
