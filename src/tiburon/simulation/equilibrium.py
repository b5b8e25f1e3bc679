"""Where a robot stays as it is: positions at which nothing accelerates.

Newton's method with steps that are halved until they help (Nocedal and Wright 2006, "Numerical
optimization", sec. 11.2). Directions in which nothing drives back make the equations singular: of
all steps that solve them, the smallest is taken.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.binding import DEFAULT_WORLD, world_with
from tiburon.algorithms.conditions import Conditions
from tiburon.algorithms.crba import mass_matrix
from tiburon.algorithms.forward import forward_dynamics
from tiburon.errors import DomainError
from tiburon.model import Model
from tiburon.simulation.linearization import linearize

__all__ = ["SmallMotion", "settle"]

Array = NDArray[np.float64]

LONGEST = 0.5
"""Longest step of one iteration [rad or m]: beyond, sines and cosines are no straight lines."""

HALVINGS = 30
"""After so many a step has left no digit of the position."""

ROUNDING = 1e-15
"""Forces below this fraction of the weight are rounding."""

ITERATIONS = 100
"""Steps of at most half a radian; the last ones double the digits."""

RANK = 1e-10
"""Singular values below this fraction of the largest are rounding: nothing drives back there."""


class SmallMotion:
    """How a robot moves under given conditions, exactly and near a state."""

    def __init__(
        self, model: Model, v: ArrayLike | None, tau: ArrayLike | None, conditions: Conditions
    ) -> None:
        self.model, self.conditions = model, conditions
        self.v = np.zeros(model.nv) if v is None else np.array(v, dtype=np.float64)
        self.tau = np.zeros(model.nv) if tau is None else np.array(tau, dtype=np.float64)

    def rates(self, q: Array) -> Array:
        """Return the rates of velocities and inner states at a position."""
        return forward_dynamics(self.model, q, self.v, self.tau, **self.conditions)

    def matrix(self, q: Array) -> Array:
        """Return the rate of [dq, v, x] per change of it."""
        return linearize(self.model, q, self.v, self.tau, **self.conditions).A

    def mass(self, q: Array) -> Array:
        """Return the mass matrix, shape (nv, nv)."""
        world = world_with(self.conditions.get("world"), self.conditions.get("fluid"))
        fluid = None if world is None else world.fluid
        return mass_matrix(self.model, q, fluid=fluid, time=self.conditions.get("time"))

    def force(self, q: Array, rates: Array) -> Array:
        """Return the joint forces that accelerations stand for [N or N m]."""
        return self.mass(q) @ rates[: self.model.nv]

    @property
    def weight(self) -> float:
        """Weight of the robot, at least 1 N."""
        gravity = (self.conditions.get("world") or DEFAULT_WORLD).gravity
        mass = sum(body.inertia.mass for body in self.model.bodies)
        return max(1.0, float(np.linalg.norm(gravity)) * mass)


def settle(motion: SmallMotion, q: Array, tolerance: float) -> Array:
    """Return the equilibrium nearest a position.

    Args:
        motion: How the robot moves.
        q: Where to start [m or rad], shape (nq,).
        tolerance: Largest force missing, relative to the weight of the robot and at least 1 N.

    Raises:
        DomainError: If none is found.
    """
    model, allowed = motion.model, tolerance * motion.weight
    missing = motion.force(q, motion.rates(q))
    nv = model.nv
    for _ in range(ITERATIONS):
        if float(np.linalg.norm(missing)) <= ROUNDING * motion.weight:
            break
        slopes = motion.force(q, motion.matrix(q)[nv : 2 * nv, :nv])
        step = -np.linalg.lstsq(slopes, missing, rcond=RANK)[0]
        length = float(np.linalg.norm(step))
        step *= min(1.0, LONGEST / length) if length > 0.0 else 1.0
        size = float(np.linalg.norm(missing))
        for _ in range(HALVINGS):
            there = model.integrate(q, step)
            left = motion.force(there, motion.rates(there))
            if np.linalg.norm(left) < 0.999 * size:
                break
            step = 0.5 * step
        else:
            # no step helps: the last digit is reached, or there is nothing to reach
            break
        q, missing = there, left
    if float(np.abs(missing).max(initial=0.0)) > allowed:
        worst = int(np.argmax(np.abs(missing)))
        raise DomainError(
            f"modes of model {model.name!r}",
            "a start near an equilibrium",
            f"{missing[worst]:.3g} N or N m left at {model.v_names[worst]!r}",
            advice="start nearer, hold the robot with tau= or commands= (trim finds them), take "
            "gravity away, or pass solve=False",
        )
    return q
