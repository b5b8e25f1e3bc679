"""Two arms turn a bar: by the least loss in their motors, or with the least squeeze."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tiburon as tb
from tiburon.demos.demo import Demonstration, panels
from tiburon.load_sharing.objectives.objective import Objective
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

ANGLE = np.pi / 6.0
"""By which the bar is turned about a horizontal axis [rad].

In the whole turn of Nahon 1991, section 6.2.7, by 90 degrees, wrists pass through the pose in which
their first and last axes coincide.
"""

TURN = 1.0
"""Time of the turn [s]."""

WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))

OBJECTIVES = {
    "least squeeze": tb.InternalForce(),
    "least loss": tb.MotorLoss(),
}


def turn_bar(
    objective: Objective, duration: float, **options: Any
) -> "tuple[Trajectory, tb.LoadSharingControl]":
    """Let two arms turn a bar, weightless; return the run and the controller.

    Motors enter the objective; the run has ideal ones, which exert what is asked of them.

    Args:
        objective: What the arms share the load by.
        duration: Simulated time [s].
        options: Further arguments of `LoadSharingControl`.
    """
    arms = tb.load("two_pumas")
    home = arms.poses["home"]
    plan = tb.LoadSharing.of(arms, world=WEIGHTLESS, objective=objective)
    rotation, center = tb.forward_kinematics(arms, home, "bar")
    begin = np.arctan2(-rotation[2, 0], rotation[0, 0])
    turns = [(np.cos(a / 2.0), 0.0, np.sin(a / 2.0), 0.0) for a in (begin, begin + ANGLE)]
    path = tb.CartesianPath.through([0.0, TURN], [center, center], turns)
    control = tb.LoadSharingControl(plan, tb.MotionPath(home, bodies={"bar": path}), **options)
    ideal = tb.Model(
        arms.name,
        arms.bodies,
        arms.frames,
        loops=arms.loops,
        actuators=[replace(actuator, motor=None) for actuator in arms.actuators],
        about=arms.about,
    )
    run = tb.simulate(
        ideal.without_passive(),
        duration,
        q=home,
        world=WEIGHTLESS,
        control=control,
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    return run, control


def bar(duration: float | None = None) -> Demonstration:
    """Let two arms turn a bar twice: by the least squeeze, and by the least loss.

    Args:
        duration: Simulated time [s]; 1.2 by default.
    """
    length = TURN + 0.2 if duration is None else duration
    runs = {name: turn_bar(objective, length) for name, objective in OBJECTIVES.items()}
    measures = {name: _measures(*found) for name, found in runs.items()}
    squeeze, loss = measures["least squeeze"], measures["least loss"]
    one, other = (measure.power for measure in measures.values())
    run, control = runs["least loss"]
    turned = 2.0 * np.degrees(np.arccos(min(1.0, abs(float(run.q[-1, 0])))))
    residual = float(np.abs(tb.constraint_residual(run.model, run.q[::20])).max())
    facts = (
        f"turned a bar of 13.5 kg by {turned:.2f} degrees in {TURN:g} s",
        f"least loss: {loss.heat:.2f} J of heat in the windings, grips of {loss.force.max():.1f} N",
        f"least squeeze: {squeeze.heat:.2f} J of heat, grips of {squeeze.force.max():.1f} N",
        f"both impart the same mechanical power, within {np.abs(one - other).max():.1e} W "
        f"of {np.abs(one).max():.1f} W",
        f"loops stay closed within {residual:.0e} m",
    )
    title = "Two arms turn a bar by the least loss"
    figures = {"turn.png": _figure(run.time, measures)}
    return Demonstration(run, facts, figures, title, {"forces": _grip_forces(run, control)})


class _Measures(NamedTuple):
    """What a way to share the load costs."""

    heat: float
    """In the windings of all motors [J]."""

    loss: Any
    """Its power [W], shape (n,)."""

    force: Any
    """Force of each grip [N], shape (n, 2)."""

    power: Any
    """Mechanical power of all joints [W], shape (n,)."""


def _measures(run: "Trajectory", control: tb.LoadSharingControl) -> _Measures:
    arms = tb.load("two_pumas")
    dt = float(run.time[1] - run.time[0])
    tau = run.u[:, : arms.nv]
    vd = np.gradient(run.v, dt, axis=0)
    loss = np.sum(tb.motor_power(arms, run.v, vd, tau).loss, axis=-1)
    force = np.linalg.norm(_grips(run, control)[..., :3], axis=-1)
    return _Measures(float(loss.sum() * dt), loss, force, np.sum(tau * run.v, axis=1))


def _grips(run: "Trajectory", control: tb.LoadSharingControl) -> Any:
    """Return the constraint forces of both grips on the arms, shape (n, 2, 6)."""
    return control.read(run).forces.reshape(-1, 2, 6)


def _grip_forces(run: "Trajectory", control: tb.LoadSharingControl) -> dict[str, Any]:
    """Return the forces of the grips on the flanges, frame axes, for arrows in the replay."""
    grips, found = _grips(run, control), {}
    for k, loop in enumerate(run.model.loops):
        assert isinstance(loop, tb.LoopClosure)
        rotation, _ = tb.forward_kinematics(run.model, run.q, [loop.first])
        frame, _ = tb.forward_kinematics(run.model, run.q, [loop.second])
        own = np.array(loop.joint.pose.rotation)
        # axes of the loop's joint to the world, then to the flange
        world = np.einsum("nij,jk,nk->ni", rotation[:, 0], own, grips[:, k, :3])
        force = np.einsum("nji,nj->ni", frame[:, 0], world)
        found[loop.second] = np.concatenate([np.zeros_like(force), force], axis=-1)
    return found


@styled
def _figure(time: Any, measures: dict[str, _Measures]) -> "Figure":
    labels = ("heat in the windings [W]", "larger grip force [N]")
    with panels("Two arms turn a bar", *labels) as (figure, upper, lower):
        for name, found in measures.items():
            upper.plot(time, found.loss, linewidth=1.4, label=f"{name}: {found.heat:.1f} J")
            lower.plot(time, found.force.max(axis=1), linewidth=1.4)
    return figure
