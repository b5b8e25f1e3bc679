"""Processor time of first calls with an empty cache: trace, compile, evaluate once."""

from collections.abc import Iterator
from math import inf
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing

FIRST_CALLS = (
    ("forward_dynamics", "panda", 0.35, 0.6),
    ("forward_dynamics", "quadruped", 0.35, 0.6),
    ("forward_dynamics", "chain_20", 0.35, 0.6),
    ("forward_dynamics_derivatives", "panda", 2.5, 2.5),
)
"""Function, robot, and bounds of the first call and of the first batch after it [s]."""

WAITS = (
    ("linearize", "quadruped", "land", 4.0),
    ("linearize_step", "quadruped", "land", 4.0),
    ("linearize", "tiburon_titan", "still", 2.5),
    ("linearize", "tiburon_titan", "split", 4.0),
    ("linearize", "tiburon_titan", "surface", 4.0),
    ("linearize", "tiburon_titan", "current", 4.0),
    ("linearize_step", "tiburon_titan", "current", 4.0),
    ("forward_dynamics_derivatives", "tiburon_titan", "still", 3.0),
    ("forward_dynamics_derivatives", "wet_chain_40", "still", 4.0),
    ("mass_matrix", "chain_128", "land", None),
    ("inverse_mass_matrix", "chain_128", "land", None),
    ("coriolis_matrix", "chain_128", "land", None),
    ("regressor", "chain_128", "land", None),
    ("inverse_dynamics_derivatives", "chain_128", "land", None),
    ("forward_dynamics_derivatives", "chain_128", "land", 3.0),
    ("rosenbrock", "quadruped", "land", 4.0),
    ("rosenbrock", "jansen_legs", "land", 8.0),
    ("rosenbrock", "stewart", "land", 8.0),
    ("cartesian_path", "stewart", "land", 5.0),
)
"""The longest waits: function, robot, surroundings (`fresh_tasks.WATERS`) and bound [s], if any."""

STEP_RATIO = 1.5
"""Most that a discrete linearization may take, in times of the continuous one."""

ROBOTS = (
    "panda",
    "quadruped",
    "two_arm_rov",
    "tiburon_titan",
    "bluerov2_heavy",
    "four_bar",
    "delta",
    "stewart",
)
"""Robots of the zoo: on land, under water, with loops."""

LOOPED, STANDING = ("four_bar", "delta", "stewart"), ("quadruped", "panda", "tiburon_titan")
"""Robots with loops; robots with contact points or collision shapes."""

FUNCTIONS = (
    "forward_dynamics",
    "inverse_dynamics",
    "mass_matrix",
    "inverse_mass_matrix",
    "coriolis_matrix",
    "bias_force",
    "gravity_force",
    "regressor",
    "joint_reactions",
    "kinetic_energy",
    "potential_energy",
    "center_of_mass",
    "center_of_mass_jacobian",
    "momentum",
    "momentum_matrix",
    "forward_kinematics",
    "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives",
    "inertia_derivatives",
    "linearize",
    "linearize_step",
    "simulate",
    "rosenbrock",
)
"""Public functions; `linearize_step` is `linearize` with a step, `rosenbrock` a run with it."""

OTHERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("panda", "quadruped", "tiburon_titan", "stewart"), "linearize batch"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "linearize_step batch"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "simulate batch"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "rosenbrock batch"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "semi_implicit_euler"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "dopri5"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "dop853"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "b1pc5"),
    (("panda", "quadruped", "tiburon_titan", "stewart"), "stepper"),
    (("two_arm_rov", "tiburon_titan", "aquarobot"), "fluid_regressor"),
    (("two_arm_rov", "tiburon_titan", "aquarobot"), "fluid_regressor batch"),
    (LOOPED, "loop_dynamics"),
    (LOOPED, "loop_dynamics batch"),
    (LOOPED, "loop_inverse_dynamics"),
    (LOOPED, "loop_reactions"),
    (LOOPED, "project_configuration"),
    (LOOPED, "project_velocity"),
    (LOOPED, "mobility"),
    (LOOPED, "loop_motion_derivatives"),
    (STANDING, "contacts"),
    (STANDING, "contact_dynamics"),
    (STANDING, "impact"),
    (STANDING, "rigid"),
    (STANDING, "rigid batch"),
    (("quadruped",), "compliant"),
    (STANDING, "convex"),
    (("quadruped",), "exact"),
    (("quadruped", "panda"), "linearize_contact"),
    (("quadruped",), "share_load"),
    (("chain_100",), "parts"),
)
"""Further first calls (`fresh_tasks.cold_call`), and the robots for which they are measured."""

LIMIT = 2.0
"""Most processor time of a first call [s]."""

NO_CACHE = {"TIBURON_CACHE_DIR": "off", "TIBURON_COMPILER": "tiered"}
"""Environment of first calls: no code on disk, the code of first calls."""


def run(duration: float) -> Iterator[Figure]:
    """Measure first calls in new processes, cache off; imports are done before.

    Args:
        duration: Decides how many processes are started for each first call of forward dynamics;
            all other calls happen once.
    """
    for function, robot, one_must, many_must in FIRST_CALLS:
        yield from _first_calls(function, robot, one_must, many_must, duration)
    continuous: dict[tuple[str, str], float] = {}
    for function, robot, water, must in WAITS:
        answer = _cold_call(function, robot, water)
        seconds = answer["seconds"]
        if function == "linearize":
            continuous[robot, water] = seconds
        ratio = STEP_RATIO * continuous[robot, water] if function == "linearize_step" else inf
        bound = None if must is None else min(must, ratio)
        what = f"{function}, {robot} ({water}), {answer['nv']} DoF"
        yield Figure(what, Timing.of([seconds]), must=bound)
    for robots, function in (*((ROBOTS, name) for name in FUNCTIONS), *OTHERS):
        yield from _every_robot(function, robots)


def _cold_call(function: str, robot: str, water: str = "") -> dict[str, Any]:
    from benchmarks.fresh_process import run_fresh

    return run_fresh("cold-call", robot, function, water, environment=NO_CACHE)


def _first_calls(
    function: str, robot: str, one_must: float, many_must: float, duration: float
) -> Iterator[Figure]:
    """Measure the first call and the first batch; accelerations are compared with the peer's."""
    import pinocchio as pin

    from benchmarks.cases import ROUND_OFF, make_case
    from benchmarks.fresh_process import join_names, repeats, run_fresh

    case = make_case(robot)
    # the first process lists what the calls import
    words = (robot, "", "allowed", function)
    first = run_fresh("first-calls", *words, environment=NO_CACHE)
    data = case.peer.createData()
    vd = pin.aba(case.peer, data, case.peer_q, case.peer_v, case.peer_tau)
    accelerations = first["one"] if function == "forward_dynamics" else first["one"][0]
    check_equal(robot, accelerations, case.from_peer(vd), ROUND_OFF)
    words = (robot, join_names(first["modules"]), "allowed", function)
    runs = [
        run_fresh("first-calls", *words, environment=NO_CACHE) for _ in range(repeats(duration))
    ]
    what = f"{function}, {robot}, {case.model.nv} DoF"
    one = Timing.of([run["one_processor"] for run in runs])
    many = Timing.of([run["many_processor"] for run in runs])
    yield Figure(f"{what}, first call", one, must=one_must)
    yield Figure(f"{what}, first batch after it", many, must=many_must)


def _every_robot(function: str, robots: tuple[str, ...]) -> Iterator[Figure]:
    """Measure a function for all robots that it accepts."""
    for robot in robots:
        answer = _cold_call(function, robot)
        if answer["refused"] is None:
            time = Timing.of([answer["seconds"]])
            yield Figure(f"{function}, {robot}", time, must=LIMIT, row=function, column=robot)


MEASUREMENT = Measurement(
    "compile", "First calls with an empty cache: processor time", run, place=7
)
