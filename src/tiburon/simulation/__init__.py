"""Motion over time: systems, integrators, and the native loops that run them."""
