"""Processor time of the first call of every public function, with no cache to help."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement
from benchmarks.timing import Timing

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
)
"""Public functions; `linearize_step` is `linearize` with a step."""

LIMIT = 2.0
"""Processor time from which on a wait needs a reason [s]."""


def run(duration: float) -> Iterator[Figure]:
    """Measure each function of each robot in a new process, the slowest first.

    Args:
        duration: Not used: each call happens once in its process.
    """
    from benchmarks.fresh_process import run_fresh

    found = []
    for robot in ROBOTS:
        for name in FUNCTIONS:
            answer = run_fresh("cold-call", robot, name, environment={"TIBURON_CACHE_DIR": "off"})
            if answer["refused"] is None:
                found.append((answer["seconds"], f"{name}, {robot}, {answer['nv']} DoF"))
    for seconds, what in sorted(found, reverse=True):
        yield Figure(what, Timing.of([seconds]), must=LIMIT)


MEASUREMENT = Measurement(
    "cold-compile", "First call of every public function, no cache: processor time", run, place=18
)
