"""Center of mass, momentum and energy for users.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import OptionError
from tiburon.functions.keywords import MODEL_CALL, ModelCall, WorldCall
from tiburon.functions.library import INERTIA, LibraryFunction, front_door, number
from tiburon.model import Model
from tiburon.spatial import ArticulatedInertia, RigidInertia, Scalar, Vec3
from tiburon.trace.array import as_traced

Array = NDArray[np.float64]
Energy = np.float64 | Array
Scalars = Sequence[Scalar]


POINTS = ("com", "world")
"""Points about which the moment of momentum may be taken."""


def _center(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import mass_point

    return as_traced(list(mass_point(setting.plan, q).c))


def _center_jacobian(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import momentum_columns

    plan = setting.plan
    columns, total = momentum_columns(plan, q, [body.inertia for body in plan.bodies])
    assert isinstance(total, RigidInertia)
    rows = [column.force[axis] / total.mass for axis in range(3) for column in columns]
    return as_traced(rows).reshape(3, plan.nv)


def _momentum(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.momentum import about, mass_point, total_momentum

    h = total_momentum(setting.plan, q, v, setting.water)
    if dict(setting.options).get("at", "com") == "com":
        h = about(h, mass_point(setting.plan, q).c)
    return as_traced(list(h))


def _momentum_matrix(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import mass_point, momentum_columns

    plan = setting.plan

    def center(total: RigidInertia | ArticulatedInertia) -> Vec3:
        # water has no part in the center of mass
        return total.com if isinstance(total, RigidInertia) else mass_point(plan, q).c

    about_center = center if dict(setting.options).get("at", "com") == "com" else None
    inertias = [body.felt for body in plan.bodies]
    columns, _ = momentum_columns(plan, q, inertias, about_center)
    rows = zip(*columns, strict=True) if columns else [()] * 6
    return as_traced([x for row in rows for x in row]).reshape(6, plan.nv)


def _kinetic(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.energy import kinetic

    return kinetic(setting.plan, q, v, setting.water)


def _potential(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.energy import potential

    return potential(setting.plan, q, setting.gravity, setting.water)


_CENTER: LibraryFunction[Array] = LibraryFunction(
    "center_of_mass", ("q",), _center, parameters=(INERTIA,), keywords=MODEL_CALL
)
_CENTER_JACOBIAN: LibraryFunction[Array] = LibraryFunction(
    "center_of_mass_jacobian", ("q",), _center_jacobian, parameters=(INERTIA,), keywords=MODEL_CALL
)
_MOMENTUM: LibraryFunction[Array] = LibraryFunction(
    "momentum", ("q", "v"), _momentum, parameters=(INERTIA,)
)
_MOMENTUM_MATRIX: LibraryFunction[Array] = LibraryFunction(
    "momentum_matrix", ("q",), _momentum_matrix, parameters=(INERTIA,)
)
_KINETIC: LibraryFunction[Energy] = LibraryFunction(
    "kinetic_energy", ("q", "v"), _kinetic, make=number, parameters=(INERTIA,)
)
_POTENTIAL: LibraryFunction[Energy] = LibraryFunction(
    "potential_energy", ("q",), _potential, make=number
)


@front_door(_CENTER)
def center_of_mass(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Find the center of mass of all bodies that move.

    Bodies fixed to the world are left out.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Center of mass, world axes [m], shape (..., 3).
    """
    return _CENTER.request(model, (q,), options)


@front_door(_CENTER_JACOBIAN)
def center_of_mass_jacobian(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Compute the Jacobian of the center of mass: its velocity is J v.

    Bodies fixed to the world are left out.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Jacobian, rows in world axes [m, or 1 for lengths], shape (..., 3, nv).
    """
    return _CENTER_JACOBIAN.request(model, (q,), options)


def _about(at: str) -> Options:
    if at not in POINTS:
        raise OptionError("at", POINTS, at)
    return () if at == "com" else (("at", at),)


@front_door(_MOMENTUM)
def momentum(
    model: Model, q: ArrayLike, v: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> Array:
    """Compute the momentum of all bodies together.

    In water that of the water they set in motion counts, added mass times velocity relative to the
    water: without gravity, buoyancy and drag, the momentum about the world's origin of a robot that
    floats in still water is constant.

    Args:
        q, v: Configuration and joint velocity.
        at: "com" for the moment about the center of mass of all moving bodies (centroidal
            momentum), "world" for that about the world's origin.
        **options: `time`, `world` and `fluid`; `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Moment of momentum and linear momentum, world axes [kg m^2/s, kg m/s], shape (..., 6).
    """
    return _MOMENTUM.request(model, (q, v), options, _about(at))


@front_door(_MOMENTUM_MATRIX)
def momentum_matrix(
    model: Model, q: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> Array:
    """Compute the matrix that gives the momentum: ``momentum = matrix @ v``.

    Where `Driven` joints or a current move by themselves, the momentum at v = 0 comes on top. About
    the center of mass this is the centroidal momentum matrix.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        at: "com" for the moment about the center of mass of all moving bodies, "world" for that
            about the world's origin.

    Returns:
        Matrix with three rows for the moment of momentum and three for linear momentum, world axes,
        shape (..., 6, nv).
    """
    return _MOMENTUM_MATRIX.request(model, (q,), options, _about(at))


@front_door(_KINETIC)
def kinetic_energy(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[WorldCall]
) -> Energy:
    """Compute the kinetic energy.

    Args:
        q, v: Configuration and joint velocity.
        **options: `time`; `world` and `fluid`: the energy that bodies give it counts; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Kinetic energy [J], one value per state.
    """
    return _KINETIC.request(model, (q, v), options)


@front_door(_POTENTIAL)
def potential_energy(model: Model, q: ArrayLike, **options: Unpack[WorldCall]) -> Energy:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Bodies fixed to the world are left out, since their share never changes.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        **options: `time`; `world` and `fluid`, which lifts what it is displaced by; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Potential energy [J], one value per state.
    """
    return _POTENTIAL.request(model, (q,), options)
