"""Coordinates about a position: how fast they change, for every joint whose steps do not add."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import DIFFERENCE, DIFFERENCE_STEP
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.trace import interpret, trace
from tiburon.trace.regions.lanes import LanesRegion

RANDOM = np.random.default_rng(81)

JOINTS = {
    "spherical": tb.Spherical("j"),
    "free": tb.Free("j"),
    "rolling": tb.RollingSphere("j", 0.3),
    "driven": tb.Driven(
        "j", tb.Revolute("t"), tb.Harmonic(0.2, frequency=1.0), carried=tb.Free("c")
    ),
    "planar": tb.Planar("j"),
    "universal": tb.Universal("j"),
    "revolute": tb.Revolute("j", (0, 1, 0)),
}
TURNING = ("spherical", "free", "rolling", "driven")


def manifold_of(joint):
    inertia = tb.Inertia(1.0, (0.1, 0.0, 0.2), (0.1, 0.2, 0.25))
    return Manifold(tb.Model("one", [tb.Body("b", joint=joint, inertia=inertia)]))


@pytest.mark.parametrize("kind", JOINTS)
def test_only_joints_that_turn_about_several_axes_need_a_correction(kind):
    """Their steps begin with the turn: the angle that the correction divides by."""
    joint = JOINTS[kind]
    manifold = manifold_of(joint)
    assert manifold.turning == (kind in TURNING,)
    if kind in TURNING:
        count = manifold.step_counts[0]
        q = joint.random(RANDOM)
        # a step of the first three numbers by 2 pi leads back to the same orientation
        axis = RANDOM.standard_normal(3)
        axis *= 2 * np.pi / np.linalg.norm(axis)
        back = joint.move(q, (*axis.tolist(), *(0.0,) * (count - 3)))
        assert np.abs(joint.displacement(q, back)).max() < 1e-9


@pytest.mark.parametrize("angle", [1e-3, 9.9e-3, 1.01e-2, 0.5, 3.0])
@pytest.mark.parametrize("kind", TURNING)
def test_coordinates_change_as_positions_do(kind, angle):
    """d/dt of displacement(q, moved) while moved moves on at a rate, by central differences."""
    joint = JOINTS[kind]
    manifold = manifold_of(joint)
    count = manifold.step_counts[0]
    q = joint.random(RANDOM)
    theta = RANDOM.standard_normal(count)
    theta[:3] *= angle / np.linalg.norm(theta[:3])
    rate = RANDOM.standard_normal(count)
    moved = joint.move(q, tuple(theta.tolist()))
    h = DIFFERENCE_STEP
    ends = [joint.move(moved, tuple((s * h * rate).tolist())) for s in (-1, 1)]
    before, after = (np.array(joint.displacement(q, end)) for end in ends)
    (found,) = manifold.coordinate_rate((tuple(theta.tolist()),), (tuple(rate.tolist()),))
    # near a half turn the logarithm bends ten times more
    np.testing.assert_allclose(found, (after - before) / (2 * h), rtol=0, atol=10 * DIFFERENCE)


@pytest.mark.parametrize("kind", TURNING)
def test_series_and_closed_form_agree_at_their_boundary(kind):
    """On both sides of the angle where one takes over from the other."""
    manifold = manifold_of(JOINTS[kind])
    count = manifold.step_counts[0]
    theta, rate = RANDOM.standard_normal(count), RANDOM.standard_normal(count)
    theta[:3] /= np.linalg.norm(theta[:3])
    found = []
    for angle in (0.01 * (1 - 1e-14), 0.01 * (1 + 1e-14)):
        step = tuple((angle * theta).tolist())
        found.append(manifold.coordinate_rate((step,), (tuple(rate.tolist()),))[0])
    # neglected terms of the series are below 1e-17; the closed form cancels to 1e-15
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-14)


def test_displacement_undoes_a_move():
    """For a whole robot of several joints."""
    model = tb.Model(
        "several",
        [
            tb.Body("a", joint=tb.Free("f"), inertia=tb.Inertia(1.0, (0, 0, 0), (0.1, 0.1, 0.1))),
            tb.Body("b", "a", joint=tb.Universal("u"), inertia=tb.Inertia.sphere(1.0, 0.2)),
        ],
    )
    manifold = Manifold(model)
    q, _ = model.random_state(RANDOM)
    steps = tuple(tuple((0.7 * RANDOM.standard_normal(n)).tolist()) for n in manifold.step_counts)
    found = manifold.displacement(tuple(q), manifold.move(tuple(q), steps))
    for one, other in zip(found, steps, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def test_ball_joints_move_side_by_side():
    """Six ball joints of one kind: calls in lanes, with the values of each by itself."""
    model = tb.load("aquarobot")
    manifold = Manifold(model)
    rng = np.random.default_rng(3)
    q = np.array(model.poses["stand"])
    v, other = rng.standard_normal((2, model.nv))

    def run(x):
        q, v, other = x[: model.nq], x[model.nq : model.nq + model.nv], x[model.nq + model.nv :]
        moved = manifold.displaced(list(q), list(v), 0.3)
        turned = manifold.reexpress(list(other), list(q), moved)
        return [*moved, *turned, *manifold.normalize(moved)]

    program = trace(lambda x: np.array(run(x), dtype=object), {"x": (model.nq + 2 * model.nv,)})
    graph = program.graph
    called = [graph.payloads[n] for n in graph.live(program.roots) if graph.ops[n] == "call"]
    assert [c.calls for c in called if isinstance(c, LanesRegion)] == [6, 6, 6]
    found = np.asarray(interpret(program, {"x": np.r_[q, v, other]}), float).ravel()
    # each joint by itself
    expected: list[list[float]] = [[], [], []]
    for joint in model.joints:
        at_q, at_v = model.slice(joint.name), model.slice(joint.name, of="v")
        here, turn = q[at_q].tolist(), other[at_v].tolist()
        there = joint.move(here, [0.3 * x for x in joint.step(here, v[at_v].tolist())])
        expected[0] += there
        alone = manifold_of(joint)
        expected[1] += alone.reexpress_joint(0, tuple(turn), tuple(here), tuple(there))
        expected[2] += joint.normalize(there)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-14)
