"""Robots with one structure key have one program: a kernel that another robot left changes nothing.

Code is found by key before anything is traced. Whatever a trace reads must therefore be part of the
key, or follow from it: a decision that reads masses or stored poses is made by the first robot for
all others.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.loops.parallel_robots import parallel_robot
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.functions.dynamics import LOOP_METHODS, method_options
from tiburon.functions.kernel_source import LibrarySource
from tiburon.loops.stabilization import PROJECTION
from tiburon.native.code import forget_codes
from tiburon.simulation.loop_coordinates import COORDINATES, LoopCoordinates
from tiburon.simulation.step import StepSource
from tiburon.trace.digest import program_digest

ZOO = {"planar_3rrr": 3, "bricard": 1, "delta": 3}
"""Degrees of freedom by name."""

SLOW = pytest.mark.slow
FUNCTIONS = ("forward_dynamics", "loop_inverse_dynamics", "project_configuration")
RUNS = (None, tb.Baumgarte(20.0, 20.0), tb.Embedding("gauss"), tb.DeNOC("minimal"))


def with_other_values(model, seed=1):
    """Return the same robot with other inertias, damping and limits, and without other poses."""
    rng = np.random.default_rng(seed)
    bodies = []
    for body in model.bodies:
        factor, own = float(np.exp(rng.uniform(-4.0, 4.0))), body.inertia
        tensor = tuple(factor * x for x in own.tensor)
        bodies.append(replace(body, inertia=tb.Inertia(factor * own.mass, own.com, tensor)))
    poses = {name: q for name, q in model.poses.items() if name == "home"}
    parts = {"frames": model.frames, "loops": model.loops, "actuators": model.actuators}
    return tb.Model("other", bodies, **parts, poses=poses, about="other")


def digests(model, count):
    """Return the digests of all programs of a robot, None where it is refused."""
    sources = {name: LibrarySource(model, (name,), DEFAULT_WORLD) for name in FUNCTIONS}
    for method in LOOP_METHODS:
        options = method_options(method, model)
        sources[method] = LibrarySource(model, ("loop_dynamics",), DEFAULT_WORLD, options)
    for method in RUNS:
        own = (LoopCoordinates(COORDINATES, count),) if method in RUNS[2:] else ()
        system = tb.System(model, None, own, loops=method or PROJECTION)
        sources[method] = StepSource(system, "rk4")
    return {name: digest(source) for name, source in sources.items()}


def digest(source):
    try:
        return program_digest(source.program())
    except tb.ModelError:
        return None


@pytest.mark.parametrize("name", ["planar_3rrr", "bricard", pytest.param("delta", marks=SLOW)])
def test_programs_do_not_depend_on_values_outside_the_key(name):
    model = tb.load(name)
    other = with_other_values(model)
    assert other.structure_key() == model.structure_key()
    assert digests(other, ZOO[name]) == digests(model, ZOO[name])


def test_the_pose_home_is_part_of_the_key():
    """Orders of elimination and independent joints are judged in configurations around it."""
    model = tb.load("planar_3rrr")
    home = np.array(model.poses["home"])
    moved = model.with_poses({"home": home + 0.1, "other": home})
    assert moved.structure_key() != model.structure_key()
    assert model.with_poses({"other": home}).structure_key() == model.structure_key()
    tree = model.without_loops()
    assert tree.with_poses({"home": home + 0.1}).structure_key() == tree.structure_key()


@SLOW
def test_a_robot_without_home_is_answered_whatever_the_cache_holds(tmp_path, monkeypatch):
    """Before and after the robot with the pose was compiled, with the same bits."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(tmp_path))
    forget_codes()
    robot, q = parallel_robot(np.random.default_rng(22), 4, False)
    bare = tb.Model(robot.name, robot.bodies, loops=robot.loops, actuators=robot.actuators)
    rest = np.zeros(robot.nv)
    first = tb.forward_dynamics(bare, q, rest, rest, method="denoc")
    posed = tb.forward_dynamics(robot, q, rest, rest, method="denoc")
    forget_codes()
    again = tb.Model(robot.name, robot.bodies, loops=robot.loops, actuators=robot.actuators)
    assert np.array_equal(tb.forward_dynamics(again, q, rest, rest, method="denoc"), first)
    np.testing.assert_allclose(posed, first, atol=1e-9 * np.abs(first).max())
