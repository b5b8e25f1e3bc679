"""Which steps suit a robot: how fast its fastest part answers, and what integrators bear."""

from typing import NamedTuple

import numpy as np

from tiburon.actuation.defaults import elements_of
from tiburon.actuation.joint_access import per_degree_of_freedom
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops, apparent_joint_inertia
from tiburon.actuation.passive import FRICTION_SPEED
from tiburon.arrays import NDArray
from tiburon.checks.finding import LOOK, PASSED, Finding
from tiburon.model import Model, World
from tiburon.simulation.modes import modes

__all__ = ["StepAdvice", "advise_step"]

Array = NDArray[np.float64]

STABLE = 2.78
"""Largest |lambda| dt that rk4 damps, along the negative real axis (Hairer and Wanner 1996,
"Solving ordinary differential equations II", sec. IV.2); 2.83 along the imaginary one."""

GOOD = 0.5
"""|lambda| dt at which a step of rk4 is off by some 1e-4 of the fastest motion."""

LONGEST = 0.01
"""Longest step that is advised [s]."""

USUAL = 1e-3
"""Step that runs have unless told otherwise [s]."""


class StepAdvice(NamedTuple):
    """A step for rk4, and why."""

    dt: float
    """Advised step [s]."""

    stable: float
    """Longest step that does not grow [s]; infinite where nothing answers."""

    rate: float
    """Of the fastest answer [1/s]."""

    cause: str
    """What answers so fast."""

    def finding(self) -> Finding:
        """Return the advice as a finding: to be looked at if the usual step is too long."""
        fits = self.stable >= USUAL
        text = f"{self.cause}; advice: dt = {self.dt:g} s"
        if self.rate:
            text = (
                f"fastest answer {self.rate:.3g} 1/s ({self.cause}); rk4 stays stable up to "
                f"{1e3 * self.stable:.3g} ms; advice: dt = {self.dt:g} s"
            )
        if not fits:
            text += ', or method "rosenbrock"'
        return Finding("step size", PASSED if fits else LOOK, text, self.dt)


def advise_step(model: Model, world: World, q: Array) -> StepAdvice:
    """Find the fastest answer of a robot with all that acts on it, and a step that follows it.

    Eigenvalues are those of the linearized motion at rest in q. Coulomb friction and stops, which
    no linearization at rest can see, count with the steepest they have.

    Args:
        model: The robot.
        world: Its surroundings.
        q: Position [m or rad], shape (nq,).
    """
    found: list[tuple[float, str]] = [(0.0, "nothing drives back")]
    # frequencies of a robot with loops lie between those of its tree
    tree = model.without_loops() if model.loops else model
    near = modes(tree, q, world=world, solve=False)
    if len(near.members):
        fastest = max(near.members, key=lambda mode: abs(mode.eigenvalue))
        moving = np.concatenate([fastest.shape, fastest.states])
        place = int(np.argmax(np.abs(moving)))
        if abs(fastest.eigenvalue):
            inner = place >= model.nv
            who = "an inner state" if inner else f"{model.v_names[place]!r}"
            found.append((abs(fastest.eigenvalue), f"{fastest.kind} of {who}"))
    inertia = apparent_joint_inertia(model)
    for joint in model.joints:
        if joint.passive is None or joint.dof == 0:
            continue
        own = inertia[model.slice(joint.name, of="v")]
        for f, m in zip(per_degree_of_freedom(joint.passive.friction, joint), own, strict=False):
            if f > 0.0:
                rate = f / (FRICTION_SPEED * float(m))
                found.append((rate, f"Coulomb friction of {joint.name!r}"))
    if any(isinstance(element, JointStops) for element in elements_of(model, world)):
        found.append((STOP_FREQUENCY, "stops at the limits of joints"))
    rate, cause = max(found)
    if not rate:
        return StepAdvice(LONGEST, float("inf"), 0.0, cause)
    return StepAdvice(_round(min(LONGEST, GOOD / rate)), STABLE / rate, rate, cause)


def _round(step: float) -> float:
    """Return the nearest shorter step of 1, 2 or 5 times a power of ten [s]."""
    power = 10.0 ** np.floor(np.log10(step))
    best = max(k for k in (1.0, 2.0, 5.0) if k * power <= step * (1.0 + 1e-12))
    return float(f"{best * power:.1g}")
