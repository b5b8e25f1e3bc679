"""Momentum of the robot and the matrix that gives it, about its center of mass or the origin.

Symbols:
    h       momentum, [moment of momentum; linear momentum], world axes
    c       center of mass of all moving bodies, in the world
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.binding import plan_and_gravity
from tiburon.algorithms.center_of_mass import mass_point
from tiburon.algorithms.library import INERTIA, LibraryFunction, Options, call, scalars
from tiburon.algorithms.momentum_sweep import about, momentum_columns, total_momentum
from tiburon.errors import OptionError
from tiburon.model import Model, World
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
    plan, _ = plan_and_gravity(model, world)
    h = total_momentum(plan, scalars(q), scalars(v))
    if dict(options).get("at", "com") == "com":
        h = about(h, mass_point(plan, scalars(q)).c)
    return as_traced(list(h))


def _run_matrix(model: Model, world: World | None, options: Options, q: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    centroidal = dict(options).get("at", "com") == "com"
    columns, _ = momentum_columns(plan, scalars(q), centroidal=centroidal)
    rows = zip(*columns, strict=True) if columns else [()] * 6
    return as_traced([x for row in rows for x in row]).reshape(6, model.nv)


_MOMENTUM = LibraryFunction("momentum", _state, _run_momentum, parameters=(INERTIA,))
_MATRIX = LibraryFunction("momentum_matrix", _position, _run_matrix, parameters=(INERTIA,))


def momentum(
    model: Model, q: ArrayLike, v: ArrayLike, *, at: str = "com", time: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Compute the momentum of all bodies together.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        at: "com" for the moment about the center of mass of all moving bodies (centroidal
            momentum), "world" for that about the world's origin.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Moment of momentum and linear momentum, world axes [kg m^2/s, kg m/s], shape (..., 6).
    """
    answer: NDArray[np.float64] = call(_MOMENTUM, model, (q, v), None, _options(at), time=time)
    return answer


def momentum_matrix(
    model: Model, q: ArrayLike, *, at: str = "com", time: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Compute the matrix that gives the momentum: ``momentum = matrix @ v``.

    About the center of mass this is the centroidal momentum matrix. One state or a batch. Inside a
    function given to `tiburon.compile` q may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        at: "com" for the moment about the center of mass of all moving bodies, "world" for that
            about the world's origin.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Matrix with three rows for the moment of momentum and three for linear momentum, world axes,
        shape (..., 6, nv).
    """
    answer: NDArray[np.float64] = call(_MATRIX, model, (q,), None, _options(at), time=time)
    return answer
