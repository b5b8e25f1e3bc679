"""Articulated bodies whose joints share variables, against the mass matrix of the tied robot."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.model.test_coupled import tied
from tests.running import Interpreted
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.algorithms.hybrid import coupled_aba, hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import forward_by_mass_matrix
from tiburon.algorithms.tape_calls import scalars
from tiburon.functions.library import LIBRARY

GRAVITY = (1.5, -2.5, -9.0)

BASES = [(1, "free"), (2, "revolute"), (3, "spherical"), (4, "fixed")]
"""Without a moving base the branches that share variables meet in the world."""


@pytest.fixture(params=BASES, ids=lambda p: p[1])
def case(request):
    model = tied(*request.param)
    rng = np.random.default_rng(request.param[0])
    q, v = model.random_state(rng)
    return model, q, v, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


def on_floats(name, model, q, **options):
    return np.asarray(LIBRARY[name].run(model, None, tuple(options.items()), q), dtype=float)


def loss(model, q):
    """Return what solving with the mass matrix may lose, relative to the result."""
    return np.linalg.cond(on_floats("mass_matrix", model, q))


def test_articulated_bodies_equal_the_mass_matrix(case):
    """Where shared variables meet, they are eliminated as the factors of the mass matrix do."""
    model, q, v, tau, _ = case
    given = [scalars(x) for x in (q, v, tau)]
    expected = np.array(forward_by_mass_matrix(model.plan, *given, GRAVITY))
    found = np.array(coupled_aba(model.plan, *given, GRAVITY))
    assert_close(found, expected, SOLVE, np.abs(expected).max() * loss(model, q))


@pytest.mark.parametrize("pattern", range(4))
def test_hybrid_methods_agree_whatever_shared_accelerations_are_known(case, pattern):
    """A known shared acceleration moves all its joints, and its force is felt at all of them."""
    model, q, v, tau, vd = case
    known = [bool((row + pattern) % (2 + pattern // 2)) for row in range(model.nv)]
    given = [scalars(x) for x in (q, v, tau, vd)]
    found = hybrid_aba(model.plan, *given, known, GRAVITY)
    expected = hybrid_crba(model.plan, *given, known, GRAVITY)
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.array(theirs)
        assert_close(np.array(ours), theirs, SOLVE, np.abs(theirs).max() * loss(model, q))


@pytest.mark.parametrize("known_leader", [False, True])
def test_armatures_of_shared_joints_count_once(known_leader):
    """Rotor inertia on the diagonal of the mass matrix, also of a leader and of known motion."""
    model = tied(2, "revolute")
    bodies = [
        replace(body, joint=replace(body.joint, armature=0.7)) if body.joint.nv else body
        for body in model.bodies
    ]
    model = tb.Model("geared", bodies)
    q, v = model.random_state(8)
    given = [scalars(x) for x in (q, v, np.ones(model.nv), -np.ones(model.nv))]
    known = [False] * model.nv
    known[model.slice("j_left", of="v")] = [known_leader]
    found = hybrid_aba(model.plan, *given, known, GRAVITY)
    expected = hybrid_crba(model.plan, *given, known, GRAVITY)
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.array(theirs)
        assert_close(np.array(ours), theirs, SOLVE, np.abs(theirs).max() * loss(model, q))


def test_massless_follower_is_accepted():
    """Only the tied motion must meet inertia: the follower's own freedom is never solved for."""
    rng = np.random.default_rng(5)
    arm = tb.Body("arm", joint=tb.Revolute("elbow", random_axis(rng)), inertia=random_inertia(rng))
    needle = tb.Body(
        "needle",
        "arm",
        joint=tb.Coupled("gauge", tb.Revolute("turn", (0, 0, 1)), "elbow", 3.0),
        inertia=tb.Inertia(0.1, (0, 0, 0.2), (0.004, 0.004, 0.0)),
    )
    model = tb.Model("dial", [arm, needle])
    given = [scalars(x) for x in ([0.4], [1.3], [0.7])]
    expected = forward_by_mass_matrix(model.plan, *given, GRAVITY)
    assert_close(coupled_aba(model.plan, *given, GRAVITY), expected)


def test_articulated_method_runs_natively_with_coupled_joints():
    """The public function takes the method and agrees with the default one."""
    model = tied(1, "free")
    q, v = model.random_state(6)
    tau = np.ones(model.nv)
    found = tb.forward_dynamics(model, q, v, tau, method="articulated")
    expected = tb.forward_dynamics(model, q, v, tau, method="composite")
    assert_close(found, expected, SOLVE, np.abs(expected).max() * loss(model, q))


def test_shared_variables_run_on_the_tape():
    """A chain of 45 links, each with the rotor of its motor on the link before, agrees."""
    rng = np.random.default_rng(7)
    bodies = []
    for k in range(45):
        before = f"link{k - 1}" if k else "world"
        joint = tb.Revolute(f"joint{k}", (0, 0, 1), pose=random_pose(rng))
        bodies.append(tb.Body(f"link{k}", before, joint=joint, inertia=random_inertia(rng)))
        if k % 9 == 0:
            bodies.append(
                tb.rotor(f"motor{k}", before, f"joint{k}", ratio=5.0, inertia=1e-3, mass=0.2)
            )
    model = tb.Model("geared", bodies)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    options = (("method", "articulated"),)
    found = Interpreted(model).run("forward_dynamics", (q, 0.1 * v, tau), options)
    given = [scalars(x) for x in (q, 0.1 * v, tau)]
    expected = np.array(coupled_aba(model.plan, *given, (0.0, 0.0, -9.81)))
    H = on_floats("mass_matrix", model, q)
    assert_close(found, expected, SOLVE, np.abs(expected).max() * np.linalg.cond(H))


@pytest.mark.parametrize("frames", [("tip",), ("tip", "left_tip"), ("rotor", "right_tip", "left")])
def test_inverse_inertia_of_frames_is_J_over_M_J(case, frames):
    """Frames on followers answer with all that shares their variables: J M^-1 J^T."""
    model, q, *_ = case
    J = on_floats("frame_jacobian", model, q, frames=frames).reshape(-1, model.nv)
    H = on_floats("mass_matrix", model, q)
    expected = J @ np.linalg.solve(H, J.T)
    found = on_floats("operational_space_inverse_inertia", model, q, frames=frames)
    scale = np.abs(J).max() * np.linalg.cond(H)
    assert_close(found.reshape(expected.shape), expected, SOLVE, scale)


@pytest.mark.parametrize("base", BASES[:3], ids=lambda p: p[1])
def test_inertia_of_a_frame_inverts_its_inverse(base):
    """The operational-space inertia of a tied robot, where the base lets the frame move enough."""
    model = tied(*base)
    q, _ = model.random_state(base[0])
    given = {"frames": ("tip",), "part": "position"}
    inverse = on_floats("operational_space_inverse_inertia", model, q, **given).reshape(3, 3)
    inertia = on_floats("operational_space_inertia", model, q, **given).reshape(3, 3)
    assert_close(inertia @ inverse, np.eye(3), SOLVE, np.linalg.cond(inverse))


def test_cross_inertia_of_two_links_is_J_over_M_J(case):
    """Acceleration of one frame per force on another, and its transpose the other way."""
    model, q, *_ = case
    J = {name: on_floats("frame_jacobian", model, q, frames=name) for name in ("tip", "left_tip")}
    H = on_floats("mass_matrix", model, q)
    expected = J["tip"] @ np.linalg.solve(H, J["left_tip"].T)
    scale = max(np.abs(x).max() for x in J.values()) * np.linalg.cond(H)
    found = on_floats("cross_inverse_inertia", model, q, frame="tip", other="left_tip")
    back = on_floats("cross_inverse_inertia", model, q, frame="left_tip", other="tip")
    assert_close(found, expected, SOLVE, scale)
    assert_close(back, found.T, ALGEBRA)


def two_trees():
    """Return two geared trees that share no variable, with frames on links, followers and world."""
    rng = np.random.default_rng(11)
    bodies = []
    for tree in ("left", "right"):
        for k, name in enumerate((f"{tree}_upper", f"{tree}_lower")):
            joint = tb.Revolute(f"j_{name}", random_axis(rng), pose=random_pose(rng))
            parent = f"{tree}_upper" if k else "world"
            bodies.append(tb.Body(name, parent, joint=joint, inertia=random_inertia(rng)))
        turn = tb.Revolute("turn", random_axis(rng))
        gear = tb.Coupled(f"{tree}_gear", turn, f"j_{tree}_lower", -1.7, pose=random_pose(rng))
        bodies.append(
            tb.Body(f"{tree}_wheel", f"{tree}_upper", joint=gear, inertia=random_inertia(rng))
        )
    return tb.Model("two", bodies, [tb.Frame("floor", "world", random_pose(rng))])


PAIRS = [
    ("left_wheel", "right_wheel"),
    ("left_upper", "right_wheel"),
    ("left_lower", "left_wheel"),
    ("left_wheel", "floor"),
    ("floor", "floor"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_inverse_inertias_of_geared_trees_are_J_over_M_J_wherever_frames_are(pair):
    """Zeros where no variable is shared: other trees and the world."""
    model = two_trees()
    q, _ = model.random_state(12)
    J = [np.asarray(tb.frame_jacobian(model, q, name)) for name in pair]
    H = np.asarray(tb.mass_matrix(model, q))
    scale = max(np.abs(x).max() for x in J) * np.linalg.cond(H)
    expected = J[0] @ np.linalg.solve(H, J[1].T)
    assert_close(tb.cross_inverse_inertia(model, q, *pair), expected, SOLVE, scale)
    if pair[0] == pair[1]:
        return
    both = np.vstack(J)
    whole = tb.operational_space_inverse_inertia(model, q, list(pair))
    assert_close(np.reshape(whole, (12, 12)), both @ np.linalg.solve(H, both.T), SOLVE, scale)
    # twists of both at the origin of the first frame
    (_, p), (_, p_other) = (tb.forward_kinematics(model, q, name) for name in pair)
    arm = np.ravel(p) - np.ravel(p_other)
    moved = J[1].copy()
    moved[3:] += np.cross(J[1][:3], arm, axis=0)
    relative = J[0] - moved
    apparent = relative @ np.linalg.solve(H, relative.T)
    scale *= (1.0 + np.abs(arm).max()) ** 2
    assert_close(tb.apparent_inverse_inertia(model, q, *pair), apparent, SOLVE, scale)
