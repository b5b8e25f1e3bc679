"""Walkers: a dog and a hexapod on a hill, Aquarobot on the sea floor, a strandbeest on a beach."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tiburon as tb
from tiburon.control.gait import Gait, gait_control
from tiburon.demos.demo import Demonstration, attitude, contact_facts, contact_figure, walk_figure

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

CELL = 0.1
"""Spacing of the heights of the hill [m]."""

ROUGHNESS = 0.006
"""Standard deviation of single heights [m]."""


def hill(height: float, length: float) -> tb.Ground:
    """Return level ground, then a rough hill along x, then rough ground.

    Args:
        height: Of the hill [m].
        length: Of the hill along x, which begins at 0.7 m [m].
    """
    x, y = CELL * np.arange(-20, 96), CELL * np.arange(-25, 26)
    along = np.clip((x - 0.7) / length, 0.0, 1.0)
    rises = 0.5 * height * (1.0 - np.cos(2.0 * np.pi * along))
    rough = np.clip((x - 0.7) / 1.0, 0.0, 1.0)[:, None]
    heights = rises[:, None] + rough * ROUGHNESS * np.random.default_rng(7).standard_normal(
        (len(x), len(y))
    )
    grid = tb.GroundGrid(
        (CELL, CELL), tuple(map(tuple, heights.tolist())), (float(x[0]), float(y[0])), smooth=True
    )
    return tb.Ground(grid=grid, static_friction=0.8, kinetic_friction=0.7)


def _walked(run: "Trajectory", feet: list[str], title: str, more: tuple[str, ...]) -> Demonstration:
    way = run.q[-1, 4:7] - run.q[0, 4:7]
    roll, pitch, yaw = (np.degrees(np.abs(angle).max()) for angle in attitude(run.q))
    facts = (
        f"walked {way[0]:.2f} m ahead and {abs(way[1]):.2f} m aside in "
        f"{run.time[-1] - run.time[0]:.4g} s",
        f"leaned by {roll:.1f} degrees sideways, {pitch:.1f} degrees fore and aft at most; heading "
        f"within {yaw:.1f} degrees",
        *more,
        *contact_facts(run, feet),
    )
    return _with_figures(run, facts, feet, title)


def _with_figures(
    run: "Trajectory", facts: tuple[str, ...], feet: list[str], title: str
) -> Demonstration:
    figures = {
        "walk.png": walk_figure(run, title),
        "contacts.png": contact_figure(run, feet, title),
    }
    return Demonstration(run, facts, figures, title)


TROT = {
    "front_left_foot": 0.0,
    "hind_right_foot": 0.0,
    "front_right_foot": 0.5,
    "hind_left_foot": 0.5,
}
"""Phases of the feet of a trotting dog: diagonal ones swing together."""


def quadruped(duration: float | None = None) -> Demonstration:
    """Let the dog trot over a hill.

    Args:
        duration: Simulated time [s]; 12 by default.
    """
    length = 12.0 if duration is None else duration
    dog = tb.load("quadruped")
    stand = dog.poses["stand"]
    gait = Gait(TROT, period=0.4, duty=0.6, stride=(0.24, 0.0), lift=0.08)
    control = gait_control(
        dog, stand, gait, 250.0, 2.5, stop=length - 0.4, leveling=1.0, torque_limit=33.0
    )
    return _climbed(dog, control, length, (0.12, 3.0), "A dog trots over a hill")


def hexapod(duration: float | None = None) -> Demonstration:
    """Let the OSU Hexapod walk over a hill, three legs at a time.

    Args:
        duration: Simulated time [s]; 12 by default.
    """
    length = 12.0 if duration is None else duration
    robot = tb.load("osu_hexapod")
    stand = robot.poses["stand"]
    first = ("left_front_foot", "right_middle_foot", "left_rear_foot")
    phases = {point.name: 0.0 if point.name in first else 0.5 for point in robot.contacts}
    gait = Gait(phases, period=1.2, duty=0.6, stride=(0.4, 0.0), lift=0.12)
    control = gait_control(robot, stand, gait, 4000.0, 60.0, stop=length - 0.4, leveling=0.7)
    return _climbed(robot, control, length, (0.15, 4.0), "The OSU Hexapod walks over a hill")


def _climbed(
    robot: tb.Model, control: Any, length: float, slope: tuple[float, float], title: str
) -> Demonstration:
    """Let a robot walk over a hill of some height and length [m], from its pose "stand"."""
    stand, world = robot.poses["stand"], tb.World(ground=hill(*slope))
    run = tb.simulate(
        robot, length, q=stand, world=world, control=control, execution=tb.Execution(progress=False)
    )
    climbed = run.q[:, 6].max() - run.q[0, 6]
    more = (f"climbed {climbed:.2f} m on a slope of up to 7 degrees, over bumps",)
    return _walked(run, [point.name for point in robot.contacts], title, more)


def aquarobot_gait() -> Gait:
    """Return the gait of Aquarobot, three legs at a time."""
    return Gait(
        {f"leg_{k + 1}_pad": 0.5 * (k % 2) for k in range(6)},
        period=3.0,
        duty=0.6,
        stride=(0.4, 0.0),
        lift=0.15,
    )


def aquarobot(duration: float | None = None) -> Demonstration:
    """Let Aquarobot walk on the sea floor, across a current.

    Args:
        duration: Simulated time [s]; 12 by default.
    """
    length = 12.0 if duration is None else duration
    robot = tb.load("aquarobot")
    stand = robot.poses["stand"]
    gait = aquarobot_gait()
    control = gait_control(
        robot, stand, gait, 30_000.0, 1500.0, stop=length - 0.4, ramp=1.0, heading=1.0
    )
    sea = tb.Water(1025.0, current=(0.0, 0.3, 0.0))
    world = tb.World(ground=tb.Ground(static_friction=0.7, kinetic_friction=0.6), fluid=sea)
    run = tb.simulate(
        robot, length, q=stand, world=world, control=control, execution=tb.Execution(progress=False)
    )
    more = ("a current of 0.3 m/s pushes from the side",)
    return _walked(run, list(gait.phases), "Aquarobot walks on the sea floor in a current", more)


CRANK_SPEED = 2.5
"""Of the crankshaft [rad/s]."""

STEP = 2e-3
"""Of the integrator [s]."""


def strandbeest(duration: float | None = None) -> Demonstration:
    """Let the strandbeest walk on sand: compliant ground.

    Args:
        duration: Simulated time [s]; 6 by default.
    """
    length = 6.0 if duration is None else duration
    beast = tb.load("strandbeest")
    sand = tb.Ground(
        static_friction=0.8, kinetic_friction=0.7, normal_stiffness=8e3, normal_damping=150.0
    )
    shaft = beast.slice("crankshaft", of="v").start

    @tb.traced
    def wind(state):  # type: ignore[no-untyped-def]
        force = [0.0] * beast.nv
        speed = CRANK_SPEED * np.clip(state.time, 0.0, 1.0)
        force[shaft] = np.clip(60.0 * (speed - state.v[shaft]), -60.0, 60.0)
        return force

    run = tb.simulate(
        beast,
        length,
        world=tb.World(ground=sand),
        control=wind,
        method=tb.RK4(dt=STEP),
        execution=tb.Execution(progress=False),
    )
    feet = [point.name for point in beast.contacts]
    way = run.q[-1, 4:7] - run.q[0, 4:7]
    roll, pitch, _ = (np.degrees(np.abs(angle).max()) for angle in attitude(run.q))
    turns = run.q[-1, beast.slice("crankshaft").start] / (2.0 * np.pi)
    residual = float(np.abs(tb.constraint_residual(beast, run.q[::20])).max())
    title = "A strandbeest walks on sand"
    facts = (
        f"walked {way[0]:.2f} m in {length:.4g} s with {turns:.1f} turns of its crankshaft",
        f"leaned by {roll:.1f} degrees sideways, {pitch:.1f} degrees fore and aft at most",
        f"its 36 loops stay closed within {residual:.1e} m",
        *contact_facts(run, feet),
    )
    return _with_figures(run, facts, feet, title)
