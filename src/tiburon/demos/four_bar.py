"""A four-bar linkage swings: with one motor it shakes its frame, with three it does not."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tiburon as tb
from tiburon.arrays import Array
from tiburon.demos.demo import Demonstration, panels
from tiburon.reproduce.four_bar_motion import DURATION, LENGTHS, four_bar_motion
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))

STEP = 2e-4
"""Of the runs, and between commands [s]."""

STIFFNESS, DAMPING = 20.0, 0.6
"""Feedback of the crank [N m/rad, N m s/rad]: about 60 rad/s, critically damped."""

MOTORS = {
    "one motor": ("joint_1",),
    "three motors": ("joint_1", "joint_2", "joint_3"),
}


class Swing(NamedTuple):
    """A run of the linkage and the reactions on its frame."""

    run: "Trajectory"
    forces: Array
    """Force on the frame at both supports in the run, world axes [N], shape (n, 2, 3)."""

    moment: Array
    """Net moment on the frame in the planned motion [N m], shape (n,)."""

    power: Array
    """Of all motors in the planned motion [W], shape (n,)."""

    off: float
    """Largest distance from the planned motion [rad]."""


def swing(motors: tuple[str, ...], duration: float) -> Swing:
    """Let the linkage swing to and fro by a quarter turn; motors make support forces least.

    The motion is that of Nahon 1991, section 7.1, then back the same way, and so on.

    Args:
        motors: Names of the driven joints.
        duration: Simulated time [s].
    """
    linkage = tb.load("balanced_four_bar")
    times = np.arange(0.0, duration + 0.5 * STEP, STEP)
    q, v, vd = (np.array(part) for part in zip(*(_motion(linkage, t) for t in times), strict=True))
    plan = tb.balance_frame(linkage, q, v, vd, driven=motors, world=WEIGHTLESS)
    efforts = tb.Replay.of(times, plan.tau, linkage.v_names, interpolation="linear")
    crank = tb.JointPath.through(
        times, q[:, :1], start_velocity=v[0, :1], end_velocity=v[-1, :1], joints=("joint_1",)
    )
    feedback = tb.PD(crank, STIFFNESS, DAMPING, joints=("joint_1",))
    end = tb.Frame("end", "link_3", tb.Pose(translation=(LENGTHS[2], 0.0, 0.0)))
    run = tb.simulate(
        tb.Model(linkage.name, linkage.bodies, [*linkage.frames, end], loops=linkage.loops),
        duration,
        method=tb.RK4(dt=STEP),
        q=q[0],
        v=v[0],
        world=WEIGHTLESS,
        control=tb.CombinedControl((efforts, feedback)),
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    rows = slice(0, len(run.time))
    off = float(np.abs(run.q - q[rows]).max())
    moment = np.linalg.norm(plan.net_moment[rows], axis=-1)
    return Swing(run, _support_forces(run, plan.net_force[rows]), moment, plan.power[rows], off)


def _support_forces(run: "Trajectory", net: Array) -> Array:
    """Return the forces of a run on the frame at both supports, world axes [N], (n, 2, 3).

    What motors lack of inverse dynamics, the support at the end of the tree carries.

    Args:
        run: A run of the linkage.
        net: Net force on the frame [N], shape (n, 3): no motor changes it.
    """
    model, tau = run.model, run.u[:, : run.model.nv]
    vd = tb.loop_dynamics(model, run.q, run.v, tau, world=WEIGHTLESS).acceleration
    tree = tb.Model(model.name, model.bodies, model.frames)
    missing = tb.inverse_dynamics(tree, run.q, run.v, vd, world=WEIGHTLESS) - tau
    J = np.asarray(tb.frame_jacobian(tree, run.q, "end", axes="world"))[:, 3:]
    held = np.einsum("nij,nj->ni", np.linalg.pinv(np.swapaxes(J, -1, -2)), missing)
    return np.stack([net + held, -held], axis=1)


def _motion(linkage: tb.Model, time: float) -> tuple[Array, Array, Array]:
    """Return the planned motion: a quarter turn, and back."""
    cycle, part = divmod(time, DURATION)
    if int(cycle) % 2 == 0:
        return four_bar_motion(linkage, part)
    q, v, vd = four_bar_motion(linkage, DURATION - part)
    return q, -v, vd


def four_bar(duration: float | None = None) -> Demonstration:
    """Let a linkage swing with one motor and with three.

    Args:
        duration: Simulated time [s]; 0.4 by default.
    """
    length = 4.0 * DURATION if duration is None else duration
    swings = {name: swing(motors, length) for name, motors in MOTORS.items()}
    one, three = swings.values()
    peaks = [np.linalg.norm(each.forces, axis=-1).max() for each in (one, three)]
    facts = (
        f"one motor: supports push the frame with up to {peaks[0]:.3g} N each",
        f"three motors: {peaks[1]:.1e} N, from rounded data of the source and feedback",
        f"net moment on the frame: the same within {np.abs(one.moment - three.moment).max():.1e} "
        f"of {np.abs(one.moment).max():.3g} N m",
        f"power of the motors: the same within {np.abs(one.power - three.power).max():.1e} "
        f"of {np.abs(one.power).max():.3g} W",
        f"runs stay within {max(one.off, three.off):.1e} rad of the planned motion",
    )
    title = "A four-bar linkage shakes its frame with one motor"
    figures = {"supports.png": _figure(swings)}
    return Demonstration(one.run, facts, figures, title, {"forces": _arrows(one), "fps": 500.0})


def _arrows(found: Swing) -> dict[str, Any]:
    """Return the forces of the frame on the links at their supports, for arrows in the replay."""
    arrows = {}
    for k, name in enumerate(("link_1", "end")):
        rotation, _ = tb.forward_kinematics(found.run.model, found.run.q, [name])
        force = np.einsum("nji,nj->ni", rotation[:, 0], -found.forces[:, k])
        arrows[name] = np.concatenate([np.zeros_like(force), force], axis=-1)
    return arrows


@styled
def _figure(swings: dict[str, Swing]) -> "Figure":
    title = "A balanced four-bar linkage with one motor and with three"
    labels = ("larger support force [N]", "size of the net moment [N m]")
    with panels(title, *labels) as (figure, upper, lower):
        for name, found in swings.items():
            force = np.linalg.norm(found.forces, axis=-1).max(axis=1)
            upper.plot(found.run.time, force, linewidth=1.4, label=name)
            lower.plot(found.run.time, found.moment, linewidth=1.4)
    return figure
