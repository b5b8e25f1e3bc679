"""The manipulator of Khan 2002 as chapter 2 cuts it: three dyads and a platform, six constraints.

The zoo's `planar_3rrr` hangs the platform on the first leg and has seven joint angles. Chapter 2
has nine coordinates: two absolute angles of every dyad and the pose of the platform,

    q = [theta_1, theta_2]^I, [..]^II, [..]^III, phi, x, y,

and closes each leg at the platform with c = a0 + a1 + a2 + a3 - p (2.3). The model here has the
same bodies and constraints, with relative angles of the distal links: `ABSOLUTE` maps one to the
other. The map is linear, so that Runge-Kutta steps in both are the same.

Data: table 4.1; the base side of 1.0 m, which is not printed, follows from the printed pose, whose
distal angles are relative; g = 9.81 m/s^2; mass centers in the middle of the links (m l^2 / 12 are
their printed moments). All plane vectors lie in the vertical plane: y of the source is z of the
world.

Symbols: A, Ad constraint Jacobian and its rate, c residual, H mass matrix, C bias force, both in
the coordinates of the source; u generalized force.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array, ArrayLike
from tiburon.formats.load import load
from tiburon.functions.closed_loops import constraint_residual, loop_inverse_dynamics, loop_jacobian
from tiburon.functions.compilation import compile
from tiburon.functions.dynamics import bias_force, forward_dynamics, mass_matrix
from tiburon.loops.constraints import constraints
from tiburon.model import Actuator, Body, Frame, Inertia, Model, Pose, Prismatic, Revolute
from tiburon.model.closure_kinds import ConstraintFunction
from tiburon.record import record
from tiburon.reproduce.chebyshev import chebyshev_nodes, chebyshev_series, series_value
from tiburon.trace.array import as_traced
from tiburon.trace.declared import traced
from tiburon.zoo.parts import plate, thin_rod, upright

PROXIMAL, DISTAL, SIDE, BASE = 0.4, 0.6, 0.4, 1.0
"""Lengths of links, side of the platform and of the base [m]."""

RADIUS = SIDE / math.sqrt(3.0)
"""From the center of the platform to its corners [m]."""

PIVOTS = ((0.0, 0.0), (BASE, 0.0), (0.5 * BASE, 0.5 * math.sqrt(3.0) * BASE))
"""Base joints of the legs, in the plane [m]."""

OFFSETS = tuple(7.0 * math.pi / 6.0 + k * 2.0 * math.pi / 3.0 for k in range(3))
"""Directions of the corners from the center at phi = 0 [rad]."""

DURATION = 3.0
"""T [s]."""

ACTUATED = (0, 2, 4)
"""Places of the actuated angles in q."""

PRINTED_POSE = {
    "theta_4": -0.865,
    "theta_5": -2.102,
    "theta_6": -0.976,
    "x_7": 0.728,
    "y_7": 0.233,
    "theta_7": 3.916,
}
"""The initial pose as printed, rounded to 1e-3 [rad, m]; distal angles are relative."""


def _absolute() -> Array:
    """Return the map from the model's coordinates to those of the source."""
    T = np.zeros((9, 9))
    for leg in range(3):
        T[2 * leg, 2 * leg] = 1.0
        T[2 * leg + 1, 2 * leg : 2 * leg + 2] = 1.0
    # the model has x, y, phi
    T[6, 8] = T[7, 6] = T[8, 7] = 1.0
    return T


ABSOLUTE = _absolute()
"""Coordinates of the source from those of the model; the same map holds for their rates."""

_RELATIVE = np.linalg.inv(ABSOLUTE)


def to_absolute(q: ArrayLike) -> Array:
    """Return coordinates of the source, shape (..., 9), from those of the model."""
    return np.asarray(np.asarray(q) @ ABSOLUTE.T)


def from_absolute(q: ArrayLike) -> Array:
    """Return coordinates of the model, shape (..., 9), from those of the source."""
    return np.asarray(np.asarray(q) @ _RELATIVE.T)


@record
class Closure:
    """c of a leg (2.3): the distance of the distal link's tip from its corner, in the plane."""

    def __call__(self, tip: Any, corner: Any) -> tuple[Any, Any]:
        """Return both components in world axes [m]."""
        return tip.p[0] - corner.p[0], tip.p[2] - corner.p[2]


@cache
def mechanism() -> Model:
    """Return the manipulator cut at the platform: nine coordinates, six constraints."""
    bodies, frames = [], []
    for leg, (x, y) in enumerate(PIVOTS, start=1):
        bodies += [
            Body(
                f"proximal_{leg}",
                joint=Revolute(f"theta_1_{leg}", pose=upright(x, y)),
                inertia=thin_rod(3.0, PROXIMAL),
            ),
            Body(
                f"distal_{leg}",
                f"proximal_{leg}",
                joint=Revolute(f"theta_2_{leg}", pose=Pose(translation=(PROXIMAL, 0.0, 0.0))),
                inertia=thin_rod(4.0, DISTAL),
            ),
        ]
        frames.append(Frame(f"tip_{leg}", f"distal_{leg}", Pose(translation=(DISTAL, 0.0, 0.0))))
    bodies += [
        Body("carriage", joint=Prismatic("x", (1.0, 0.0, 0.0), pose=upright()), inertia=Inertia(0)),
        Body("slide", "carriage", joint=Prismatic("y", (0.0, 1.0, 0.0)), inertia=Inertia(0)),
        Body("platform", "slide", joint=Revolute("phi"), inertia=plate(8.0, (0, 0, 0), 0.0817)),
    ]
    for leg, angle in enumerate(OFFSETS, start=1):
        corner = (RADIUS * math.cos(angle), RADIUS * math.sin(angle), 0.0)
        frames.append(Frame(f"corner_{leg}", "platform", Pose(translation=corner)))
    loops = [
        ConstraintFunction(
            f"leg_{leg}",
            Closure(),
            frames=(f"tip_{leg}", f"corner_{leg}"),
            count=2,
            units=("m", "m"),
        )
        for leg in (1, 2, 3)
    ]
    motors = [Actuator(f"motor_{leg}", f"theta_1_{leg}") for leg in (1, 2, 3)]
    return Model("khan_2002", bodies, frames, loops=loops, actuators=motors)


# -- the motion ------------------------------------------------------------------------------------


def driven_angles(time: ArrayLike) -> tuple[Array, Array, Array]:
    """Return angles, rates and accelerations of the actuated joints, each of shape (..., 3)."""
    t = np.asarray(time, dtype=float)[..., None]
    w = 2.0 * math.pi / DURATION
    share = np.array([1.0 / 6.0, 1.0 / 6.0, 1.0 / 12.0])
    start = math.pi * np.array([1.0 / 3.0, 4.0 / 3.0, 11.0 / 6.0])
    s, rate = w * t - np.sin(w * t), w * (1.0 - np.cos(w * t))
    return start + share * s, share * rate, share * (w * w * np.sin(w * t))


def printed_start() -> Array:
    """Return the printed initial pose in coordinates of the source; loops are open by 4e-4 m."""
    first = driven_angles(0.0)[0]
    q = np.empty(9)
    q[[0, 2, 4]] = first
    q[[1, 3, 5]] = first + [PRINTED_POSE[f"theta_{k}"] for k in (4, 5, 6)]
    q[6:] = PRINTED_POSE["theta_7"], PRINTED_POSE["x_7"], PRINTED_POSE["y_7"]
    return q


@cache
def _home() -> tuple[float, ...]:
    return tuple(_closed(printed_start()).tolist())


def home() -> Array:
    """Return the initial pose with closed loops, in coordinates of the source."""
    return np.array(_home())


_DEPENDENT = [1, 3, 5, 6, 7, 8]


def _closed(q: Array) -> Array:
    """Close the loops by Newton's method with the actuated angles held."""
    model, q = mechanism(), q.copy()
    for _ in range(20):
        c = constraint_residual(model, from_absolute(q))
        if np.abs(c).max() < 1e-15:
            break
        A = loop_jacobian(model, from_absolute(q)) @ _RELATIVE
        step = np.linalg.solve(A[:, _DEPENDENT], c)
        q[_DEPENDENT] -= step
        if np.abs(step).max() < 1e-15:
            break
    return q


class Motion(NamedTuple):
    """The prescribed motion in coordinates of the source, n times."""

    time: Array
    """[s], shape (n,)."""

    q: Array
    """Coordinates [rad, m], shape (n, 9)."""

    v: Array
    vd: Array


def motion(times: Sequence[float] | Array) -> Motion:
    """Return the prescribed motion at times that rise; loops are closed to rounding."""
    when = np.asarray(times, dtype=float)
    q, rows = home(), []
    before = 0.0
    for time in when:
        # follow the assembly branch of the start
        for t in np.linspace(before, time, 1 + max(1, math.ceil((time - before) / 0.05)))[1:]:
            q[list(ACTUATED)] = driven_angles(t)[0]
            q = _closed(q)
        if time == before == 0.0:
            q = _closed(q)
        before = float(time)
        rows.append(q.copy())
    _, rate, acceleration = driven_angles(when)
    v, vd = np.empty((len(when), 9)), np.empty((len(when), 9))
    v[:, list(ACTUATED)], vd[:, list(ACTUATED)] = rate, acceleration
    for k, pose in enumerate(rows):
        A = terms(pose, np.zeros(9)).A
        split = A[:, _DEPENDENT], A[:, list(ACTUATED)]
        v[k, _DEPENDENT] = -np.linalg.solve(split[0], split[1] @ rate[k])
        bias = terms(pose, v[k]).bias
        vd[k, _DEPENDENT] = -np.linalg.solve(split[0], split[1] @ acceleration[k] + bias)
    return Motion(when, np.array(rows), v, vd)


def torques(at: Motion) -> Array:
    """Return the torques of the actuated joints that make a motion [N m], shape (n, 3)."""
    model = mechanism()
    q, v, vd = (from_absolute(x) for x in (at.q, at.v, at.vd))
    found = loop_inverse_dynamics(model, q, v, vd).tau
    return np.asarray(found)[:, [model.v_names.index(f"theta_1_{k}") for k in (1, 2, 3)]]


def zoo_motion(at: Motion) -> tuple[Array, Array, Array]:
    """Return a motion in the coordinates of the zoo's `planar_3rrr`: q, v, vd of shape (n, 7)."""
    T = np.zeros((7, 9))
    for leg in range(3):
        T[leg, 2 * leg] = 1.0
        T[3 + leg, 2 * leg], T[3 + leg, 2 * leg + 1] = -1.0, 1.0
    # the platform is turned from the first distal link, whose absolute angle is the second entry
    T[6, 6], T[6, 1] = 1.0, -1.0
    names = load("planar_3rrr").v_names
    order = [names.index(f"theta_{k}") for k in range(1, 8)]
    found = []
    for x in (at.q, at.v, at.vd):
        y = np.empty((len(x), 7))
        y[:, order] = x @ T.T
        found.append(y)
    return found[0], found[1], found[2]


SERIES_DEGREE = 64
"""Degree of the Chebyshev series of the torques: its error is below 1e-12 N m, far below what the
instability of the motion turns into a visible error."""


@cache
def torque_series() -> Array:
    """Return Chebyshev coefficients of the torques over [0, T], shape (degree + 1, 3) [N m]."""
    nodes = chebyshev_nodes(SERIES_DEGREE + 1, DURATION)
    return chebyshev_series(torques(motion(nodes)))


def _series(time: Any) -> list[Any]:
    return series_value(torque_series(), DURATION, time)


def series_at(time: ArrayLike) -> Array:
    """Return the torques at some times from their series [N m], shape (..., 3)."""
    return np.stack(_series(np.asarray(time, dtype=float)), axis=-1)


def actuated_names(model: Model) -> list[str]:
    """Return the names of the actuated joints of `mechanism` or of the zoo's `planar_3rrr`."""
    form = "theta_1_{}" if model.name == mechanism().name else "theta_{}"
    return [form.format(k) for k in (1, 2, 3)]


def torque_control(
    gains: tuple[float, float] = (0.0, 0.0), model: Model | None = None
) -> Callable[[Any], Any]:
    """Return a controller that applies the torques of the motion.

    Args:
        gains: Stiffness [N m/rad] and damping [N m s/rad] of feedback at the actuated joints.
        model: `mechanism`, the default, or the zoo's `planar_3rrr`.
    """
    return _control(gains, mechanism() if model is None else model)


@cache
def _control(gains: tuple[float, float], of: Model) -> Callable[[Any], Any]:
    # one object per case: runs find their compiled code by it
    places = [of.v_names.index(name) for name in actuated_names(of)]
    stiffness, damping = gains
    # computed before it is traced
    torque_series()

    @traced
    def control(state: Any) -> Any:
        angles, rates = ([x[k] for k in places] for x in (state.q, state.v))
        found = _with_feedback(state.time, angles, rates, stiffness, damping)
        return {f"motor_{k}": torque for k, torque in enumerate(found, start=1)}

    return control


def _with_feedback(
    time: Any, angles: Sequence[Any], rates: Sequence[Any], stiffness: float, damping: float
) -> list[Any]:
    found = _series(time)
    if stiffness == damping == 0.0:
        return found
    w = 2.0 * math.pi / DURATION
    s, rate = w * time - np.sin(w * time), w * (1.0 - np.cos(w * time))
    for k, (start, share) in enumerate(zip((2.0, 8.0, 11.0), (2.0, 2.0, 1.0), strict=True)):
        wanted, speed = start * math.pi / 6.0 + share / 12.0 * s, share / 12.0 * rate
        found[k] = found[k] + stiffness * (wanted - angles[k]) + damping * (speed - rates[k])
    return found


# -- equations of motion ---------------------------------------------------------------------------


class Terms(NamedTuple):
    """Equations of motion in one state, in coordinates of the source (2.5)."""

    H: Array
    """Inertia [kg m^2, kg m, kg], shape (9, 9)."""

    C: Array
    """Bias force with gravity [N m, N], shape (9,)."""

    A: Array
    """Constraint Jacobian, shape (6, 9)."""

    bias: Array
    """Ad qd [m/s^2], shape (6,)."""

    c: Array
    """Constraint residual [m], shape (6,)."""


@cache
def _terms_kernel() -> Callable[..., Any]:
    model = mechanism()

    def equations(tree: Model, absolute: Any, rates: Any) -> Any:
        q, v = _RELATIVE @ absolute, _RELATIVE @ rates
        found = constraints(model, model.plan, q.tolist(), v.tolist())
        rows = [row.get(i, 0.0) for row in found.jacobian for i in range(9)]
        return {
            "H": _RELATIVE.T @ (mass_matrix(tree, q) @ _RELATIVE),
            "C": _RELATIVE.T @ bias_force(tree, q, v),
            "A": as_traced(rows).reshape(6, 9) @ _RELATIVE,
            "bias": as_traced(list(found.bias)),
            "c": as_traced(list(found.value)),
        }

    return compile(equations, model.without_loops(), shapes={"absolute": 9, "rates": 9})


def terms(q: Array, v: Array) -> Terms:
    """Return the equations of motion, all in coordinates of the source."""
    return Terms(*_terms_kernel()(q, v))


@cache
def _penalty_kernel() -> Callable[..., Any]:
    model = mechanism()
    places = [model.v_names.index(f"theta_1_{k}") for k in (1, 2, 3)]

    def penalty(tree: Model, q: Any, v: Any, torque: Any, gains: Any) -> Any:
        found = constraints(model, model.plan, q.tolist(), v.tolist())
        force: list[Any] = [0.0] * 9
        for k, place in enumerate(places):
            force[place] = torque[k]
        for row, c, rate in zip(found.jacobian, found.value, found.rate, strict=True):
            multiplier = gains[0] * c + gains[1] * rate
            for i, x in row.items():
                force[i] = force[i] - x * multiplier
        return forward_dynamics(tree, q, v, as_traced(force))

    return compile(penalty, model.without_loops(), shapes={"torque": 3, "gains": 2})


def penalty_acceleration(q: Array, v: Array, torque: Array, stiffness: float) -> Array:
    """Return accelerations of the penalty formulation (2.7), d = 2 sqrt(k); model coordinates."""
    gains = np.array([stiffness, 2.0 * math.sqrt(stiffness)])
    return np.asarray(_penalty_kernel()(q, v, torque, gains))
