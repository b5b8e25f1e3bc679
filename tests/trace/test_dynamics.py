"""Derivatives and counts of whole dynamics algorithms: identities, and the sources' tables."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_joint, random_pose
from tests.robots import ROBOTS, kicked
from tiburon.trace import OperationCount, count, dump, interpret, jacobian, sparsity, trace

# relative to the largest entry: rounding errors of 1e-16 times condition numbers of mass matrices
# up to 1e4
IDENTITY = 1e-12


def state_inputs(model):
    return {"q": (model.nq,), "v": (model.nv,), "x": (model.nv,)}


def forward(model, method=None):
    return trace(
        lambda q, v, x: tb.forward_dynamics(model, q, v, x, method=method), state_inputs(model)
    )


def inverse(model):
    return trace(lambda q, v, x: tb.inverse_dynamics(model, q, v, x), state_inputs(model))


def close(found, expected):
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=IDENTITY * scale)


SMALL = sorted(set(ROBOTS) - {"chain_8", "panda", "quadruped"})
"""Robots whose dynamics are short enough for one flat graph."""


@pytest.fixture(params=SMALL)
def model(request):
    return ROBOTS[request.param]


def test_inverse_dynamics_by_acceleration_is_the_mass_matrix(model):
    """The joint force is linear in the acceleration with matrix M(q)."""
    q, v, x = kicked(model)
    derived = jacobian(inverse(model), by="x")
    mass = trace(lambda q: tb.mass_matrix(model, q), {"q": (model.nq,)})
    close(interpret(derived, [q, v, x]), interpret(mass, [q]))


def rare_kinds():
    """Build a chain of the joint kinds that only the orrery has, which takes ten times as long."""
    rng = np.random.default_rng(18)
    bodies, parent = [], "world"
    for kind in ("cylindrical", "spherical", "rolling sphere"):
        joint = random_joint(rng, kind, (kind,))
        bodies.append(tb.Body(f"{kind} link", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    return tb.Model("rare_kinds", bodies)


@pytest.mark.parametrize("name", ["rare_kinds", *(name for name in SMALL if name != "orrery")])
def test_forward_dynamics_is_the_inverse_of_inverse_dynamics_to_first_order(name):
    """From ID(q, v, FD(q, v, tau)) = tau: M dFD/dtau = 1 and M dFD/dz = -dID/dz for z = q, v."""
    model = rare_kinds() if name == "rare_kinds" else ROBOTS[name]
    q, v, tau = kicked(model)
    vd, A_q, A_v, A_tau = interpret(jacobian(forward(model), values=True), [q, v, tau])
    T_q, T_v, M = interpret(jacobian(inverse(model)), [q, v, vd])
    close(M @ A_tau, np.eye(model.nv))
    close(M @ A_v, -T_v)
    close(M @ A_q, -T_q)


@pytest.mark.parametrize("name", ["balloon", "forest", "panda", "rover"])
def test_modes_agree_on_dynamics(name):
    """Forward and reverse sweeps over a whole algorithm give one Jacobian."""
    model = ROBOTS[name]
    program = forward(model)
    given = kicked(model)
    by_columns = interpret(jacobian(program, mode="forward"), given)
    by_rows = interpret(jacobian(program, mode="reverse"), given)
    for column, row in zip(by_columns, by_rows, strict=True):
        close(row, column)


def test_separate_trees_do_not_depend_on_each_other():
    """The pattern of the Jacobian shows the trees of a forest."""
    rng = np.random.default_rng(5)
    bodies = [
        tb.Body(
            f"link{k}",
            ("world", "world", "link0")[k],
            joint=tb.Revolute(f"joint{k}", pose=random_pose(rng)),
            inertia=random_inertia(rng),
        )
        for k in range(3)
    ]
    pattern = sparsity(forward(tb.Model("two_trees", bodies)), by="x")
    np.testing.assert_array_equal(pattern, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def generic_chain(size):
    """Build a fixed-base chain of hinges with generic placements and inertias."""
    rng = np.random.default_rng(size)
    bodies, parent = [], "world"
    for number in range(size):
        joint = tb.Revolute(f"joint{number}", pose=random_pose(rng))
        bodies.append(tb.Body(f"link{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = f"link{number}"
    return tb.Model(f"chain{size}", bodies)


@pytest.mark.parametrize("n", [6, 7, 16])
def test_articulated_bodies_need_no_more_than_published(n):
    """McMillan and Orin 1995, table of the fixed base: 224 n - 259 products, 205 n - 248 sums."""
    found = count(forward(generic_chain(n), method="articulated"))
    assert found.multiplications <= 224 * n - 259
    assert found.additions <= 205 * n - 248
    # one division per joint, and nothing else
    rest = OperationCount(found.multiplications, found.additions, n, sine_cosine_pairs=n)
    assert found == rest


def test_the_method_chosen_needs_no_more_than_articulated_bodies():
    """For six hinges the mass matrix costs less, and is taken."""
    chain = generic_chain(6)
    chosen, articulated = count(forward(chain)), count(forward(chain, method="articulated"))
    assert chosen.multiplications + chosen.additions < (
        articulated.multiplications + articulated.additions
    )


def test_count_of_the_panda_does_not_grow():
    """Right angles between its axes fold away; a change that loses this shows here."""
    found = count(forward(ROBOTS["panda"]))
    assert found.multiplications <= 811
    assert found.additions <= 752
    assert found.divisions <= 7


def test_dump_of_an_algorithm_names_its_inputs():
    """A whole algorithm can be read: every input element appears by name."""
    model = ROBOTS["double_pendulum"]
    text = dump(forward(model))
    for name in ("q[1]", "v[0]", "v[1]", "x[0]", "x[1]"):
        assert name in text
