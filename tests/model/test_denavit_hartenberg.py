"""Denavit-Hartenberg tables: frames against products of homogeneous matrices, both conventions."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.places import place_of
from tests.model.samples import random_inertia, random_pose
from tests.robots import kicked
from tests.running import OnFloats
from tests.tolerances import ALGEBRA, PRINTED, assert_close
from tests.verification import test_mcmillan as mcmillan

CONVENTIONS = ("classic", "modified")
GRAVITY = (1.5, -2.5, -9.0)


def turn(axis, angle):
    """Return the homogeneous matrix of a turn about x (0) or z (2)."""
    c, s = np.cos(angle), np.sin(angle)
    matrix = np.eye(4)
    i, j = {0: (1, 2), 2: (0, 1)}[axis]
    matrix[i, i] = matrix[j, j] = c
    matrix[i, j], matrix[j, i] = -s, s
    return matrix


def move(axis, distance):
    """Return the homogeneous matrix of a move along x (0) or z (2)."""
    matrix = np.eye(4)
    matrix[axis, 3] = distance
    return matrix


def row_matrix(link, q, convention):
    """Multiply the four matrices of a row as its convention orders them."""
    d = link.d + (q if link.joint == "prismatic" else 0.0)
    theta = link.theta + (q if link.joint == "revolute" else 0.0)
    if convention == "classic":
        return turn(2, theta) @ move(2, d) @ move(0, link.a) @ turn(0, link.alpha)
    return turn(0, link.alpha) @ move(0, link.a) @ turn(2, theta) @ move(2, d)


def random_table(seed, kinds="RPRRPR"):
    rng = np.random.default_rng(seed)
    return [
        tb.DHLink(
            a=rng.uniform(-0.5, 0.5),
            alpha=rng.choice([rng.uniform(-3.0, 3.0), np.pi / 2, 0.0]),
            d=rng.uniform(-0.5, 0.5),
            theta=rng.uniform(-3.0, 3.0),
            joint="revolute" if kind == "R" else "prismatic",
            inertia=random_inertia(rng),
        )
        for kind in kinds
    ]


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_frames_are_products_of_homogeneous_matrices(convention, seed):
    """Every row's frame, the base and the tool, at random positions."""
    rng = np.random.default_rng(seed)
    table, base, tool = random_table(seed), random_pose(rng), random_pose(rng)
    arm = tb.Model.from_dh("arm", table, convention=convention, base=base, tool=tool)
    q, _, _ = kicked(arm, seed)
    expected = [base.matrix]
    for link, x in zip(table, q, strict=True):
        expected.append(expected[-1] @ row_matrix(link, x, convention))
    expected.append(expected[-1] @ tool.matrix)
    names = [*(f"frame_{i}" for i in range(len(table) + 1)), "tool"]
    for name, matrix in zip(names, expected, strict=True):
        rotation, translation = place_of(arm, q, name)
        assert_close(rotation, matrix[:3, :3])
        assert_close(translation, matrix[:3, 3])


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_centers_of_mass_are_given_in_the_rows_own_frames(convention):
    """Potential energy is that of masses placed by the matrices of the table."""
    table = random_table(7)
    arm = tb.Model.from_dh("arm", table, convention=convention)
    q, _, _ = kicked(arm, 7)
    frame, energy = np.eye(4), 0.0
    for link, x in zip(table, q, strict=True):
        frame = frame @ row_matrix(link, x, convention)
        place = frame @ [*link.inertia.com, 1.0]
        energy -= link.inertia.mass * np.dot(GRAVITY, place[:3])
    assert_close(OnFloats(arm, GRAVITY).potential_energy(q), energy, scale=10.0 * arm.total_mass)


def test_a_classic_table_shifted_by_one_row_is_a_modified_one():
    """The same arm in both conventions has the same dynamics (Featherstone 1987, sec. 8.2.1)."""
    classic = random_table(9)
    previous = [tb.DHLink(), *classic[:-1]]
    modified = []
    for link, before in zip(classic, previous, strict=True):
        # the inertia given at the far end of the link, seen from its near end
        tail = tb.Pose.from_axis_angle((1, 0, 0), link.alpha, (link.a, 0.0, 0.0))
        modified.append(
            tb.DHLink(
                a=before.a,
                alpha=before.alpha,
                d=link.d,
                theta=link.theta,
                joint=link.joint,
                inertia=link.inertia.moved(tail),
            )
        )
    one = tb.Model.from_dh("arm", classic, convention="classic")
    two = tb.Model.from_dh("arm", modified, convention="modified")
    q, v, tau = kicked(one, 9)
    a, b = OnFloats(one, GRAVITY), OnFloats(two, GRAVITY)
    H = a.mass_matrix(q)
    assert_close(H, b.mass_matrix(q))
    assert_close(a.inverse_dynamics(q, v, tau), b.inverse_dynamics(q, v, tau))
    expected = b.forward_dynamics(q, v, tau)
    assert_close(a.forward_dynamics(q, v, tau), expected, ALGEBRA * np.linalg.cond(H))


def test_moved_inertia_keeps_energy():
    """The kinetic energy of a body does not depend on the frame its inertia is written in."""
    rng = np.random.default_rng(4)
    inertia, pose = random_inertia(rng), random_pose(rng)
    body = tb.Body("a", joint=tb.Free("f"), inertia=inertia.moved(pose))
    weld = tb.Body("b", "a", joint=tb.Fixed("w", pose=pose), inertia=inertia)
    holder = tb.Body("a", joint=tb.Free("f"))
    one, two = tb.Model("m", [body]), tb.Model("m", [holder, weld])
    q, v, _ = kicked(one, 4)
    assert_close(OnFloats(one).kinetic_energy(q, v), OnFloats(two).kinetic_energy(q, v))


def test_fixture_a_of_mcmillan_from_its_table():
    """The modified table of the digest of McMillan 1994 gives the mass matrix printed there."""
    rows = [
        ((0.0, 0.0, 0.0), tb.Inertia(2.0, (0.15, 0.01, -0.02), (0.02, 0.03, 0.04))),
        ((0.3, np.pi / 2, 0.1), tb.Inertia(1.5, (0.2, 0.0, 0.03), (0.01, 0.05, 0.05))),
        ((0.4, -np.pi / 4, 0.0), tb.Inertia(1.0, (0.1, -0.05, 0.0), (0.004, 0.006, 0.008))),
    ]
    links = [tb.DHLink(a=a, alpha=alpha, d=d, inertia=inertia) for (a, alpha, d), inertia in rows]
    arm = tb.Model.from_dh("fixture_a", links, convention="modified")
    assert_close(OnFloats(arm).mass_matrix(mcmillan.Q), mcmillan.H, PRINTED, scale=1.0)


def test_rows_name_their_joints_and_bodies():
    """Names given in a row are used; others count from one."""
    ball = tb.Inertia.sphere(1.0, 0.1)
    links = [tb.DHLink(inertia=ball, joint_name="waist"), tb.DHLink(inertia=ball, body_name="hand")]
    arm = tb.Model.from_dh("arm", links, convention="modified")
    assert arm.joint_names == ("waist", "joint_2")
    assert arm.body_names == ("link_1", "hand")
    assert arm.frame_names[3:] == ("frame_0", "frame_1", "frame_2")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: tb.Model.from_dh("arm", [], convention="craig"),
            "convention: expected 'classic' or 'modified', got 'craig'",
        ),
        (
            lambda: tb.Model.from_dh("arm", [(0, 0, 0, 0)], convention="classic"),
            "model 'arm': row 1 of links must be a DHLink, got (0, 0, 0, 0); "
            "write DHLink(a=..., alpha=..., d=..., theta=...)",
        ),
        (
            lambda: tb.DHLink(joint="screw"),
            "joint: expected 'revolute' or 'prismatic', got 'screw'",
        ),
        (
            lambda: tb.DHLink(alpha=float("nan")),
            "Denavit-Hartenberg row: alpha must be finite, got nan; "
            "check the computation or file it came from",
        ),
    ],
)
def test_errors_state_the_remedy(act, message):
    """A wrong table is refused with the row and the way out."""
    with pytest.raises(tb.TiburonError) as caught:
        act()
    assert str(caught.value) == message


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_massless_rows_are_accepted_in_both_conventions(convention):
    """An inertia of nothing stays one wherever the row's frame is: it has no center of mass."""
    rows = random_table(7)
    bare = [
        tb.DHLink(
            **{key: getattr(row, key) for key in ("a", "alpha", "d", "theta", "joint")},
            inertia=row.inertia if number == 5 else tb.Inertia(),
        )
        for number, row in enumerate(rows)
    ]
    model = tb.Model.from_dh("bare", bare, convention=convention)
    full = tb.Model.from_dh("full", rows, convention=convention)
    assert [body.inertia for body in model.bodies[:5]] == [tb.Inertia()] * 5
    # the rest is as in the arm with all its masses
    assert [body.joint for body in model.bodies] == [body.joint for body in full.bodies]
    assert model.bodies[5].inertia == full.bodies[5].inertia
    assert model.frames == full.frames


def test_zero_inertia_stays_zero_when_moved():
    pose = random_pose(np.random.default_rng(2))
    assert tb.Inertia().moved(pose) == tb.Inertia()
    assert tb.Inertia.point(1.0).moved(pose).com == pytest.approx(pose.translation)
