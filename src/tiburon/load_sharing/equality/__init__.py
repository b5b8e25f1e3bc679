"""Quadratic programs with equations alone: four methods of one result (Nahon 1991, 5.4.2.1)."""
