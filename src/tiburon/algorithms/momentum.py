"""Momentum of the robot and the matrix that gives it, about its center of mass or the origin.

Symbols:
    h       momentum, [moment of momentum; linear momentum], world axes
    c       center of mass of all moving bodies, in the world
"""

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.center_of_mass import mass_point
from tiburon.algorithms.momentum_sweep import about, momentum_columns, total_momentum
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import OptionError
from tiburon.functions.keywords import WorldCall, takes_conditions
from tiburon.functions.library import INERTIA, LibraryFunction, Options, call_under
from tiburon.model import Model, World
from tiburon.spatial import ArticulatedInertia, RigidInertia, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["momentum", "momentum_matrix"]

POINTS = ("com", "world")
"""Points about which the moment of momentum may be taken."""


def _options(at: str) -> Options:
    if at not in POINTS:
        raise OptionError("at", POINTS, at)
    return () if at == "com" else (("at", at),)


def _position(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _state(model: Model, options: Options) -> list[Input]:
    return [*_position(model, options), Input("v", (model.nv,), described=model.describe_v())]


def _run_momentum(model: Model, world: World | None, options: Options, q: Any, v: Any) -> Any:
    position = scalars(q)
    plan, _, water = surroundings_at(model, world, position)
    h = total_momentum(plan, position, scalars(v), water)
    if dict(options).get("at", "com") == "com":
        h = about(h, mass_point(plan, position).c)
    return as_traced(list(h))


def _run_matrix(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)

    def center(total: RigidInertia | ArticulatedInertia) -> Vec3:
        # water has no part in the center of mass
        return total.com if isinstance(total, RigidInertia) else mass_point(plan, position).c

    about_center = center if dict(options).get("at", "com") == "com" else None
    inertias = [body.felt for body in plan.bodies]
    columns, _ = momentum_columns(plan, position, inertias, about_center)
    rows = zip(*columns, strict=True) if columns else [()] * 6
    return as_traced([x for row in rows for x in row]).reshape(6, model.nv)


_MOMENTUM = LibraryFunction("momentum", _state, _run_momentum, parameters=(INERTIA,))
_MATRIX = LibraryFunction("momentum_matrix", _position, _run_matrix, parameters=(INERTIA,))


@public
@takes_conditions
def momentum(
    model: Model, q: ArrayLike, v: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> NDArray[np.float64]:
    """Compute the momentum of all bodies together.

    In water that of the water they set in motion counts, added mass times velocity relative to the
    water: without gravity, buoyancy and drag, the momentum about the world's origin of a robot that
    floats in still water is constant. One state or a batch. Inside a function given to
    `tiburon.compile` the arrays may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        at: "com" for the moment about the center of mass of all moving bodies (centroidal
            momentum), "world" for that about the world's origin.
        **options: `time`, `world` and `fluid`; `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Moment of momentum and linear momentum, world axes [kg m^2/s, kg m/s], shape (..., 6).
    """
    answer: NDArray[np.float64] = call_under(options, _MOMENTUM, model, (q, v), _options(at))
    return answer


@public
@takes_conditions
def momentum_matrix(
    model: Model, q: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> NDArray[np.float64]:
    """Compute the matrix that gives the momentum: ``momentum = matrix @ v``.

    Where `Driven` joints or a current move by themselves, the momentum at v = 0 comes on top. About
    the center of mass this is the centroidal momentum matrix. One state or a batch. Inside a
    function given to `tiburon.compile` q may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        at: "com" for the moment about the center of mass of all moving bodies, "world" for that
            about the world's origin.
        **options: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`: see
            `Conditions` and `Delivery`.

    Returns:
        Matrix with three rows for the moment of momentum and three for linear momentum, world axes,
        shape (..., 6, nv).
    """
    answer: NDArray[np.float64] = call_under(options, _MATRIX, model, (q,), _options(at))
    return answer
