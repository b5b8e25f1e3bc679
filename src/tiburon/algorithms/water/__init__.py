"""Hydrodynamics in the recursions: forces on links, thrusters, fins, free surface."""
