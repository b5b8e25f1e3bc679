"""Natural frequencies, damping and mode shapes of a robot at an equilibrium."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.actuation.defaults import as_elements, elements_of
from tiburon.actuation.element import Element
from tiburon.actuation.passive import PassiveJoints
from tiburon.algorithms.binding import world_with
from tiburon.algorithms.library import check_places
from tiburon.argument_checks import positive, vector
from tiburon.arguments import public
from tiburon.errors import DomainError, ModelError, shown
from tiburon.loops.start import resting_position
from tiburon.model import Model, Water, World
from tiburon.simulation.closed_motion import ClosedMotion
from tiburon.simulation.eigenmodes import EigenModes
from tiburon.simulation.equilibrium import SmallMotion, settle
from tiburon.simulation.mode import Mode, Modes
from tiburon.simulation.system import System
from tiburon.trace.traced import is_traced

__all__ = ["modes"]

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Parts of a shape below this fraction of its largest are rounding."""


@public
def modes(
    model: Model,
    q: ArrayLike | None = None,
    *,
    v: ArrayLike | None = None,
    x: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    commands: Mapping[str, Any] | ArrayLike | None = None,
    world: World | None = None,
    fluid: Water | None = None,
    forces: Iterable[object] = (),
    control: Callable[..., Any] | None = None,
    passive: bool = True,
    limits: bool = True,
    time: float = 0.0,
    solve: bool = True,
    tolerance: float = 1e-9,
    slowest: float = 1e-6,
) -> Modes:
    """Find an equilibrium, and frequencies, damping and shapes of small motions about it.

    All that acts in `simulate` acts here: water, springs and damping of joints, stops, thrusters
    and motors at held commands, further elements, a traced controller. Coulomb friction alone is
    left out: near rest it is no small change of force but a jump. Robots with loops move along
    them: there are as many freedoms as loops leave.

    Args:
        model: The robot; its joints must have as many velocities as freedoms of position.
        q: Position to start from [m or rad], shape (nq,); the neutral one by default. With loops
            a guess of a closed one, the pose "home" by default.
        v: Velocity that is kept [m/s or rad/s], shape (nv,): a steady motion; at rest by default.
        x: Inner states of elements to start from, shape (nx,); as in `simulate` by default.
        tau: Joint forces that are held [N or N m], shape (nv,); none by default.
        commands: Of actuators and thrusters, held: by name, or one number for each.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in: short for a world of this fluid.
        forces: Elements that act beside those of the robot itself, as `simulate` takes them.
        control: A controller marked with `traced`: the modes are then those of the closed loop.
        passive: Whether joints have their damping and springs.
        limits: Whether joints have their stops.
        time: When [s], where joints or water move by themselves.
        solve: Whether to move to the nearest equilibrium; otherwise q is taken as it is, and
            `Modes.residual` tells what accelerates there.
        tolerance: Largest force missing at an equilibrium, relative to the weight of the robot and
            at least 1 N.
        slowest: Frequencies below this fraction of the highest count as zero.

    Returns:
        The equilibrium and its modes, a sequence that prints as a table.

    Raises:
        DomainError: If there is no equilibrium near the start, or if it is a singular pose of
            loops.
        LoopError: If loops cannot be closed from the start.
        ModelError: If a joint rolls.

    Example:
        ``print(tb.modes(tb.load("double_pendulum")))``
    """
    check_places(model, world)
    if control is not None and not is_traced(control):
        raise ModelError(
            f"control: expected a function marked with traced, "
            f"got {shown(control)}; modes need its "
            "derivatives, write @tb.traced above it"
        )
    around = world_with(world, fluid, one_case="modes")
    own = elements_of(model, around, passive=passive, limits=limits)
    system = System(model, around, [*map(_smooth, own), *as_elements(forces)], control)
    row: list[Any] = [0.0] * len(system.command_names)
    if tau is not None:
        row = system.commands.fill(row, vector("tau", tau, model.nv))
    if commands is not None:
        row = system.commands.fill(row, commands)
    rate = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    held = vector("commands", row, len(row))
    states = system.x0.copy() if x is None else vector("x", x, system.nx)
    position = resting_position(model) if q is None else vector("q", q, model.nq)
    motion = (ClosedMotion if model.loops else SmallMotion)(system, rate, held, time)
    if isinstance(motion, ClosedMotion):
        position = motion.loops.start(position, is_guess=solve)
    if solve:
        position, states = settle(motion, position, states, positive("tolerance", tolerance))
    if isinstance(motion, ClosedMotion):
        motion.loops.check(position)
    A = motion.matrix(position, states)
    if not positive("slowest", slowest) < 1.0:
        raise DomainError("slowest", "a fraction below 1", f"{slowest:g}")
    found = motion.members(A, position, states, slowest)
    return Modes(
        model,
        position,
        rate,
        states,
        motion.rates(position, states)[: model.nv],
        A,
        _members(found, model.nv),
        found.zeros,
        time,
    )


def _smooth(element: Element) -> Element:
    """Return an element without Coulomb friction, which has no slope at rest."""
    return replace(element, coulomb=False) if isinstance(element, PassiveJoints) else element


def _members(found: EigenModes, nv: int) -> tuple[Mode, ...]:
    values = [*np.zeros(len(found.free)), *found.values]
    vectors = [*found.free.astype(np.complex128), *found.vectors]
    return tuple(_mode(complex(a), z, nv) for a, z in zip(values, vectors, strict=True))


def _mode(value: complex, eigenvector: NDArray[np.complex128], nv: int) -> Mode:
    steps, states = eigenvector[:nv], eigenvector[2 * nv :]
    moving = steps if np.abs(steps).max(initial=0.0) > NEGLIGIBLE else states
    whole = eigenvector / moving[int(np.argmax(np.abs(moving)))]
    return Mode(value, _rounded(whole[:nv]), _rounded(whole[2 * nv :]))


def _rounded(shape: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return a shape without what is rounding beside its largest part."""
    least = NEGLIGIBLE * float(np.abs(shape).max(initial=0.0))
    real = np.where(np.abs(shape.real) > least, shape.real, 0.0)
    return np.asarray(real + 1j * np.where(np.abs(shape.imag) > least, shape.imag, 0.0))
