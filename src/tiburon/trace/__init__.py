"""Traced values, the graph they build, regions, primitives, derivatives, counts, interpreter."""
