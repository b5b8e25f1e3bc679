"""The exact Jacobian of the rates of a system, which implicit methods need.

The rates of a `System` follow from its equations of motion R(q, v, x, vd, lambda, t) = 0. They are
differentiated implicitly, at constant accelerations and constraint forces:

    [ H  J^T ] [  dvd     ]        R = [ tau - ID(q, v, vd) + J^T lambda ]
    [ J   0  ] [ -dlambda ] = dR,      [ -(J vd + bias)                  ]

dR is the forward-mode derivative of inverse dynamics with all elements and controllers: one derived
function, called once per direction. Any other function of the rates is differentiated itself.

Symbols: H mass matrix, J constraint Jacobian, lambda constraint forces, ID inverse dynamics.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.derivatives import add_constraints, constrained_solver
from tiburon.simulation.integrators.manifold import Chart, changes_along
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.program import Input, current_graph, trace
from tiburon.trace.regions import for_each, function

if TYPE_CHECKING:
    from tiburon.simulation.system import System


class RateChanges(NamedTuple):
    """Derivatives of the rates of coordinates."""

    by_state: tuple[Scalars, ...]
    """By each coordinate: columns of the Jacobian."""

    by_time: Scalars
    """By the time; empty where nothing depends on it."""


class ImplicitRates:
    """Rates of a system under held commands, which `rate_changes` differentiates implicitly."""

    def __init__(self, system: "System", p: Scalars | None = None) -> None:
        """Take a system, with run-time parameters p of its elements (their own by default)."""
        self.system = system
        self._p = p
        self._u: Scalars = ()

        def motion(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> tuple[Scalars, Scalars]:
            return system.motion(q, w, u, time, p)[:2]

        self._motion = function(motion)

    def under(self, u: Scalars) -> "ImplicitRates":
        """Return the same under held commands, `System.drive_size` scalars."""
        found = object.__new__(ImplicitRates)
        found.__dict__.update(self.__dict__, _u=tuple(u))
        return found

    def __call__(self, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        """Return the rate of w."""
        return self.motion(q, w, time)[0]

    def motion(self, q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars]:
        """Return the rate of w, and the constraint forces of loops."""
        found: tuple[Scalars, Scalars] = self._motion(tuple(q), tuple(w), self._u, time)
        return found

    def residual(
        self, q: Scalars, w: Scalars, vd: Scalars, forces: Scalars, time: Scalar
    ) -> tuple[Scalars, Scalars]:
        """Return R, and the rates of continuous states."""
        return residual(self.system, q, w, vd, forces, self._u, time, self._p)


def residual(
    system: "System",
    q: Scalars,
    w: Scalars,
    vd: Scalars,
    forces: Scalars,
    u: Scalars,
    time: Scalar,
    p: Scalars | None = None,
) -> tuple[Scalars, Scalars]:
    """Return the residual of the equations of motion, and the rates of continuous states.

    The residual is tau - ID(q, v, vd) + J^T lambda, then -(J vd + bias) for loops; `forces` is
    lambda, the other arguments are those of `System.rates`.
    """
    q, v, x = system.split(q, w)
    here, driving, own = system.acting(q, v, x, u, time, p)
    needed = rnea(here.plan, q, v, JointVector(vd), here.gravity, here.external)
    force = system.with_carried_forces(driving.force, q, u)
    left: list[Scalar] = [a - b for a, b in zip(force, needed, strict=True)]
    for joint in system.prescribed(time, p):
        for i, wanted in joint.accelerations:
            left[i] = wanted - vd[i]
    if system.model.loops:
        terms = system.held_loops.constraints(here, q, v, x)
        left = add_constraints(left, terms, vd, forces)
    return tuple(left), (*driving.rates, *own)


def linear_solver(
    system: "System", q: Scalars, w: Scalars, time: Scalar
) -> Callable[[Scalars], Scalars]:
    """Return a solver of [[H, J^T], [J, 0]] [vd; -lambda] = r for vd."""
    q, v, x = system.split(q, w)
    here, n = system.setting(q, v, time), system.model.nv
    if system.model.loops:
        held = system.held_loops.constraints(here, q, v, x)
        solved = constrained_solver(here, q, held, system.held_loops.min_cut)
        return lambda r: solved(tuple(r[:n]), tuple(r[n:]))
    parents, H = expanded_parents(here.plan), mass_elements(here.plan, q)
    primitive = FactorTree(parents)
    # accelerations of prescribed joints are known: their equations are vd = r
    known = {i for joint in system.prescribed(time) for i, _ in joint.accelerations}

    def entry(i: int, j: int) -> Scalar:
        if i in known or j in known:
            return 1.0 if i == j else 0.0
        return H[i * n + j]

    factor = primitive.apply([entry(i, j) for i, j in primitive.layout.elements()])

    def solve(r: Scalars) -> Scalars:
        right = [
            r[i] if i in known else r[i] - sum((H[i * n + k] * r[k] for k in known), start=0.0)
            for i in range(n)
        ]
        return tuple(SolveTree(parents).apply([*factor, *right]))

    return solve


def rate_changes(
    chart: Chart, y: Scalars, *time: Scalar, rates: Scalars | None = None
) -> RateChanges:
    """Differentiate the rates of coordinates y at the origin of a chart.

    `rates` are the rates there, if they are known.
    """
    if current_graph() is None:
        return _on_floats(chart, y, *time)
    if isinstance(chart.acceleration, ImplicitRates):
        columns = _implicit_columns(chart, chart.acceleration, y, time, rates)
    else:
        columns = _columns(chart, y, time)
    return RateChanges(tuple(columns[: len(y)]), columns[len(y)] if time else ())


def _columns(chart: Chart, y: Scalars, time: Scalars) -> list[Scalars]:
    """Return the derivatives of any rates by coordinates and time."""

    @function
    def along(q: Scalars, y: Scalars, time: Scalars, direction: Scalars) -> Any:
        # inside, all of these are leaves of a graph of their own
        found = Chart(chart.manifold, chart.acceleration, q).rates(y, *time)
        return changes_along(found, (*y, *time), direction)

    units = np.eye(len(y) + len(time)).tolist()
    return [along(tuple(chart.q), tuple(y), time, tuple(unit)) for unit in units]


def _implicit_columns(
    chart: Chart, acceleration: ImplicitRates, y: Scalars, time: Scalars, rates: Scalars | None
) -> list[Scalars]:
    """Return the derivatives by coordinates and time, by implicit differentiation."""
    system, count = acceleration.system, chart.position_count
    nv, w = system.model.nv, tuple(y[count:])
    forces: Scalars = ()
    if system.model.loops or rates is None:
        rates, forces = acceleration.motion(chart.q, w, *time)
        rates = (*(0.0,) * count, *rates)
    vd = tuple(rates[count : count + nv])
    solve = linear_solver(system, chart.q, w, *time)

    @function
    def along(
        origin: Scalars, y: Scalars, vd: Scalars, forces: Scalars, time: Scalars, direction: Scalars
    ) -> Any:
        # inside, all of these are leaves of a graph of their own
        theta = Chart(chart.manifold, acceleration, origin).steps(y)
        q = chart.manifold.move(origin, theta)
        left, own = acceleration.residual(q, tuple(y[count:]), vd, forces, *time)
        return changes_along((*left, *own), (*y, *time), direction)

    state = (tuple(chart.q), tuple(y), vd, forces, tuple(time))
    size = len(y) + len(time)

    def change(index: Scalar) -> Scalars:
        direction = tuple(np.where(index == float(k), 1.0, 0.0) for k in range(size))
        found = along(*state, direction)
        return (*solve(found[: nv + len(forces)]), *found[nv + len(forces) :])

    by_theta, by_v = chart.manifold.coordinate_changes(chart.q, w[:nv])
    steps = [*by_theta, *by_v, *[(0.0,) * count] * (size - count - nv)]
    return [(*a, *b) for a, b in zip(steps, for_each(size, change), strict=True)]


def _on_floats(chart: Chart, y: Scalars, *time: Scalar) -> RateChanges:
    """Trace the rates for the sake of their derivatives, and evaluate these."""
    size = len(y)

    def rates(given: Any) -> Any:
        values = given.tolist()
        return list(chart.rates(tuple(values[:size]), *values[size:]))

    at = np.array([float(x) for x in (*y, *time)])
    program = jacobian(trace(rates, [Input("state", at.shape)], name="rates"), mode="forward")
    columns = np.asarray(interpret(program, {"state": at})).T.tolist()
    found = tuple(tuple(column) for column in columns)
    return RateChanges(found[:size], found[size] if time else ())
