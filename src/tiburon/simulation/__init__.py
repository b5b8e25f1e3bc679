"""Motion over time: integrators, and the native loops that run them."""

from tiburon.simulation.integrators.rk4 import integrate_rk4
from tiburon.simulation.record import StateRecord

__all__ = ["StateRecord", "integrate_rk4"]
