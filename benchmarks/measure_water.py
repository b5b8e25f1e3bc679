"""A vehicle with an arm under water: against itself on land, Pinocchio on land, and the sources."""

from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing, measure

ROBOT = "tiburon_titan"
SIZE = 4096

WET, WET_AIM = round(1.0 / 2.3, 3), round(1.0 / 1.8, 3)
"""Water may cost 2.3 times as much, and is to cost 1.8 times as much; the sources count 1.79."""

ONE_CALL, BATCH = 3.0, 12.0
"""How many times faster than Pinocchio on land the robot under water must be."""

PUBLISHED = (
    ("arm on land", "the paper of 1995", 0.30e-3),
    ("vehicle with arm on land", "the paper of 1995", 0.38e-3),
    ("vehicle with arm under water", "the paper of 1995", 0.52e-3),
    ("vehicle with arm under water", "the thesis of 1994", 0.7e-3),
    ("six-legged walker under water", "the thesis of 1994", 2.6e-3),
)
"""Time of one evaluation [s]: McMillan, Orin and McGhee 1995, section VI; McMillan 1994, chapter 8.
Means of 100 evaluations in single precision on a MIPS R4400 of 150 MHz."""

THEN = "times of the sources: single precision, C++, MIPS R4400 of 150 MHz"
"""What a reader must know of them."""

PUSH, MASS, RATIO = 1.0, 1.0, 5.0
"""Acceleration to give a ball [m/s^2], its mass [kg], and its added mass by that."""

NOTE = (
    "under water: added mass, strips on the links of the arm, buoyancy, damping, uniform current; "
    "the sources, under water against on land, 1.79 times the operations and 1.37 times the time"
)


def run(duration: float) -> Iterator[Figure]:
    """Measure forward dynamics in a current and on land, one state and a batch.

    Args:
        duration: Time to spend on each side [s].
    """
    yield from _one_state(duration)
    yield from _batch(duration)
    yield from _sources(duration)


def _water() -> Any:
    import tiburon as tb

    return tb.Water(1025.0, (0.4, -0.2, 0.1))


def _one_state(duration: float) -> list[Figure]:
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case

    case = make_case(ROBOT)
    state = case.q, case.v, case.tau
    dry = tb.compile(tb.forward_dynamics, case.model)
    wet = tb.compile(tb.forward_dynamics, case.model, fluid=_water())
    peer_call = (pin.aba, case.peer, case.peer.createData(), case.peer_q, case.peer_v)
    peer_call += (case.peer_tau,)
    check_equal(ROBOT, dry(*state), case.from_peer(pin.aba(*peer_call[1:])), ROUND_OFF)
    # nobody else does all of this; by the mass matrix we take another way to the same
    by_matrix = tb.forward_dynamics(case.model, *state, method="composite", fluid=_water())
    check_equal(f"{ROBOT} under water", wet(*state), by_matrix, ROUND_OFF)
    times = measure(
        {"wet": (wet, *state), "dry": (dry, *state), "peer": peer_call}, duration=duration
    )
    name = f"{ROBOT} under water, one call"
    return [
        Figure(name, times["wet"], "own on land", times["dry"], WET, WET_AIM, note=NOTE),
        Figure(name, times["wet"], "pin.aba on land", times["peer"], ONE_CALL, note=_pushed()),
    ]


def _batch(duration: float) -> list[Figure]:
    import tiburon as tb
    from benchmarks.parallel_peer import prepare_batch

    sides = prepare_batch(ROBOT, SIZE, threads=1)
    case = sides.case
    wet = tb.compile(tb.forward_dynamics, case.model, fluid=_water())
    times = measure(
        {
            "wet": lambda: wet(case.q, case.v, case.tau, threads=1),
            "dry": sides.ours(1),
            "peer": sides.peer(1),
        },
        duration=duration,
    )
    mine, dry, peer = (times[key].per(SIZE) for key in ("wet", "dry", "peer"))
    name = f"{ROBOT} under water, batch of {SIZE}"
    return [
        Figure(name, mine, "own on land", dry, WET, WET_AIM),
        Figure(name, mine, "pin.abaInParallel on land", peer, BATCH),
    ]


def _sources(duration: float) -> list[Figure]:
    """Set our times of the sources' robots beside theirs; thirty years lie between the machines."""
    import tiburon as tb
    from benchmarks.robots import ROBOTS
    from benchmarks.states import draw_states

    whole = ROBOTS[ROBOT]()
    # held by its vehicle, the arm stands still in the world
    robots = {
        "arm on land": (whole.lock("base"), None),
        "vehicle with arm on land": (whole, None),
        "vehicle with arm under water": (whole, _water()),
        "six-legged walker under water": (tb.load("aquarobot"), _water()),
    }
    calls = {}
    for name, (model, water) in robots.items():
        kernel = tb.compile(tb.forward_dynamics, model, fluid=water)
        calls[name] = (kernel, *draw_states(model))
    times = measure(calls, duration=duration)
    return [
        Figure(name, times[name], source, Timing(published, published), note=THEN)
        for name, source, published in PUBLISHED
    ]


def _pushed() -> str:
    """Push a ball of large added mass for 5 s, and tell how fast it is after that.

    The force (m + m_A) a gives the velocity a t, whatever the step.
    """
    import mujoco
    import numpy as np

    import tiburon as tb

    force, end, step = (1.0 + RATIO) * MASS * PUSH, 5.0, 0.005
    added = (0.0, 0.0, 0.0, *(RATIO * MASS,) * 3)
    fluid = tb.BodyFluid(added_mass=added, reference_density=1000.0)
    inertia = tb.Inertia(MASS, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    ball = tb.Body("ball", joint=tb.Free("ball"), inertia=inertia, fluid=fluid)
    model = tb.Model("ball", [ball])
    push = np.array([0.0, 0.0, 0.0, force, 0.0, 0.0])
    still = tb.World(gravity=(0.0, 0.0, 0.0), fluid=tb.Water(1000.0))
    steps = round(end / step)
    motion = tb.integrate_rk4(
        model, model.neutral(), np.zeros(6), push, dt=step, steps=steps, world=still
    )
    ours = float(motion.v[-1, 3])
    # a ball carries half of what it displaces
    density = 1000.0
    radius = (2.0 * RATIO * MASS / density / (4.0 / 3.0 * np.pi)) ** (1.0 / 3.0)
    peer = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option gravity="0 0 0" density="{density}" timestep="{step}"/><worldbody>
        <body><freejoint/><geom type="sphere" size="{radius}" mass="{MASS}"
        fluidshape="ellipsoid" fluidcoef="0 0 0 0 0"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(peer)
    data.qfrc_applied[0] = force
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    exact = PUSH * end
    check_equal("a pushed ball", ours, exact, 1e-12)
    return (
        f"a ball of {RATIO:g} times its mass in added mass, pushed for {end:g} s by "
        f"(m + m_A) {PUSH:g} m/s^2: exact {exact:g} m/s, ours {ours:.12g} m/s, "
        f"MuJoCo {data.qvel[0]:.3g} m/s"
    )


MEASUREMENT = Measurement("water", "Forward dynamics under water, compiled kernel", run, place=14)
