"""The algorithms against Lagrange's equations, derived symbolically or by complex steps."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.oracles.lagrange import lagrange, mass_and_potential
from tests.running import WAYS
from tests.tolerances import ALGEBRA, SOLVE, assert_close
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.program import trace

GRAVITY = (1.3, -2.1, -9.4)

on_floats_and_graph = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def tree(seed, kinds, parents):
    """Build a tree of axial joints with random axes, placements, offsets and inertias."""
    rng = np.random.default_rng(seed)
    bodies = []
    for i, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        settings = {"offset": float(rng.uniform(-1.0, 1.0)), "pose": random_pose(rng)}
        if kind is tb.Screw:
            settings |= {"pitch": float(rng.uniform(-0.5, 0.5)), "lead": float(rng.uniform(-1, 1))}
        joint = kind(f"joint_{i}", tuple(random_axis(rng)), **settings)
        name = "world" if parent < 0 else f"body_{parent}"
        bodies.append(tb.Body(f"body_{i}", name, joint=joint, inertia=random_inertia(rng)))
    return tb.Model(f"tree_{seed}", bodies)


# three branches, one of them forked; screws, slides and hinges in every branch
PARENTS = (-1, 0, 1, 2, 1, 4, 5, 0, 7, 7, 9, -1)
KINDS = (tb.Screw, tb.Prismatic, tb.Revolute) * 4
MIXED = tree(12, KINDS, PARENTS)
SCREWS = tree(5, [tb.Screw] * 5, range(-1, 4))


@on_floats_and_graph
@pytest.mark.parametrize("model", [MIXED, SCREWS], ids=["tree of twelve", "chain of screws"])
def test_dynamics_equals_lagranges_equations(model, way):
    """Screws, slides and hinges about any axes: M, tau and vd of the dense Lagrangian."""
    rng = np.random.default_rng(3)
    ours = way(model, GRAVITY)
    for _ in range(3):
        q, v, vd = rng.uniform(-2.0, 2.0, (3, model.nv))
        M, V = mass_and_potential(model, q, GRAVITY)
        tau = lagrange(model, q, v, vd, GRAVITY)
        assert_close(ours.mass_matrix(q), M)
        assert_close(ours.potential_energy(q), V)
        assert_close(ours.inverse_dynamics(q, v, vd), tau)
        assert_close(ours.forward_dynamics(q, v, tau), vd, SOLVE * np.linalg.cond(M))


def two_link_lagrangian(q, v, m, l, c, J, g):
    """Write T - V of a planar arm: link lengths l, mass centers c along them, moments J."""
    q1, q12 = q[0], q[0] + q[1]
    w1, w12 = v[0], v[0] + v[1]
    # velocities of the mass centers, from positions (cos, sin) by hand
    x1, y1 = -c[0] * np.sin(q1) * w1, c[0] * np.cos(q1) * w1
    x2 = -l * np.sin(q1) * w1 - c[1] * np.sin(q12) * w12
    y2 = l * np.cos(q1) * w1 + c[1] * np.cos(q12) * w12
    kinetic = 0.5 * (
        m[0] * (x1 * x1 + y1 * y1) + m[1] * (x2 * x2 + y2 * y2) + J[0] * w1 * w1 + J[1] * w12 * w12
    )
    height = m[0] * c[0] * np.sin(q1) + m[1] * (l * np.sin(q1) + c[1] * np.sin(q12))
    return kinetic - g * height


@on_floats_and_graph
def test_two_link_arm_obeys_its_symbolic_lagrangian(way):
    """B13: d/dt (dL/dv) - dL/dq = tau, the derivatives taken of the formula itself."""
    m, l, c, J, g = (1.2, 0.7), 0.6, (0.25, 0.3), (0.05, 0.02), 9.81
    bodies = []
    for number in range(2):
        pose = tb.Pose(translation=(l if number else 0.0, 0.0, 0.0))
        # turning about -y lifts the arm from x toward z
        joint = tb.Revolute(f"joint_{number}", (0.0, -1.0, 0.0), pose=pose)
        inertia = tb.Inertia(m[number], (c[number], 0.0, 0.0), (J[number],) * 3)
        parent = "world" if number == 0 else "link_0"
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=inertia))
    ours = way(tb.Model("two_links", bodies), (0.0, 0.0, -g))

    shapes = {"q": (2,), "v": (2,)}
    L = trace(lambda q, v: two_link_lagrangian(q, v, m, l, c, J, g), shapes)
    momentum, force = jacobian(L, by="v"), jacobian(L, by="q")
    inertia, coupling = jacobian(momentum, by="v"), jacobian(momentum, by="q")
    rng = np.random.default_rng(4)
    for _ in range(5):
        q, v, vd = rng.uniform(-3.0, 3.0, (3, 2))
        M, C, Q = (np.asarray(interpret(p, [q, v])) for p in (inertia, coupling, force))
        M, C, Q = M.reshape(2, 2), C.reshape(2, 2), Q.reshape(2)
        assert_close(ours.mass_matrix(q), M, ALGEBRA)
        assert_close(ours.inverse_dynamics(q, v, vd), M @ vd + C @ v - Q, ALGEBRA)


@on_floats_and_graph
def test_nut_on_a_vertical_thread_has_the_closed_form_acceleration(way):
    """(J + m rho^2) qdd = tau - m g rho: weight turns the nut through the pitch."""
    mass, J, rho, g = 1.7, 0.02, 0.13, 9.81
    inertia = tb.Inertia(mass, (0.0, 0.0, 0.4), (0.5, 0.5, J))
    nut = tb.Body("nut", joint=tb.Screw("thread", pitch=rho), inertia=inertia)
    ours = way(tb.Model("nut", [nut]), (0.0, 0.0, -g))
    q, v, tau = np.array([[0.7], [-2.0], [0.3]])
    expected = (tau - mass * g * rho) / (J + mass * rho**2)
    assert_close(ours.forward_dynamics(q, v, tau), expected)
