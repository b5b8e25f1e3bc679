"""Integrators by the names of their methods, for tests that run with several."""

from tiburon.simulation.integrators.integrator import Integrator
from tiburon.simulation.integrators.methods import ADAPTIVE, integrator_named


def integrator(name: str, dt: float = 1e-3, **options: object) -> Integrator:
    """Return the integrator of a method; tolerances only where it has them."""
    if name not in ADAPTIVE:
        options = {}
    return integrator_named(name, dt, **options)  # type: ignore[arg-type]
