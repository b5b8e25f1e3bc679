"""Steps that keep the factored mass matrix and the bias force of an earlier step.

Where forces change faster than the robot moves, as under a stiff controller, H and C may serve
several steps (Featherstone 1987, secs. 1.5 and 5.2): a step then costs the forces and a solution
with known factors. The price is accuracy: H and C are late by up to k - 1 steps, and the error
falls only with the first power of the time for which they are kept.

Symbols:
    H       mass matrix, kept as its factors L^T D L
    C       bias force: forces of gravity, velocities and water at zero acceleration
    k       steps for which both are kept
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from tiburon.actuation.element import summed_wrenches
from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.pair_products import before_products
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import DomainError
from tiburon.functions.library import refuse_loops
from tiburon.model import Plan
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.system import System
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.regions import function, while_loop

KEPT_STEPS_INFIX = "_keeping_"
"""Text between the name of a method and its number of steps, as in "rk4_keeping_4"."""


class KeptRates(Protocol):
    """Rates of w that can be found from terms of an earlier state."""

    def prepare(self, q: Scalars, w: Scalars, *time: Scalar) -> Scalars:
        """Return what is kept of a state: factors of H, then C, as `kept_terms` gives them."""

    def given(self, kept: Scalars, q: Scalars, w: Scalars, *time: Scalar) -> Scalars:
        """Return the rates of w with the forces of this state and terms of an earlier one."""


class KeptMemory(NamedTuple):
    """What is carried from step to step."""

    age: Scalar
    """Steps for which the terms have served."""

    kept: Scalars
    """The terms."""


def kept_terms(here: Setting, q: Scalars, v: Scalars) -> Scalars:
    """Return the factors of the mass matrix, then the bias force."""
    plan = here.plan
    factor = FactorTree(expanded_parents(plan))
    H = mass_elements(plan, JointVector(q))
    factors = factor.apply([H[i * plan.nv + j] for i, j in factor.layout.elements()])
    return (*factors, *_bias(here, q, v, here.external))


def solve_kept(
    here: Setting, kept: Scalars, q: Scalars, tau: Scalars, external: Sequence[Force] | None = None
) -> Scalars:
    """Return the joint accelerations under present forces, with terms of an earlier state.

    Water is part of the kept terms. `external` are forces on plan bodies beyond those, in their
    frames [N m, N].
    """
    plan = here.plan
    solve = SolveTree(expanded_parents(plan))
    stored = solve.layout.stored
    right = [force - c for force, c in zip(tau, kept[stored:], strict=True)]
    if external is not None:
        # what a robot at rest without weight would have to hold against
        rest = here._replace(gravity=(0.0, 0.0, 0.0))
        held = _bias(rest, q, (0.0,) * plan.nv, external)
        right = [a - b for a, b in zip(right, held, strict=True)]
    return tuple(solve.apply([*kept[:stored], *right]))


def keep_inertia(method: Method, steps: int) -> Method:
    """Return a method whose steps share the mass matrix and the bias force.

    Its `start` and `advance` take `KeptRates` as the acceleration; a single `step` keeps nothing.

    Args:
        method: A one-step method.
        steps: How many steps share them, k; 1 to renew them at the start of each step.

    Raises:
        DomainError: If the method has a memory of its own, or the number of steps makes no sense.
    """
    if method.has_memory:
        raise DomainError("keep_inertia", "a one-step method", method.name, advice="take tb.RK4")
    if steps != int(steps) or steps < 1:
        raise DomainError("keep_inertia", "a whole number of steps, 1 or more", f"{steps!r}")
    return Method(
        f"{method.name}{KEPT_STEPS_INFIX}{steps}",
        order=1,
        evaluations=method.evaluations,
        step=method.step,
        starts=_start,
        advances=partial(_advance, method, steps),
        keeps_inertia=True,
    )


def _start(
    manifold: Manifold, rates: KeptRates, q: Scalars, w: Scalars, h: Scalar, *time: Scalar
) -> KeptMemory:
    """Return the memory before the first step: the terms of the state at the start."""
    return KeptMemory(0.0, rates.prepare(tuple(q), tuple(w), *time))


def _advance(
    method: Method,
    steps: int,
    manifold: Manifold,
    rates: KeptRates,
    q: Scalars,
    w: Scalars,
    memory: KeptMemory,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars, KeptMemory]:
    """Take one step with the kept terms, renewing them first if they have served long enough."""

    def renewed(_: KeptMemory) -> KeptMemory:
        return KeptMemory(0.0, rates.prepare(q, w, *time))

    # a loop of at most one turn: only cases that are due compute new terms
    age, kept = while_loop(lambda m: m.age > steps - 0.5, renewed, memory, 1).state
    q, w = method.step(manifold, _with(rates, kept), q, w, h, *time)
    return q, w, KeptMemory(age + 1.0, kept)


def _with(rates: KeptRates, kept: Scalars) -> Callable[..., Scalars]:
    """Return the acceleration for integrators."""

    def acceleration(q: Scalars, w: Scalars, *time: Any) -> Scalars:
        return rates.given(kept, q, w, *time)

    return acceleration


def _bias(here: Setting, q: Scalars, v: Scalars, external: Sequence[Force] | None) -> list[Scalar]:
    """Return the bias force under given forces on bodies."""
    plan: Plan = here.plan

    @before_products(plan)
    def found(q: Scalars, v: Scalars) -> list[Scalar]:
        return list(bias(plan, JointVector(q), JointVector(v), here.gravity, external))

    return list(found(list(q), list(v)))


# systems whose steps reuse the factored mass matrix and the bias force


class KeptSystem:
    """Rates of a system from terms of an earlier state; works on floats and traced values alike."""

    def __init__(self, system: System, p: Scalars | None = None) -> None:
        """Store a system, with run-time parameters p of its elements (their own by default).

        Raises:
            ModelError: If the robot has loops: constraint forces are not kept.
        """
        refuse_loops(system.model, "keep_inertia")
        self._system = system
        self._numbers = p
        # called at every stage: functions of their own keep code short
        self._prepared = function(self._terms)
        self._found = function(self._rates)

    def under(self, u: Scalars) -> "_Under":
        """Return the rates under commands that are held, `System.drive_size` scalars."""
        return _Under(self, tuple(u))

    def _terms(self, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        position, rate = JointVector(q), JointVector(w[: self._system.model.nv])
        return kept_terms(self._system.setting(position, rate, time), position, rate)

    def _rates(self, kept: Scalars, q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        system = self._system
        nv = system.model.nv
        position, v, x = JointVector(q), JointVector(w[:nv]), w[nv:]
        here = self._system.setting(position, v, time)
        driving, own = system.driven(here, position, v, x, u, time, self._numbers)
        pushes = summed_wrenches(driving.wrenches)
        acting = forces_on_bodies(here.plan, position, pushes, "frame")
        force = JointVector(driving.force)
        return (*solve_kept(here, kept, position, force, acting), *driving.rates, *own)


class _Under:
    """A system under held commands, as steps that keep inertia call it."""

    def __init__(self, of: KeptSystem, u: Scalars) -> None:
        self._of = of
        self._u = u

    def prepare(self, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        """Return what is kept of a state."""
        found: Scalars = self._of._prepared(tuple(q), tuple(w), time)
        return found

    def given(self, kept: Scalars, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        """Return the rates of w with the forces of this state and terms of an earlier one."""
        found: Scalars = self._of._found(tuple(kept), tuple(q), tuple(w), self._u, time)
        return found
