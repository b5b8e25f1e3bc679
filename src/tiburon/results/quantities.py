"""Quantities that follow from recorded states: computed when asked for, in native batches."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.center_of_mass import center_of_mass
from tiburon.algorithms.energy import kinetic_energy, potential_energy
from tiburon.algorithms.frame_motion import frame_velocity
from tiburon.algorithms.kinematics import forward_kinematics
from tiburon.algorithms.momentum import momentum
from tiburon.algorithms.reactions import joint_reactions
from tiburon.errors import ModelError, UnknownNameError
from tiburon.functions.parameters import CaseRows
from tiburon.loops.dynamics import constraint_residual
from tiburon.loops.reactions import loop_reactions
from tiburon.loops.redundancy import smallest_singular_value
from tiburon.model import Fixed, Model, World
from tiburon.record import record
from tiburon.results.run_header import force_unit
from tiburon.results.units import velocity_units
from tiburon.simulation.system import accelerations, joint_forces, reported, wrenches
from tiburon.spatial.rotations import matrix_to_quaternion

__all__ = ["ENERGIES", "QUANTITIES", "Quantity", "States", "check_names", "output_quantity"]

Array = NDArray[np.float64]

AXES = ("x", "y", "z")
MOMENTS_FIRST = ("nx", "ny", "nz", "fx", "fy", "fz")
MOTIONS = ("wx", "wy", "wz", "vx", "vy", "vz")


@record(eq=False)
class States:
    """States of a run, all finite, one after the other; those of ended cases are left out."""

    model: Model
    """The robot."""

    world: World
    """What surrounds it."""

    system: Any
    """What moves, commanded from outside: a `System` without controller, or None."""

    time: Array
    """When [s], shape (n,)."""

    q: Array
    """Positions [m or rad], shape (n, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, nv)."""

    x: Array
    """Inner states, shape (n, nx)."""

    u: Array
    """Commands, shape (n, commands)."""

    parameters: CaseRows
    """Numbers that differ from case to case, one row per state: "inertia" and the like."""

    def ask(self, function: Callable[..., Any], *arrays: Array, **options: Any) -> Any:
        """Call a function of the library on all states, with the numbers of each case."""
        timed = {} if not _time_matters(self) else {"time": self.time}
        if not self.parameters:
            return function(self.model, *arrays, **options, **timed)
        from tiburon.functions.compilation import compile
        from tiburon.native.kernel import make_kernel

        own = compile(function, self.model, **options).__self__  # type: ignore[attr-defined]
        kernel, known = make_kernel(own.source, own.parameters), own.parameters
        taken = {name: rows for name, rows in self.parameters.items() if name in known}
        return kernel(*arrays, **taken, **{k: v for k, v in timed.items() if k in known})


def _time_matters(states: States) -> bool:
    from tiburon.functions.library import depends_on_time

    return depends_on_time(states.model, states.world)


@record
class Quantity:
    """Something that can be asked of a run by name."""

    title: str
    """In words, for axes and tables."""

    units: tuple[str, ...] | str
    """Its unit, or that of each label; "joint force" and "joint acceleration" stand for those of
    the robot's coordinates."""

    dimensions: tuple[str, ...]
    """Names of the dimensions after time and case."""

    compute: Callable[[States], Array]
    """Takes states, gives one entry for each."""

    labels: tuple[str, ...] = ()
    """Names along the last dimension, where they are not those of the robot's coordinates."""

    def coordinates(self, model: Model) -> dict[str, tuple[str, ...]]:
        """Return names along the dimensions."""
        found = {
            "velocity": model.v_names,
            "body": tuple(body.name for body in model.bodies),
            "joint": tuple(b.joint.name for b in model.bodies if not isinstance(b.joint, Fixed)),
        }
        return {name: found.get(name, self.labels) for name in self.dimensions}

    def unit_of_each(self, model: Model) -> tuple[str, ...] | str:
        """Return the unit of all, or of each coordinate along the last dimension."""
        if self.units == "joint acceleration":
            return tuple(f"{unit}^2" for unit in velocity_units(model))
        if self.units == "joint force":
            return tuple(force_unit(unit) for unit in velocity_units(model))
        return self.units


def output_quantity(name: str) -> Quantity:
    """Return what an element reports as a quantity."""
    return Quantity(name.replace("_", " "), "", (), lambda states: reported(states, name))


def check_names(names: Sequence[str], others: Sequence[str]) -> None:
    """Refuse names that mean no quantity, before a run starts.

    Args:
        names: What is to be recorded; "energy" stands for all energies.
        others: Names that this run knows beside `QUANTITIES`: its columns, what elements report.

    Raises:
        UnknownNameError: If a name is none of these.
    """
    known = ["energy", *QUANTITIES, *others]
    for name in names:
        if name not in known:
            raise UnknownNameError("quantity to record", name, known)


def _kinetic(states: States) -> Array:
    return np.asarray(states.ask(kinetic_energy, states.q, states.v, fluid=states.world.fluid))


def _potential(states: States) -> Array:
    return np.asarray(states.ask(potential_energy, states.q, world=states.world))


def _body_names(states: States) -> list[str]:
    return [body.name for body in states.model.bodies]


def _poses(states: States) -> tuple[Array, Array]:
    found: tuple[Array, Array] = states.ask(
        forward_kinematics, states.q, frames=_body_names(states)
    )
    return found


def _orientations(states: States) -> Array:
    R = np.moveaxis(_poses(states)[0], (-2, -1), (0, 1))
    # all rotations at once: each entry of the matrix is an array
    return np.stack(matrix_to_quaternion([list(row) for row in R]), axis=-1)


def _reactions(states: States) -> Array:
    forces = wrenches(states)
    if states.model.loops:
        if states.system.switch_places:
            raise ModelError(
                f"robot {states.model.name!r}: joint_reaction is not known where loops are "
                "switched; take loop_reactions of the robot with those loops that were closed"
            )
        carried = loop_reactions(
            states.model,
            states.q,
            states.v,
            joint_forces(states),
            world=states.world,
            external_force=forces or None,
            time=_when(states),
            **_numbers(states),
        )
        return carried.actuator + carried.bearing
    found = joint_reactions(
        states.model,
        states.q,
        states.v,
        accelerations(states),
        world=states.world,
        external_force=forces or None,
        time=_when(states),
        **_numbers(states),
    )
    return found.actuator + found.bearing


def _gap(states: States) -> Array:
    gaps = np.abs(constraint_residual(states.model, states.q, time=_when(states)))
    return np.asarray(gaps.max(axis=-1, initial=0.0))


def _singular(states: States) -> Array:
    numbers = states.parameters
    return smallest_singular_value(states.model, states.q, time=_when(states), numbers=numbers)


def _numbers(states: States) -> dict[str, Any]:
    """Return the numbers of each state for functions of dynamics, where cases have their own."""
    return {"parameters": states.parameters} if states.parameters else {}


def _when(states: States) -> Array | None:
    return states.time if _time_matters(states) else None


QUANTITIES: dict[str, Quantity] = {
    "kinetic_energy": Quantity("kinetic energy", "J", (), _kinetic),
    "potential_energy": Quantity("potential energy", "J", (), _potential),
    "total_energy": Quantity(
        "kinetic and potential energy", "J", (), lambda s: _kinetic(s) + _potential(s)
    ),
    "momentum": Quantity(
        "momentum about the center of mass, world axes",
        ("kg m^2/s",) * 3 + ("kg m/s",) * 3,
        ("momentum_component",),
        lambda s: np.asarray(s.ask(momentum, s.q, s.v)),
        ("hx", "hy", "hz", "px", "py", "pz"),
    ),
    "center_of_mass": Quantity(
        "center of mass, world axes",
        "m",
        ("axis",),
        lambda s: np.asarray(s.ask(center_of_mass, s.q)),
        AXES,
    ),
    "body_position": Quantity(
        "origin of the body, world axes", "m", ("body", "axis"), lambda s: _poses(s)[1], AXES
    ),
    "body_orientation": Quantity(
        "quaternion of the body, to world axes",
        "1",
        ("body", "quaternion"),
        _orientations,
        ("w", "x", "y", "z"),
    ),
    "body_velocity": Quantity(
        "velocity of the body's origin, world axes",
        ("rad/s",) * 3 + ("m/s",) * 3,
        ("body", "motion"),
        lambda s: np.asarray(s.ask(frame_velocity, s.q, s.v, frames=_body_names(s))),
        MOTIONS,
    ),
    "joint_acceleration": Quantity(
        "joint acceleration", "joint acceleration", ("velocity",), accelerations
    ),
    "joint_force": Quantity(
        "force of all that drives and resists at the joint",
        "joint force",
        ("velocity",),
        joint_forces,
    ),
    "joint_reaction": Quantity(
        "wrench on the body at its joint, body axes",
        ("N m",) * 3 + ("N",) * 3,
        ("joint", "wrench"),
        _reactions,
        MOMENTS_FIRST,
    ),
    "loop_gap": Quantity("largest gap of a loop", "m or rad", (), _gap),
    "loop_singular_value": Quantity(
        "smallest over largest singular value of the loops", "1", (), _singular
    ),
}
"""What can be asked of a run beside what was recorded."""

ENERGIES = ("kinetic_energy", "potential_energy", "total_energy")
"""What "energy" stands for."""
