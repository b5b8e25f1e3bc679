"""Checks of a single model: conservation, agreement of algorithms, plausible parameters."""
