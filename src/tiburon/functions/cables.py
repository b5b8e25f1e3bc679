"""Cable-driven robots for users: structure matrix, available wrenches, closed-form tensions."""

from typing import Any

import numpy as np

from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.kinematics import forward_kinematics, frame_jacobian
from tiburon.load_sharing.cables import WrenchPolytope, closed_form_tensions, wrench_polytope
from tiburon.model import Model, World
from tiburon.record import record


@record(eq=False)
class CableTensions:
    """Tensions of a cable robot in a motion, and how far they are from their limits."""

    names: tuple[str, ...]
    """Names of the cables."""

    tensions: Array
    """Closed-form tensions, nearest to the mean ones [N], shape (cables,)."""

    structure: Array
    """A: generalized force of unit tensions, one column per cable, shape (nv, cables)."""

    needed: Array
    """Generalized force that the motion needs of the cables [N or N m], shape (nv,)."""

    polytope: WrenchPolytope
    """Generalized forces that the cables can give."""

    margin: float
    """Distance of the needed force from the nearest facet of the polytope, moments by `length`
    [N]; negative where no tensions within the limits give it."""

    is_feasible: bool
    """Whether tensions within the limits give the motion."""

    is_within: bool
    """Whether the closed-form tensions are within the limits."""


@public
def structure_matrix(model: Model, q: ArrayLike) -> Array:
    """Return the generalized forces of unit tensions of all cables, shape (nv, cables).

    Minus the transposed Jacobian of the lengths: a cable pulls its ends together.

    Args:
        model: The robot; it has cables.
        q: Configuration [m or rad], shape (nq,).
    """
    at = np.asarray(q, dtype=np.float64)
    if at.shape != (model.nq,):
        raise ShapeError("q", (model.nq,), at.shape)
    if not model.cables:
        raise ModelError(f"model {model.name!r}: expected cables, got none; give it Cable(...)")
    columns = []
    for cable in model.cables:
        ends = []
        for frame, point in (
            (cable.first, cable.first_point),
            (cable.second, cable.second_point),
        ):
            local = np.array(point)
            if frame == "world":
                ends.append((local, np.zeros((3, model.nv))))
                continue
            R, p = forward_kinematics(model, at, frame)
            arm = np.asarray(R) @ local
            J = np.asarray(frame_jacobian(model, at, frame))
            # velocity of the point: v + w x arm
            ends.append((np.asarray(p) + arm, J[3:] - np.cross(arm, J[:3], axisb=0, axisc=0)))
        span = ends[1][0] - ends[0][0]
        length = float(np.linalg.norm(span))
        if not length > 0.0:
            raise DomainError(
                "q", "cables of some length", f"cable {cable.name!r} of length 0", advice="move it"
            )
        columns.append(-(span / length) @ (ends[1][1] - ends[0][1]))
    return np.array(columns).T


@public
def cable_tensions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vd: ArrayLike | None = None,
    *,
    world: World | None = None,
    length: float = 1.0,
) -> CableTensions:
    """Return closed-form tensions of a cable robot, and the forces that its cables can give.

    `LoadSharing.of(model).share(q, v, vd)` finds tensions within the limits wherever there are
    some; this is the check by geometry, and the formula where no limit is reached.

    Args:
        model: A robot that only cables drive, with finite tension limits.
        q: Configuration [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,); at rest by default.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (nv,); zero by default.
        world: Surroundings.
        length: Lever by which moments count in `margin` [m].

    Raises:
        ModelError: If the robot has no cables, or has actuators besides them.
        DomainError: If a tension limit is infinite.
    """
    if model.actuators or model.loops:
        raise ModelError(
            f"model {model.name!r}: expected a robot that only cables drive, got actuators or "
            "loops beside; use LoadSharing"
        )
    lever_length = positive("length", length, "m")
    A = structure_matrix(model, q)
    low, high = np.array([cable.tension_limits for cable in model.cables]).T
    for cable, most in zip(model.cables, high, strict=True):
        if not np.isfinite(most):
            raise DomainError(
                f"tension_limits of cable {cable.name!r}", "a finite largest tension", "none"
            )
    rates = []
    for name, given in (("v", v), ("vd", vd)):
        array = np.zeros(model.nv) if given is None else np.asarray(given, dtype=np.float64)
        if array.shape != (model.nv,):
            raise ShapeError(name, (model.nv,), array.shape)
        rates.append(array)
    around: Any = {} if world is None else {"world": world}
    needed = np.asarray(inverse_dynamics(model, q, *rates, **around))
    # rows of moments count by forces at a lever
    lever = np.ones(model.nv)
    for joint in model.joints:
        if joint.nv:
            own = model.slice(joint.name, of="v")
            for k, column in enumerate(joint.subspace(list(joint.neutral())), start=own.start):
                if any(float(x) for x in column.angular):
                    lever[k] = 1.0 / lever_length
    polytope = wrench_polytope(lever[:, None] * A, low, high)
    margin = float(polytope.margin(lever * needed)) if len(polytope.offsets) else -np.inf
    tensions = closed_form_tensions(A, needed, low, high)
    slack = 1e-9 * float(high.max())
    reached = bool(np.allclose(A @ tensions, needed, atol=1e-8 * max(1.0, np.abs(needed).max())))
    within = reached and bool(((tensions >= low - slack) & (tensions <= high + slack)).all())
    names = tuple(cable.name for cable in model.cables)
    return CableTensions(names, tensions, A, needed, polytope, margin, margin >= -slack, within)
