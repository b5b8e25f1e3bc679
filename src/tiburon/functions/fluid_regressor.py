"""Regressor of hydrodynamic parameters: forces of the water are linear in them.

Compiled inverse dynamics takes coefficients of links in water as one table, in which it is linear.
Its derivative by the table, times the table of each unit parameter of a body, is the regressor.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.algorithms.surroundings import world_with
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, UnknownNameError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.kernel_source import IMMERSION, LibrarySource
from tiburon.functions.parameters import KernelParameters
from tiburon.model import BodyFluid, Model, Water, World
from tiburon.model.model import per_model
from tiburon.model.parameters import SPATIAL_AXES
from tiburon.model.plan import WORLD_BODY
from tiburon.native.code import Part
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace.derivative import reverse_derivative

MOMENTS = ("volume_moment_x", "volume_moment_y", "volume_moment_z")
"""Volume times center of buoyancy: forces are linear in these, not in the center."""

_PAIRS = [(i, j) for i in range(6) for j in range(6)]
_UPPER = [(i, j) for i, j in _PAIRS if i <= j]
_MATRICES = {"added_mass": _UPPER, "linear_damping": _PAIRS, "quadratic_damping": _PAIRS}


def _words() -> list[str]:
    """Return the names of the parameters of one body."""
    found = ["volume", *MOMENTS]
    for word, places in _MATRICES.items():
        for i, j in places:
            a, b = SPATIAL_AXES[i], SPATIAL_AXES[j]
            found.append(f"{word}.{a}" if i == j else f"{word}.{a}_{b}")
    return found


def _chosen(model: Model, bodies: Iterable[str] | None) -> tuple[str, ...]:
    if bodies is None:
        return tuple(body.name for body in model.bodies if body.fluid is not None)
    names = (bodies,) if isinstance(bodies, str) else tuple(bodies)
    for name in names:
        if name not in model.body_names:
            raise UnknownNameError("body", name, model.body_names, where="bodies")
        if model.plan.frame(name).body == WORLD_BODY:
            raise ModelError(
                f"bodies: {name!r} is fixed to the world, where water moves nothing; leave it out",
                name=name,
            )
    return names


@public
def hydrodynamic_parameter_names(
    model: Model, *, bodies: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return one name per column of `fluid_regressor`, such as "hull.added_mass.vx".

    Except for "hull.volume_moment_x" and so on, these are names that `identify` takes, too.

    Args:
        model: The robot.
        bodies: Names of bodies; those with hydrodynamic data by default.
    """
    return tuple(f"{body}.{word}" for body in _chosen(model, bodies) for word in _words())


@public
def hydrodynamic_parameters(model: Model, *, bodies: Iterable[str] | None = None) -> Array:
    """Return the hydrodynamic parameters of bodies, in which inverse dynamics is linear.

    Per body, in its own frame: volume [m^3], volume times center of buoyancy [m^4], 21 entries of
    the added mass [kg m^2, kg m, kg], 36 of the linear damping [N m s/rad, N s/m] and 36 of the
    quadratic damping [N m s^2/rad^2, N s^2/m^2].

    Args:
        model: The robot.
        bodies: Names of bodies; those with hydrodynamic data by default.

    Returns:
        Shape (97 bodies,), in the order of `hydrodynamic_parameter_names`.
    """
    known = {body.name: body.fluid or BodyFluid() for body in model.bodies}
    found: list[float] = []
    for name in _chosen(model, bodies):
        fluid = known[name]
        found += [fluid.volume, *(fluid.volume * x for x in fluid.center_of_buoyancy)]
        for word, places in _MATRICES.items():
            matrix = getattr(fluid, word)
            found += [0.0 if matrix is None else float(matrix[i][j]) for i, j in places]
    return np.array(found)


@public
def fluid_regressor(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    fluid: Water | None = None,
    world: World | None = None,
    bodies: Iterable[str] | None = None,
) -> Array:
    """Compute the matrix that maps hydrodynamic parameters to joint forces.

    ``fluid_regressor(model, q, v, vd, fluid=water) @ hydrodynamic_parameters(model)`` is what
    inverse dynamics adds in the water, but for drag of shapes and fins. Stacked over many states
    beside `regressor`, it finds parameters from measured forces by least squares; `identify` finds
    them from measured motion.

    Args:
        model: The robot, a tree; its own coefficients do not matter.
        q, v, vd: Configuration, joint velocity and joint acceleration, shapes (..., nq), (..., nv).
        fluid: Fully surrounding water with a uniform current.
        world: Surroundings, with the fluid; `fluid` is short for a world of it.
        bodies: Names of bodies, in the order of columns; those with hydrodynamic data by default.

    Returns:
        Joint force per parameter, shape (..., nv, 97 bodies), columns in the order of
        `hydrodynamic_parameter_names`.

    Raises:
        ModelError: If there is no fluid, it has a surface or its current varies, or loops close.

    Example:
        ``tb.fluid_regressor(rov, q, v, vd, fluid=tb.Water()) @ tb.hydrodynamic_parameters(rov)``
    """
    around = world_with(world, fluid)
    water = None if around is None else around.fluid
    if around is None or water is None:
        raise ModelError(
            "fluid: fluid_regressor expected water, got none; pass fluid=tiburon.Water()"
        )
    if water.surface is not None or water.meets_bodies_apart or water.cases is not None:
        raise ModelError(
            "fluid: fluid_regressor expected one water with a uniform current and no surface: else "
            "forces are not linear in volumes and centers, got another; leave surface= out, and "
            "give current= as three numbers"
        )
    if model.loops:
        raise ModelError(
            f"model {model.name!r}: fluid_regressor is for trees, got loops; take "
            "model.without_loops(), whose joint forces loop_inverse_dynamics distributes",
            name=model.name,
        )
    names = _chosen(model, bodies)
    if not names:
        raise ModelError(
            f"model {model.name!r}: fluid_regressor expected bodies with hydrodynamic data, got "
            "none; name some by bodies=",
            name=model.name,
        )
    is_batch = max(map(np.ndim, (q, v, vd))) > 1
    slope = _slope(model, around, names, "many" if is_batch else "one")
    by_table = np.stack([slope(q, v, vd, joint) for joint in np.eye(model.nv)], axis=-2)
    return np.concatenate(
        [by_table[..., rows] @ table for rows, table in _unit_tables(model, names)], axis=-1
    )


@per_model
def _slope(model: Model, world: World, names: tuple[str, ...], first: Part) -> Any:
    """Return the kernel of the derivative of one joint force by the table of coefficients.

    The derivatives of all joint forces as one program would be a hundred thousand results, which
    take longer to write than to compute.
    """
    # one number of a body at run time: all of them
    listed = tuple(f"{name}.volume" for name in names)
    robot, around = KernelParameters(model, world, listed).at_run_time()
    source = LibrarySource(robot, (inverse_dynamics.__name__,), around, ())
    program = reverse_derivative(source.program(), by=IMMERSION)
    return make_kernel(ProgramSource(program), source.parameters(), first=first)


@per_model
def _unit_tables(model: Model, names: tuple[str, ...]) -> list[tuple[slice, Array]]:
    """Return where the link of each body is in the table, and its entries per unit parameter.

    A table is linear in the parameters: differences from one that every check accepts are exact.
    """
    from tiburon.algorithms.water.fluid import link_in_water, members_in_water

    diagonal = 100.0 * np.eye(6)
    groups = [
        [(name, _base(own, diagonal) if name in names else own, X) for name, own, X in group]
        for group in members_in_water(model, names)
    ]

    def numbers(group: list[Any]) -> Array:
        link = link_in_water(group, False, names)
        return np.array([x for part in link for x in part.parameters()])

    plain = [numbers(group) for group in groups]
    starts = np.cumsum([0, *map(len, plain)])
    places: list[tuple[str, Any]] = [("volume", 0), *(("moment", k) for k in range(3))]
    places += [(word, place) for word, listed in _MATRICES.items() for place in listed]
    found = []
    # bodies that are placed alike, with shapes of the same kinds, have the same unit tables
    known: dict[Any, Array] = {}
    for name in names:
        link = model.plan.frame(name).body
        group = groups[link]
        layout = tuple(
            (one == name, X, tuple(map(type, base.drag)), base.fins, base.reference_density)
            for one, base, X in group
        )
        if layout not in known:
            changes = [
                [
                    (one, _changed(base, *place) if one == name else base, X)
                    for one, base, X in group
                ]
                for place in places
            ]
            known[layout] = np.transpose([numbers(changed) - plain[link] for changed in changes])
        found.append((slice(starts[link], starts[link + 1]), known[layout]))
    return found


def _base(own: BodyFluid, diagonal: Array) -> BodyFluid:
    """Return hydrodynamic data that every check accepts, with the shapes of a body."""
    rows: Any = tuple(map(tuple, diagonal.tolist()))
    matrices = dict.fromkeys(_MATRICES, rows)
    return replace(own, volume=1.0, center_of_buoyancy=(0.0, 0.0, 0.0), **matrices)


def _changed(fluid: BodyFluid, word: str, place: tuple[int, int] | int) -> BodyFluid:
    """Return data with one parameter greater by 1."""
    if word == "volume":
        return replace(fluid, volume=fluid.volume + 1.0)
    if word == "moment":
        center = [0.0, 0.0, 0.0]
        center[int(place)] = 1.0 / fluid.volume  # type: ignore[arg-type]
        a, b, c = center
        return replace(fluid, center_of_buoyancy=(a, b, c))
    assert isinstance(place, tuple)
    matrix = np.array(getattr(fluid, word))
    matrix[place] += 1.0
    if word == "added_mass" and place[0] != place[1]:
        matrix[place[::-1]] += 1.0
    rows: Any = tuple(map(tuple, matrix.tolist()))
    changes: dict[str, Any] = {word: rows}
    return replace(fluid, **changes)
