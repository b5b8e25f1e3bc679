"""Derived quantities: computed from recorded states on request, in native batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import ModelError, UnknownNameError
from tiburon.functions.closed_loops import constraint_residual
from tiburon.functions.contact import Contacts, contacts_among
from tiburon.functions.kinematics import (
    center_of_mass,
    forward_kinematics,
    frame_velocity,
    kinetic_energy,
    momentum,
    potential_energy,
)
from tiburon.functions.library import GEOMETRY
from tiburon.functions.mobility import smallest_singular_value
from tiburon.functions.parameters import CaseRows, geometry_of, with_geometry_of
from tiburon.model import Fixed, Model, World
from tiburon.record import record
from tiburon.results.header import force_units, velocity_units
from tiburon.spatial.rotations import matrix_to_quaternion

if TYPE_CHECKING:
    from tiburon.contact.candidates import Candidate
    from tiburon.results.trajectory import Trajectory

BLOCK_BYTES = 64_000_000
"""Recorded states that are read at a time to compute derived quantities [bytes]."""

AXES = ("x", "y", "z")
MODES = ("separated", "slipping", "sticking")
"""Contact modes, in the order of their values in `contact_mode`."""

WRENCH_LABELS = ("nx", "ny", "nz", "fx", "fy", "fz")
TWIST_LABELS = ("wx", "wy", "wz", "vx", "vy", "vz")


class RunSystem(Protocol):
    """The simulated system of a run; `tiburon.simulation.recorded_run` implements it."""

    @property
    def model(self) -> Model:
        """The robot; parameters given by name are inputs of its code."""

    @property
    def world(self) -> World:
        """The surroundings; parameters given by name are inputs of their code."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the quantities that elements report."""

    @property
    def candidates(self) -> "tuple[Candidate, ...]":
        """Shapes that may touch; empty without contact."""

    @property
    def contact_states(self) -> slice:
        """Place of the states of contact points among the discrete states."""

    @property
    def contact_moments(self) -> Mapping[int, int]:
        """Place among the discrete states of the moment of each point with friction of turning."""

    def accelerations(self, states: "States") -> Array:
        """Return joint accelerations [m/s^2 or rad/s^2], shape (n, nv)."""

    def joint_forces(self, states: "States") -> Array:
        """Return the joint forces of all elements and commands [N or N m], shape (n, nv)."""

    def prescribed_forces(self, states: "States") -> Array:
        """Return the forces that prescribed joints take [N or N m], shape (n, nv)."""

    def reactions(self, states: "States") -> Array:
        """Return wrenches of joints on their bodies, body axes [N m, N], shape (n, joints, 6)."""

    def wrenches(self, states: "States") -> Mapping[str, Array]:
        """Return wrenches of elements and contacts by frame: frame axes [N m, N], shape (n, 6)."""

    def output(self, states: "States", name: str) -> Array:
        """Return a quantity that an element reports, one of `output_names`, shape (n,)."""

    def resume(self, run: "Trajectory", duration: float | None, **changes: Any) -> "Trajectory":
        """Continue a run; `Trajectory.resume` describes the arguments."""


@record(eq=False)
class States:
    """Finite states of a run, all cases in one dimension; those of ended cases are left out."""

    model: Model
    """The robot."""

    world: World
    """The surroundings."""

    system: RunSystem | None
    """The simulated system, driven by the recorded commands."""

    time: Array
    """Times [s], shape (n,)."""

    q: Array
    """Configurations [m or rad], shape (n, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, nv)."""

    x: Array
    """Internal states, shape (n, nx)."""

    u: Array
    """Commands, shape (n, commands)."""

    z: Array
    """Discrete states of elements, shape (n, nz)."""

    parameters: CaseRows
    """Parameters that differ between cases, one row per state, by their name in kernels."""

    @property
    def dynamics(self) -> RunSystem:
        """The simulated system.

        Raises:
            ModelError: If the run was assembled without one.
        """
        if self.system is None:
            raise ModelError(
                f"robot {self.model.name!r}: this trajectory has no system, so that forces and "
                "accelerations are unknown; use a run from simulate or load_run"
            )
        return self.system

    @property
    def time_if_needed(self) -> Array | None:
        """The times, or None if neither robot nor surroundings depend on time."""
        from tiburon.functions.library import depends_on_time

        return self.time if depends_on_time(self.model, self.world) else None

    def evaluate(self, function: Callable[..., Any], *arrays: Array, **options: Any) -> Any:
        """Call a function of the library on all states, with the parameters of each case."""
        time = self.time_if_needed
        timed = {} if time is None else {"time": time}
        if not self.parameters:
            return function(self.model, *arrays, **options, **timed)
        from tiburon.functions.compilation import compile
        from tiburon.native.kernel import make_kernel

        own = compile(function, self.model, **options).__self__  # type: ignore[attr-defined]
        known = own.parameters
        kernel = make_kernel(own.source, known, part="many")
        taken = {name: rows for name, rows in self.parameters.items() if name in known}
        return kernel(*arrays, **taken, **{k: v for k, v in timed.items() if k in known})


def parameter_tables(run: "Trajectory") -> dict[str, Array]:
    """Return the parameters that replace those of robot and surroundings, common or by case."""
    given = run.header.setup.get("parameters") or {}
    common = {name: np.asarray(row) for name, row in given.items() if np.ndim(row) == 1}
    return {**common, **run.header.case_parameters}


def shown_model(run: "Trajectory") -> Model:
    """Return the robot of a run as it is drawn, with the geometry that it had.

    Raises:
        ModelError: If the geometry differs from case to case.
    """
    geometry = geometry_of(parameter_tables(run))
    if geometry is None or run.system is None:
        return run.model
    if geometry[GEOMETRY].ndim > 1:
        raise ModelError(
            f"run of {run.model.name!r}: expected one geometry of the robot to draw, got one per "
            "case; take one of them: run.part(case=0)"
        )
    return with_geometry_of(run.system.model, geometry, 0)


@record
class Quantity:
    """A quantity that `Trajectory.get` returns by name."""

    title: str
    """Description for axes and tables."""

    units: tuple[str, ...] | str
    """Its unit, or one per label; "joint force" and "joint acceleration" stand for those of the
    robot's coordinates."""

    dimensions: tuple[str, ...]
    """Names of the dimensions after time and case."""

    compute: Callable[[States], Array]
    """Maps states to one entry per state."""

    labels: tuple[str, ...] = ()
    """Names along the last dimension, where they are not those of the robot's coordinates."""

    flags: tuple[str, ...] = ()
    """Meanings of the values 0, 1, ... of a quantity that counts states."""

    @property
    def of_contacts(self) -> bool:
        """Whether only runs with contact have it."""
        return "contact" in self.dimensions

    def coordinates(self, model: Model, contacts: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
        """Return names along the dimensions."""
        found = {
            "contact": tuple(contacts),
            "velocity": model.v_names,
            "body": tuple(body.name for body in model.bodies),
            "joint": tuple(b.joint.name for b in model.bodies if not isinstance(b.joint, Fixed)),
        }
        return {name: found.get(name, self.labels) for name in self.dimensions}

    def unit_of_each(self, model: Model) -> tuple[str, ...] | str:
        """Return the common unit, or that of each coordinate along the last dimension."""
        if self.units == "joint acceleration":
            return tuple(f"{unit}^2" for unit in velocity_units(model))
        if self.units == "joint force":
            return force_units(model)
        return self.units


def check_names(names: Sequence[str], others: Sequence[str], elements: Sequence[Any]) -> None:
    """Check the names of quantities to record, before a run starts.

    Args:
        names: Quantities to record; "energy" stands for all energies.
        others: Names that the run has beside `QUANTITIES`: columns, and outputs of elements.
        elements: Elements of the run.

    Raises:
        ModelError: If contacts are to be recorded but there are none.
        UnknownNameError: If a name is none of these.
    """
    known = ["energy", *QUANTITIES, *others]
    for name in names:
        if name not in known:
            raise UnknownNameError("quantity to record", name, known)
        if name in QUANTITIES and QUANTITIES[name].of_contacts and not touches(elements):
            raise without_contact(f"record: {name!r}")


def without_contact(what: str) -> ModelError:
    """Return the error for a request that needs contacts."""
    return ModelError(
        f"{what}: expected a run with contact, got none; simulate in a world with ground, or with "
        "contact_pairs"
    )


def touches(elements: Sequence[Any]) -> bool:
    """Return whether the elements of a run include contact."""
    from tiburon.actuation.contact_element import ContactElement

    return any(isinstance(element, ContactElement) for element in elements)


def contact_names(candidates: "Sequence[Candidate]") -> tuple[str, ...]:
    """Return the names of all contact points."""
    return tuple(name for candidate in candidates for name in candidate.point_names)


def contact_states(system: RunSystem, z: Array) -> Array:
    """Return the states of all contact points, shape (..., points, 4).

    They are the force on the first body, world axes [N], and whether the point sticks.

    Args:
        system: The system.
        z: Discrete states, shape (..., nz).
    """
    own = z[..., system.contact_states]
    return own.reshape(*z.shape[:-1], len(contact_names(system.candidates)), 4)


def _contact_force(states: States) -> Array:
    return contact_states(states.dynamics, states.z)[..., :3]


def _contact_moment(states: States) -> Array:
    found = np.zeros_like(_contact_force(states))
    for point, place in states.dynamics.contact_moments.items():
        found[..., point, :] = states.z[..., place : place + 3]
    return found


def _contact_mode(states: States) -> Array:
    points = contact_states(states.dynamics, states.z)
    touching = np.any(points[..., :3] != 0.0, axis=-1)
    return np.where(touching, np.where(points[..., 3] > 0.5, 2.0, 1.0), 0.0)


def _touching(states: States, moving: bool = False) -> Contacts:
    """Return the contact points of states, with relative velocities on request."""
    return contacts_among(
        states.model,
        states.dynamics.candidates,
        states.q,
        states.v if moving else None,
        time=states.time,
        geometry=geometry_of(states.parameters),
    )


def _contact_slip(states: States) -> Array:
    found = _touching(states, moving=True)
    assert found.velocity is not None
    along = np.sum(found.velocity * found.normal, axis=-1, keepdims=True)
    touching = (_contact_mode(states) > 0.0)[..., None]
    # velocities are those of the second body relative to the first
    return np.where(touching, along * found.normal - found.velocity, 0.0)


def _kinetic(states: States) -> Array:
    fluid = states.world.fluid
    return np.asarray(states.evaluate(kinetic_energy, states.q, states.v, fluid=fluid))


def _potential(states: States) -> Array:
    return np.asarray(states.evaluate(potential_energy, states.q, world=states.world))


def _body_names(states: States) -> list[str]:
    return [body.name for body in states.model.bodies]


def _poses(states: States) -> tuple[Array, Array]:
    found: tuple[Array, Array] = states.evaluate(
        forward_kinematics, states.q, frames=_body_names(states)
    )
    return found


def _orientations(states: States) -> Array:
    R = np.moveaxis(_poses(states)[0], (-2, -1), (0, 1))
    # all rotations at once: each entry of the matrix is an array
    return np.stack(matrix_to_quaternion([list(row) for row in R]), axis=-1)


def _attitudes(states: States) -> Array:
    R = _poses(states)[0]
    roll = np.arctan2(R[..., 2, 1], R[..., 2, 2])
    pitch = -np.arcsin(np.clip(R[..., 2, 0], -1.0, 1.0))
    yaw = np.arctan2(R[..., 1, 0], R[..., 0, 0])
    return np.stack([roll, pitch, yaw], axis=-1)


def _residual(states: States) -> Array:
    residuals = np.abs(states.evaluate(constraint_residual, states.q))
    return np.asarray(residuals.max(axis=-1, initial=0.0))


def _singular(states: States) -> Array:
    return smallest_singular_value(
        states.model, states.q, time=states.time_if_needed, parameters=states.parameters
    )


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
        lambda s: np.asarray(s.evaluate(momentum, s.q, s.v)),
        ("hx", "hy", "hz", "px", "py", "pz"),
    ),
    "center_of_mass": Quantity(
        "center of mass, world axes",
        "m",
        ("axis",),
        lambda s: np.asarray(s.evaluate(center_of_mass, s.q)),
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
    "body_attitude": Quantity(
        "roll, pitch and yaw of the body",
        "rad",
        ("body", "angle"),
        _attitudes,
        ("roll", "pitch", "yaw"),
    ),
    "body_velocity": Quantity(
        "velocity of the body's origin, world axes",
        ("rad/s",) * 3 + ("m/s",) * 3,
        ("body", "motion"),
        lambda s: np.asarray(s.evaluate(frame_velocity, s.q, s.v, frames=_body_names(s))),
        TWIST_LABELS,
    ),
    "joint_acceleration": Quantity(
        "joint acceleration",
        "joint acceleration",
        ("velocity",),
        lambda s: s.dynamics.accelerations(s),
    ),
    "joint_force": Quantity(
        "joint force of all elements and commands",
        "joint force",
        ("velocity",),
        lambda s: s.dynamics.joint_forces(s),
    ),
    "prescribed_force": Quantity(
        "force that moves prescribed joints, beside elements and commands",
        "joint force",
        ("velocity",),
        lambda s: s.dynamics.prescribed_forces(s),
    ),
    "joint_reaction": Quantity(
        "wrench on the body at its joint, body axes",
        ("N m",) * 3 + ("N",) * 3,
        ("joint", "wrench"),
        lambda s: s.dynamics.reactions(s),
        WRENCH_LABELS,
    ),
    "constraint_residual": Quantity("largest constraint residual", "m or rad", (), _residual),
    "constraint_singular_value": Quantity(
        "smallest over largest singular value of the constraints", "1", (), _singular
    ),
    "contact_force": Quantity(
        "contact force on the first body, mean over the last step, world axes",
        "N",
        ("contact", "axis"),
        _contact_force,
        AXES,
    ),
    "contact_moment": Quantity(
        "moment of torsional and rolling friction on the first body, mean over the last step, "
        "world axes",
        "N m",
        ("contact", "axis"),
        _contact_moment,
        AXES,
    ),
    "contact_mode": Quantity(
        "contact mode: separated 0, slipping 1, sticking 2",
        "1",
        ("contact",),
        _contact_mode,
        flags=MODES,
    ),
    "contact_slip": Quantity(
        "slip velocity of the first body over the second, world axes",
        "m/s",
        ("contact", "axis"),
        _contact_slip,
        AXES,
    ),
    "contact_point": Quantity(
        "contact point, midway between the closest points, world axes",
        "m",
        ("contact", "axis"),
        lambda states: _touching(states).point,
        AXES,
    ),
    "contact_normal": Quantity(
        "unit normal of the contact from the first to the second body, world axes",
        "1",
        ("contact", "axis"),
        lambda states: _touching(states).normal,
        AXES,
    ),
    "contact_gap": Quantity(
        "gap between the shapes", "m", ("contact",), lambda states: _touching(states).gap
    ),
}
"""Derived quantities by name."""

ENERGIES = ("kinetic_energy", "potential_energy", "total_energy")
"""Quantities that "energy" stands for."""


def values_of(run: "Trajectory", name: str) -> Array:
    """Return the numbers of a quantity by name; `Trajectory.get` names their dimensions, too."""
    column = run.header.column(name)
    if column is not None:
        return run.array(column.key)
    quantity = quantity_of(run, name)
    return computed_values(run, quantity, labels_of(run, name, quantity))


def quantity_of(run: "Trajectory", name: str) -> Quantity:
    """Return a derived quantity of a run, or an output of its elements.

    Raises:
        UnknownNameError: If there is no such quantity.
    """
    if name in QUANTITIES:
        return QUANTITIES[name]
    if run.system is not None and name in run.system.output_names:
        return Quantity(name.replace("_", " "), "", (), lambda s: s.dynamics.output(s, name))
    raise UnknownNameError("quantity", name, run.names, listing="run.names")


def labels_of(run: "Trajectory", name: str, quantity: Quantity) -> dict[str, tuple[str, ...]]:
    """Return the labels along each dimension of a derived quantity.

    Raises:
        ModelError: If it is one of contacts, and the run has none.
    """
    contacts = _contacts(run, name) if quantity.of_contacts else ()
    return quantity.coordinates(run.model, contacts)


def computed_values(
    run: "Trajectory", quantity: Quantity, labels: Mapping[str, Sequence[str]]
) -> Array:
    """Return the numbers of a derived quantity, with its labels; NaN after the end of a case."""
    shape = tuple(len(some) for some in labels.values())
    values = np.full((len(run), *run.batch, *shape), np.nan)
    step = max(1, BLOCK_BYTES // run.header.row_bytes)
    for start in range(0, len(run), step):
        stop = min(start + step, len(run))
        _compute_rows(run, quantity, start, stop, values[start:stop])
    return values


def _contacts(run: "Trajectory", name: str) -> tuple[str, ...]:
    """Return the names of the contact points of a run.

    Raises:
        ModelError: If it has no contact.
    """
    candidates = () if run.system is None else run.system.candidates
    if not candidates:
        raise without_contact(f"run of {run.model.name!r}: {name!r}")
    return contact_names(candidates)


def _compute_rows(
    run: "Trajectory", quantity: Quantity, start: int, stop: int, values: Array
) -> None:
    """Compute a quantity for some rows; those of ended cases, whose states are NaN, stay NaN."""
    rows = {key: _rows(run, key, start, stop) for key in ("q", "v", "x", "u", "z")}
    valid = np.isfinite(rows["q"]).all(axis=-1) & np.isfinite(rows["v"]).all(axis=-1)
    if not valid.any():
        return
    time = run.rows.read("time", start, stop)
    time = np.broadcast_to(time.reshape(-1, *[1] * len(run.batch)), valid.shape)
    own = {
        name: np.ascontiguousarray(np.broadcast_to(table, (*valid.shape, table.shape[-1]))[valid])
        for name, table in parameter_tables(run).items()
    }
    system = run.system
    states = States(
        run.model if system is None else system.model,
        run.world if system is None else system.world,
        system,
        np.ascontiguousarray(time[valid]),
        **{key: np.ascontiguousarray(array[valid]) for key, array in rows.items()},
        parameters=CaseRows(own),
    )
    values[valid] = quantity.compute(states)


def _rows(run: "Trajectory", key: str, start: int, stop: int) -> Array:
    if run.header.column(key) is None:
        return np.empty((stop - start, *run.batch, 0))
    return run.rows.read(key, start, stop)
