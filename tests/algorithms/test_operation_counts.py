"""Exact operation counts of the traced algorithms: they must not creep up.

The inertial numbers and gravity are run-time parameters, as in every kernel.
"""

from dataclasses import replace

import numpy as np
import pytest

import benchmarks.robots as measured
import tiburon as tb
from tests.model.samples import random_inertia
from tests.robots import ROBOTS
from tiburon.algorithms.aba import aba
from tiburon.functions.kernel_source import LibrarySource
from tiburon.spatial import AxisRotation, Transform, Translation
from tiburon.trace.count import count
from tiburon.trace.program import trace

FREE_FALL = tb.World(gravity=(0.0, 0.0, 0.0))


def operations(model, name, world=None):
    """Count a public function as it is compiled."""
    return count(LibrarySource(model, (name,), world or tb.World()).program())


@pytest.mark.parametrize(
    ("robot", "function", "multiplications", "additions"),
    [
        ("panda", "forward_dynamics", 732, 676),
        ("panda", "inverse_dynamics", 368, 388),
        ("panda", "mass_matrix", 196, 211),
        # legs side by side: terms that two of them share are computed in each
        ("quadruped", "forward_dynamics", 1814, 1732),
        ("quadruped", "inverse_dynamics", 886, 908),
        ("quadruped", "mass_matrix", 336, 416),
        ("chain_16", "forward_dynamics", 2098, 1966),
        ("chain_16", "inverse_dynamics", 983, 1010),
        ("chain_16", "mass_matrix", 1075, 919),
        ("humanoid", "forward_dynamics", 4158, 3941),
    ],
)
def test_counts_of_the_measured_robots_do_not_grow(robot, function, multiplications, additions):
    """An upper bound for each; lower it when the count falls."""
    found = operations(measured.ROBOTS[robot](), function)
    assert found.multiplications <= multiplications
    assert found.additions <= additions


def test_one_division_per_degree_of_freedom_and_one_for_the_quaternion():
    """Joints share reciprocals; sine and cosine of an angle come as one pair."""
    found = operations(measured.quadruped(), "forward_dynamics")
    assert found.divisions == 18 + 1
    assert found.sine_cosine_pairs == 12
    assert found.square_roots == 0


def test_articulated_bodies_need_no_more_than_the_published_count():
    """A chain of n revolute joints in general modified Denavit-Hartenberg frames.

    McMillan and Orin 1995: 224 n - 259 multiplications and 205 n - 248 additions. The link lengths,
    twists and inertias are unknowns of the graph here, so that nothing folds by chance.
    """
    n = 7
    rng = np.random.default_rng(5)
    bodies, parent = [], "world"
    for number in range(n):
        joint = tb.Revolute(f"joint_{number}")
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    model = tb.Model("general_chain", bodies)

    def run(q, v, tau, inertia, gravity, dh):
        plan = model.plan.with_parameters(inertia.tolist())
        links = [
            replace(
                body,
                placement=Transform(
                    (
                        Translation((a, 0.0, 0.0)),
                        AxisRotation(0, c, s),
                        Translation((0.0, 0.0, d)),
                    )
                ),
            )
            for body, (a, c, s, d) in zip(plan.bodies, dh.tolist(), strict=True)
        ]
        general = replace(plan, bodies=tuple(links))
        state = (q.tolist(), v.tolist(), tau.tolist())
        return list(aba(general, *state, (0.0, 0.0, gravity)))

    shapes = {"q": (n,), "v": (n,), "tau": (n,), "inertia": (10 * n,), "g": (), "dh": (n, 4)}
    found = count(trace(run, shapes))
    assert found.multiplications <= 224 * n - 259
    assert found.additions <= 205 * n - 248


def test_mass_matrix_is_structurally_zero_between_branches():
    """Entries of two legs are constants of the graph, not computed zeros."""
    model = ROBOTS["quadruped"]
    program = LibrarySource(model, ("mass_matrix",), tb.World()).program()
    constants = np.array([program.graph.constant_of(node) == 0.0 for node in program.roots])
    zero = constants.reshape(model.nv, model.nv)
    hip, calf = (
        model.slice(f"{name}_joint", of="v").start for name in ("front_left_hip", "rear_right_calf")
    )
    assert zero[hip, calf]
    assert zero[calf, hip]
    # four legs of three joints: 12 * 9 entries off their own leg
    assert zero[6:, 6:].sum() == 12 * 9


def test_no_gravity_costs_less_than_gravity():
    """Zero components of gravity are structure and fold away."""
    model = measured.panda()
    without = operations(model, "inverse_dynamics", FREE_FALL)
    assert without.multiplications < operations(model, "inverse_dynamics").multiplications


def test_kinematics_of_one_frame_costs_its_own_chain_only():
    """What no output needs is never computed."""
    model = measured.quadruped()
    options = (("frames", "front_left_hip_link"),)
    one = count(LibrarySource(model, ("forward_kinematics",), tb.World(), options).program())
    every = operations(model, "forward_kinematics")
    assert one.sine_cosine_pairs == 1
    assert every.sine_cosine_pairs == 12
