"""Collisions: closed forms, other orders, loops, energy with and without friction."""

import math
import warnings

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact.impact import collision_impulses
from tiburon.model.contact_kinds import nonnegative_least_squares

AROUND_X = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def balls(count):
    """Equal balls in a row, which touch."""

    def ball(k):
        joint = tb.Prismatic(f"b{k}", axis=(1, 0, 0), pose=tb.Pose(translation=(float(k), 0, 0)))
        inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3))
        shapes = (tb.Shape(tb.SphereShape(0.5)),)
        return tb.Body(f"b{k}", "world", joint=joint, inertia=inertia, shapes=shapes)

    return tb.Model("balls", [ball(k) for k in range(count)])


ROW = balls(3)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        ((1.0, 1.0), (-1 / 3, 2 / 3, 2 / 3)),
        ((0.5, 0.5), (0.0, 1 / 2, 1 / 2)),
        ((1.0, 0.0), (-1 / 3, 2 / 3, 2 / 3)),
        ((0.0, 1.0), (1 / 6, 1 / 6, 2 / 3)),
    ],
)
def test_three_balls_with_different_restitution(e, expected):
    """Compression (2/3, 1/3), then decompression with what others press (eqs. 9.75-9.83)."""
    coefficients = {"b0/b1": e[0], "b1/b2": e[1]}
    after = tb.impact(ROW, np.zeros(3), [1.0, 0.0, 0.0], restitution=coefficients)
    np.testing.assert_allclose(after.v, expected, atol=1e-12)
    if e[0] == e[1]:
        # C = [[2, -1], [-1, 2]], gc = (2/3, 1/3): gc C gc = 2/3
        assert after.energy_change == pytest.approx(-(1 - e[0] ** 2) / 3, abs=1e-12)
    energy = 0.5 * np.sum(np.square(after.v)) - 0.5
    assert after.energy_change == pytest.approx(energy, abs=1e-12)
    assert after.rounds == 1


@pytest.mark.parametrize("e", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("name", ["quadruped", "osu_hexapod"])
def test_energy_that_one_coefficient_takes_follows_from_the_compression(name, e):
    """-(1 - e^2)/2 gc^T C gc, where J^T gc is what the momentum changes by in compression."""
    robot = tb.load(name)
    q = np.array(robot.poses["stand"])
    ground = tb.Ground(static_friction=0.0, restitution=e)
    v = 0.1 * np.random.default_rng(3).standard_normal(robot.nv)
    v[5] -= 1.0
    after = tb.impact(robot, q, v, world=tb.World(ground=ground))
    assert len(after.touching) >= 3
    H = tb.mass_matrix(robot, q)
    compressed = (np.asarray(after.v) - v) / (1.0 + e)
    lost = 0.5 * (1.0 - e * e) * compressed @ H @ compressed
    assert after.energy_change == pytest.approx(-lost, rel=1e-9, abs=1e-12)
    assert lost > 0.05 or e == 1.0


def test_sequential_order_gives_newtons_cradle():
    """(1, 0, 0) becomes (0, 0, 1), and two balls push out two."""
    row = balls(5)
    for before in ([1.0, 0, 0, 0, 0], [1.0, 1.0, 0, 0, 0], [2.0, 2.0, 2.0, 0, 0]):
        after = tb.impact(row, np.zeros(5), before, restitution=1.0, order="sequential")
        np.testing.assert_allclose(after.v, before[::-1], atol=1e-12)
        assert after.energy_change == pytest.approx(0.0, abs=1e-12)
    after = tb.impact(ROW, np.zeros(3), [1.0, 0, 0], restitution=1.0, order="sequential")
    np.testing.assert_allclose(after.v, [0.0, 0.0, 1.0], atol=1e-13)
    assert after.touching.tolist() == [True, False, False]
    assert after.rounds == 2


def test_sequential_inelastic_collisions_end_at_one_velocity():
    """Each halves what is left; the sum of all is the simultaneous one."""
    after = tb.impact(ROW, np.zeros(3), [1.0, 0, 0], restitution=0.0, order="sequential")
    np.testing.assert_allclose(after.v, 1 / 3, atol=1e-9)
    assert after.rounds > 20
    assert after.residual <= 1e-9


def test_separating_contacts_are_left_out_and_the_set_is_rebuilt():
    """The third ball moves away, but not fast enough: a second collision reaches it."""
    # first collision (2, 0) -> (1/2, 3/2), second (3/2, 1/2) -> (3/4, 5/4)
    after = tb.impact(ROW, np.zeros(3), [2.0, 0.0, 0.5], restitution=0.5)
    np.testing.assert_allclose(after.v, [0.5, 0.75, 1.25], atol=1e-12)
    assert after.rounds == 2
    # faster: it is never reached
    after = tb.impact(ROW, np.zeros(3), [2.0, 0.0, 1.75], restitution=0.5)
    np.testing.assert_allclose(after.v, [0.5, 1.5, 1.75], atol=1e-12)
    assert after.rounds == 1
    assert np.abs(after.impulses[2]).max() == 0.0


def free_pair(rng):
    """Two free balls of random inertia that touch, not on an axis."""
    radii = rng.uniform(0.1, 0.4, 2)
    way = rng.normal(size=3)
    way /= np.linalg.norm(way)
    places = [rng.normal(size=3)]
    places.append(places[0] + way * radii.sum())
    inertias = []
    for _ in range(2):
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        moments = rng.uniform(0.05, 0.3, 3)
        tensor = Q @ (moments.sum() * np.eye(3) - np.diag(moments)) @ Q.T
        inertias.append((rng.uniform(0.5, 3.0), 0.1 * rng.normal(size=3), tensor))
    bodies = [
        tb.Body(
            f"b{k}",
            "world",
            joint=tb.Free(f"b{k}"),
            inertia=tb.Inertia(mass, tuple(com), tensor),
            shapes=(tb.Shape(tb.SphereShape(radii[k])),),
        )
        for k, (mass, com, tensor) in enumerate(inertias)
    ]
    q = np.concatenate([[1.0, 0, 0, 0, *places[0]], [1.0, 0, 0, 0, *places[1]]])
    return tb.Model("pair", bodies), q, inertias, places, places[0] + way * radii[0], way


def inverse_spatial_inertia(mass, com, tensor):
    """The inverse of the spatial inertia about the origin of the world (3.14)."""
    skew = np.cross(com, np.eye(3)).T
    inverse = np.linalg.inv(tensor)
    return np.block(
        [
            [inverse, -inverse @ skew],
            [skew @ inverse, np.eye(3) / mass - skew @ inverse @ skew],
        ]
    )


def collided(inverses, velocities, point, normal, e):
    """Featherstone 1987, (9.64) to (9.69): velocities after, impulse, change of energy.

    gamma = -(1 + e) n (v_2 - v_1) / (n (I_1^-1 + I_2^-1) n); spatial vectors about the origin.
    """
    n = np.concatenate([np.cross(point, normal), normal])
    approach, inverse = n @ (velocities[1] - velocities[0]), n @ sum(inverses) @ n
    assert approach < 0.0
    gamma = -(1.0 + e) * approach / inverse
    after = [
        v + sign * gamma * phi @ n
        for v, phi, sign in zip(velocities, inverses, (-1, 1), strict=True)
    ]
    # mean of the velocities before and after times the impulse
    return after, gamma, gamma * (approach + 0.5 * gamma * inverse)


@pytest.mark.parametrize("e", [0.0, 0.6, 1.0])
def test_two_free_bodies_follow_the_closed_form(e):
    """(9.69) on random bodies, and what it promises: ratio -e, momentum, energy."""
    rng = np.random.default_rng(3)
    model, q, inertias, places, point, normal = free_pair(rng)
    v = rng.normal(size=12)
    v[3:6] += 3.0 * normal
    after = tb.impact(model, q, v, restitution=e)
    inverses, before, moved = [], [], []
    for k, (mass, com, tensor) in enumerate(inertias):
        inverses.append(inverse_spatial_inertia(mass, com + places[k], tensor))
        for velocity, into in ((v, before), (after.v, moved)):
            w, linear = velocity[6 * k : 6 * k + 3], velocity[6 * k + 3 : 6 * k + 6]
            into.append(np.concatenate([w, linear - np.cross(w, places[k])]))
    found, impulse, energy_change = collided(inverses, before, point, normal, e)
    np.testing.assert_allclose(moved, found, atol=1e-12)
    np.testing.assert_allclose(after.impulses[0], -impulse * normal, atol=1e-12)
    assert after.energy_change == pytest.approx(energy_change, abs=1e-12)
    n = np.concatenate([np.cross(point, normal), normal])
    ratio = n @ (found[1] - found[0]) / (n @ (before[1] - before[0]))
    assert ratio == pytest.approx(-e, abs=1e-13)
    momentum = sum(
        np.linalg.solve(inverse, b - a)
        for inverse, a, b in zip(inverses, before, found, strict=True)
    )
    np.testing.assert_allclose(momentum, 0.0, atol=1e-12)
    if e == 1.0:
        assert energy_change == pytest.approx(0.0, abs=1e-13)


def test_two_bodies_that_separate_do_not_collide():
    """No impulse acts, and velocities stay as they are."""
    rng = np.random.default_rng(3)
    model, q, *_, normal = free_pair(rng)
    v = rng.normal(size=12)
    v[3:6] -= 3.0 * normal
    after = tb.impact(model, q, v, restitution=0.5)
    np.testing.assert_array_equal(after.v, v)
    np.testing.assert_array_equal(after.impulses, 0.0)


# -- loops ----------------------------------------------------------------------------------------


def four_bar(ground):
    """The four-bar linkage with a contact point in the middle of its coupler."""
    linkage = tb.load("four_bar")
    middle = tb.ContactPoint("middle", "coupler", (0.55, 0.0, 0.0))
    model = tb.Model(
        "four_bar", linkage.bodies, loops=linkage.loops, contacts=[middle], poses=linkage.poses
    )
    q = np.array(linkage.poses["home"])
    height = tb.contacts(model, q, world=tb.World(ground=tb.Ground())).gap[0]
    return model, q, tb.World(ground=tb.Ground(height=float(height), **ground))


class Maximal:
    """The same linkage as three free rods in its plane, with pins as constraints (x, y, angle)."""

    lengths, masses = np.array([0.4, 1.1, 0.9]), np.array([1.0, 2.0, 1.5])

    def __init__(self, q, v):
        angles = np.array([q[0], q[0] + q[1], q[2]])
        rates = np.array([v[0], v[0] + v[1], v[2]])
        self.M = np.diag(
            [
                x
                for m, a in zip(self.masses, self.lengths, strict=True)
                for x in (m, m, m * a * a / 12)
            ]
        )
        # tensors of the zoo's rods have a thickness along themselves only
        arm = [np.array([math.cos(a), math.sin(a)]) for a in angles]
        turn = [np.array([-math.sin(a), math.cos(a)]) for a in angles]

        def row(signs):
            """Jacobian and bias of a sum of points at given distances from rods' centers."""
            J, bias = np.zeros((2, 9)), np.zeros(2)
            for k, sign, distance in signs:
                J[:, 3 * k : 3 * k + 2] += sign * np.eye(2)
                J[:, 3 * k + 2] += sign * distance * turn[k]
                bias -= sign * distance * arm[k] * rates[k] ** 2
            return J, bias

        a, b, c = self.lengths / 2
        pins = [
            row([(0, 1.0, -a)]),
            row([(0, 1.0, a), (1, -1.0, -b)]),
            row([(1, 1.0, b), (2, -1.0, c)]),
            row([(2, 1.0, -c)]),
        ]
        self.J = np.vstack([J for J, _ in pins])
        self.bias = np.concatenate([bias for _, bias in pins])
        contact, self.contact_bias = row([(1, 1.0, 0.0)])
        self.contact = contact
        self.angles, self.rates = angles, rates
        # velocities of the centers: of the crank, of the coupler, of the rocker
        tip = 2 * a * turn[0] * rates[0]
        self.v = np.concatenate(
            [
                a * turn[0] * rates[0],
                rates[:1],
                tip + b * turn[1] * rates[1],
                rates[1:2],
                c * turn[2] * rates[2],
                rates[2:],
            ]
        )

    def solve(self, force, pins, rows=None, right=()):
        """Return accelerations and the forces of given contact rows."""
        J = self.J if rows is None else np.vstack([self.J, rows])
        K = np.block([[self.M, J.T], [J, np.zeros((len(J), len(J)))]])
        found = np.linalg.solve(K, np.concatenate([force, pins, right]))
        return found[:9], -found[9 + len(self.J) :]

    def joint_rates(self, y):
        return np.array([y[2], y[5] - y[2], y[8]])


def closed_velocity(model, q, first):
    J = np.array(tb.loop_jacobian(model, q))
    rest = np.linalg.lstsq(J[:, 1:], -first * J[:, 0], rcond=None)[0]
    return np.array([first, *rest])


@pytest.mark.parametrize("e", [0.0, 0.7])
def test_loops_stay_closed_in_a_collision(e):
    """Coupler against the ground, without friction, against maximal coordinates (eq. 9.63)."""
    model, q, world = four_bar({"restitution": e})
    v = closed_velocity(model, q, 3.0)
    peer = Maximal(q, v)
    height = peer.contact[1]
    if height @ peer.v > 0.0:
        v, peer = -v, Maximal(q, -v)
    np.testing.assert_allclose(peer.J @ peer.v, 0.0, atol=1e-12)
    after = tb.impact(model, q, v, world=world)
    # impulses: M (y - v) = J^T ..., J y = 0, height y = -e height v
    y, impulse = peer.solve(peer.M @ peer.v, np.zeros(8), height[None, :], [-e * height @ peer.v])
    np.testing.assert_allclose(after.v, peer.joint_rates(y), atol=1e-11)
    np.testing.assert_allclose(np.array(tb.loop_jacobian(model, q)) @ after.v, 0.0, atol=1e-12)
    # on the first body, the coupler: upward
    np.testing.assert_allclose(after.impulses[0], [0.0, 0.0, impulse[0]], atol=1e-9)
    assert impulse[0] > 0.0
    change = 0.5 * (y @ peer.M @ y - peer.v @ peer.M @ peer.v)
    assert after.energy_change == pytest.approx(change, rel=1e-6, abs=1e-10)


def test_friction_reduces_the_rebound_equally_in_all_contact_methods():
    """One degree of freedom: velocities along ground and normal keep their ratio t.

    Compression ends at rest, c_n (1 + mu t) = p_n without friction, for t above mu. The impulse
    (1 + e) c_n then returns (1 + e) (1 - mu t) / (1 + mu t) - 1 of the speed, if positive:
    friction on its cone against the rebound, else at rest. Impact, event-driven and rigid runs.
    """
    linkage, q, world = four_bar({})
    v = closed_velocity(linkage, q, -3.0)
    here = tb.contacts(linkage, q, v, world=world).velocity[0]
    # the ground relative to the coupler
    assert here[2] > 0.0
    t = abs(here[0] / here[2])
    start = np.array(tb.assemble(linkage, q - 5e-6 * v, hold=["input"]).q)
    for mu, e in ((0.1, 0.5), (0.1, 1.0), (0.3, 0.5), (0.3, 1.0), (1.0, 0.5), (0.0, 0.5)):
        ground = tb.Ground(
            height=world.ground.height, static_friction=mu, kinetic_friction=mu, restitution=e
        )
        floor = tb.World(gravity=(0, 0, 0), ground=ground)
        expected = -max(0.0, (1 + e) * (1 - mu * t) / (1 + mu * t) - 1) if mu else -e
        after = tb.impact(linkage, q, v, world=floor)
        # blocks of the solver, singular here, are regularized by 1e-9
        assert after.v[0] / v[0] == pytest.approx(expected, abs=1e-8)
        # in two steps of 10 us the mechanism turns by 6e-5 rad
        before = closed_velocity(linkage, start, -3.0)
        exact = tb.Dop853(rtol=1e-12, atol=1e-13, dt=1e-5)
        for contact, method in ((tb.ExactContact(), exact), (tb.RigidContact(), tb.RK4(dt=1e-5))):
            run = tb.simulate(
                linkage,
                2e-5,
                q=start,
                v=before,
                world=floor,
                contact=contact,
                method=method,
                record=tb.Record(dt=1e-5),
            )
            assert run.v[-1, 0] / v[0] == pytest.approx(expected, abs=2e-4), (contact, mu, e)


def test_lifting_out_keeps_loops_closed():
    """The coupler 3 cm below the ground: the crank turns until its middle is on it."""
    model, q, world = four_bar({})
    deep = tb.World(ground=tb.Ground(height=world.ground.height + 0.03))
    found = tb.lift_out(model, q, world=deep)
    assert abs(tb.contacts(model, found, world=deep).gap[0]) < 1e-9
    assert np.abs(tb.constraint_residual(model, found)).max() < 1e-9
    assert 0.01 < np.abs(found - q).max() < 0.4
    with pytest.raises(tb.DomainError, match=r"'middle'|loops"):
        tb.lift_out(model, q, world=tb.World(ground=tb.Ground(height=3.0)))


def test_lifting_out_is_the_least_motion_in_the_mass_metric():
    """The step of a slightly sunken dog is that of nonnegative least squares on dense matrices."""
    dog, world = tb.load("quadruped"), tb.World(ground=tb.Ground())
    q = np.array(dog.poses["stand"])
    q[6] -= 1e-4
    q = dog.integrate(q, np.r_[1e-4, 2e-4, np.zeros(dog.nv - 2)])
    gap = tb.contacts(dog, q, world=world).gap
    assert (gap < 0.0).sum() == 4
    h, eye = 1e-6, np.eye(dog.nv)
    J = np.column_stack(
        [
            tb.contacts(dog, dog.integrate(q, h * x), world=world).gap
            - tb.contacts(dog, dog.integrate(q, -h * x), world=world).gap
            for x in eye
        ]
    ) / (2.0 * h)
    # dv = H^-1 J^T f with f >= 0, gap + J dv >= 0, complementary
    root = np.linalg.inv(np.linalg.cholesky(tb.mass_matrix(dog, q)))
    A = J @ root.T
    # of least |y| with A y >= -gap: the residual of a nonnegative least squares problem
    u = nonnegative_least_squares(np.vstack([A.T, -gap]), np.eye(dog.nv + 1)[-1])
    r = np.vstack([A.T, -gap]) @ u - np.eye(dog.nv + 1)[-1]
    expected = root.T @ (-r[:-1] / r[-1])
    found = dog.difference(q, tb.lift_out(dog, q, world=world))
    # heights are linear in the motion but for its square
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert np.abs(expected).max() > 1e-4


def test_lifting_out_names_contacts_that_no_motion_opens_together():
    """A ball of 0.2 m in a channel of 0.19 m, on its own and as a case of a batch."""
    ball = tb.Body(
        "ball", joint=tb.Free("ball"), inertia=tb.Inertia(1.0, (0, 0, 0), 0.004 * np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )  # fmt: skip
    walls = [
        tb.Body(
            name,
            joint=tb.Fixed(name, pose=tb.Pose(translation=(0.0, y, 0.0))),
            shapes=(tb.Shape(tb.BoxShape((1.0, 0.1, 1.0))),),
        )
        for name, y in (("left", 0.145), ("right", -0.145))
    ]
    model = tb.Model("channel", [ball, *walls])
    pairs = [("ball", "world"), ("ball", "left"), ("ball", "right")]
    floor, q = tb.World(ground=tb.Ground()), np.array([[1, 0, 0, 0, x, 0, 0.05] for x in (3, 0)])
    lifted = tb.lift_out(model, q[0], world=floor, pairs=pairs)
    np.testing.assert_allclose(lifted, [1, 0, 0, 0, 3, 0, 0.1], atol=1e-12)
    for start, case in ((q[1], ""), (q, " in case 1")):
        expected = f"no motion opens together{case}: 'ball/left', 'ball/right'"
        with pytest.raises(tb.DomainError, match=expected):
            tb.lift_out(model, start, world=floor, pairs=pairs)


def test_lifting_out_of_very_many_contacts_takes_those_within_reach(monkeypatch):
    """Two of four feet below the ground: the motion is that of all contacts."""
    from tiburon.functions import contact

    dog, world = tb.load("quadruped"), tb.World(ground=tb.Ground())
    q = np.array(dog.poses["stand"])
    q = dog.integrate(q, np.r_[2e-3, np.zeros(dog.nv - 1)])
    gap = tb.contacts(dog, q, world=world).gap
    assert sorted((gap < 0.0).tolist()) == [False, False, True, True]
    every = tb.lift_out(dog, q, world=world)
    taken = []
    monkeypatch.setattr(contact, "MOST_LIFTED", 3)
    monkeypatch.setattr(contact, "LIFT_REACH", 0.5)
    within = contact._within_reach
    monkeypatch.setattr(
        contact, "_within_reach", lambda *given: taken.append(within(*given)) or taken[-1]
    )
    np.testing.assert_allclose(tb.lift_out(dog, q, world=world), every, atol=1e-9)
    assert len(taken[0]) == 2


def test_no_motion_of_kilometers_is_taken_out_of_penetration():
    """A ball 1 cm below the ground, on a slide that rises by 1 mm per km."""
    slide = tb.Prismatic("slide", axis=(1.0, 0.0, 1e-6))
    body = tb.Body(
        "ball",
        joint=slide,
        inertia=tb.Inertia(1.0, (0, 0, 0), 0.004 * np.eye(3)),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    model, floor = tb.Model("slide", [body]), tb.World(ground=tb.Ground(height=-0.09))
    with pytest.raises(tb.DomainError, match="no motion opens together: 'ball/ground'"):
        tb.lift_out(model, [0.0], world=floor)


def lowest(model, q):
    """Return a closed configuration in which the coupler's middle is lowest, crank turning."""

    def slope(start, angle):
        here = np.array(tb.assemble(model, [angle, *start[1:]], hold=["input"]).q)
        peer = Maximal(here, closed_velocity(model, here, 1.0))
        return here, (peer.contact @ peer.v)[1]

    angle, (here, rate) = q[0], slope(q, q[0])
    while True:
        before, last = angle, rate
        angle += 0.1
        here, rate = slope(here, angle)
        if last < 0.0 <= rate:
            break
    low, high = before, angle
    for _ in range(48):
        middle = 0.5 * (low + high)
        here, rate = slope(here, middle)
        low, high = (middle, high) if rate < 0.0 else (low, middle)
    return here


@pytest.mark.parametrize("torque", [-3.0, 1.0, 30.0])
def test_loops_are_eliminated_before_contacts(torque):
    """E24: coupler on the ground, pressed on it by the crank or lifted off."""
    model, q, world = four_bar({})
    peer = Maximal(q, np.zeros(3))
    pull = np.array([x for m in peer.masses for x in (0.0, -m * 9.81, 0.0)])
    # between crank and world
    pull[2] += torque
    height = peer.contact[1]
    y, _ = peer.solve(pull, -peer.bias)
    force = np.zeros(1)
    if height @ y < 0.0:
        y, force = peer.solve(pull, -peer.bias, height[None, :], [0.0])
    now = tb.contact_dynamics(model, q, np.zeros(3), [torque, 0.0, 0.0], world=world)
    np.testing.assert_allclose(now.vd, peer.joint_rates(y), atol=1e-9)
    assert now.forces[0, 2] == pytest.approx(force[0], rel=1e-9, abs=1e-9)
    assert (force[0] > 0.0) == (torque < 20.0)
    assert now.modes[0] == ("remaining" if torque < 20.0 else "breaking")


def test_a_contact_that_no_motion_of_the_loop_moves_has_no_force():
    """At its lowest point the coupler moves along the ground: the normal is zero, and it lifts."""
    model, q, _ = four_bar({})
    q = lowest(model, q)
    v = closed_velocity(model, q, 3.0)
    gap = tb.contacts(model, q, world=tb.World(ground=tb.Ground())).gap[0]
    world = tb.World(ground=tb.Ground(height=float(gap)))
    now = tb.contact_dynamics(model, q, v, np.zeros(3), world=world)
    peer = Maximal(q, v)
    weight = np.array([x for m in peer.masses for x in (0.0, -m * 9.81, 0.0)])
    y, _ = peer.solve(weight, -peer.bias)
    assert peer.contact[1] @ y + peer.contact_bias[1] > 0.1
    np.testing.assert_allclose(now.vd, peer.joint_rates(y), rtol=1e-7)
    assert now.modes[0] == "breaking"


def test_added_mass_enters_collisions():
    """A sphere of 2 kg that carries 1.5 kg of water along needs 3.5 kg of impulse."""
    fluid = tb.BodyFluid(volume=0.002, added_mass=(0.0, 0.0, 0.0, 1.5, 1.5, 1.5))
    ball = tb.Body(
        "ball",
        joint=tb.Free("ball"),
        inertia=tb.Inertia.sphere(2.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
        fluid=fluid,
    )
    model = tb.Model("ball", [ball])
    q, v = [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 0, 0, 0, -2.0]
    for water, mass in ((None, 2.0), (tb.Water(), 3.5)):
        world = tb.World(ground=tb.Ground(), fluid=water)
        after = tb.impact(model, q, v, world=world, restitution=0.25)
        np.testing.assert_allclose(after.v, [0, 0, 0, 0, 0, 0.5], atol=1e-12)
        assert after.impulses[0, 2] == pytest.approx(mass * 2.5, rel=1e-12)
        assert after.energy_change == pytest.approx(-0.5 * mass * 4.0 * (1 - 0.0625), rel=1e-12)


# -- friction and energy --------------------------------------------------------------------------


def planar_body(points, angles, inertia, friction):
    """A planar body whose feet touch one wall each, with friction, and the pairs."""
    bodies = [
        tb.Body(
            "body",
            "world",
            joint=tb.Planar("body"),
            inertia=tb.Inertia(1.0, (0, 0, 0), inertia * np.eye(3)),
        )
    ]
    for k, (point, angle, mu) in enumerate(zip(points, angles, friction, strict=True)):
        foot = tb.Fixed(f"foot{k}", pose=tb.Pose(translation=(*point, 0.0)))
        shape = tb.Shape(tb.SphereShape(0.01))
        bodies.append(tb.Body(f"foot{k}", "body", joint=foot, shapes=(shape,)))
        n = np.array([math.cos(angle), math.sin(angle), 0.0])
        x = np.array([0.0, 0.0, 1.0])
        pose = tb.Pose(np.stack([x, np.cross(n, x), n], axis=1), tuple([*point, 0.0] - 0.01 * n))
        wall = tb.Shape(tb.PlaneShape(), material=tb.ContactMaterial(mu))
        bodies.append(
            tb.Body(f"wall{k}", "world", joint=tb.Fixed(f"wall{k}", pose=pose), shapes=(wall,))
        )
    return tb.Model("walls", bodies)


PAIRS = [("foot0", "wall0"), ("foot1", "wall1")]
CORNERS, NORMALS = [(-0.137, -0.558), (0.043, -0.425)], [0.611, 5.761]
WALLS = planar_body(CORNERS, NORMALS, inertia=0.374, friction=[0.822, 1.123])
"""Two walls that a body can wedge itself between."""


def test_unequal_restitution_with_friction_does_not_create_energy():
    """Decompression is reduced where it would, and the contacts are named."""
    rng = np.random.default_rng(0)
    v = np.array([-0.965, -0.482, -0.358]) + 0.2 * rng.normal(size=(10, 3))
    q = np.zeros((10, 3))
    asked = {"foot0/wall0": 1.0, "foot1/wall1": 0.014}
    with pytest.warns(tb.ModelWarning, match="'foot0/wall0', 'foot1/wall1'.* create energy in"):
        after = tb.impact(WALLS, q, v, pairs=PAIRS, restitution=asked)
    reduced = after.restitution[:, 0] < 1.0
    assert reduced.any()
    assert not reduced.all()
    np.testing.assert_allclose(after.restitution[:, 1], 0.014 * after.restitution[:, 0])
    energy = np.asarray(tb.kinetic_energy(WALLS, q, v))
    assert (after.energy_change / energy).max() < 1e-8
    # reduced as little as needed: the energy is that before
    assert np.abs(after.energy_change / energy)[reduced].max() < 1e-6
    change = tb.kinetic_energy(WALLS, q, after.v) - energy
    np.testing.assert_allclose(after.energy_change, change, atol=1e-12)
    assert after.residual.max() < 1e-11


@pytest.mark.parametrize("mu", [0.0, 0.2, 0.8, 2.0])
@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_one_coefficient_never_creates_energy(mu, e):
    """Wedged bodies, where friction and normals are coupled most; no warning either."""
    rng = np.random.default_rng(7)
    q, v = np.zeros((20, 3)), rng.normal(size=(20, 3))
    walls = planar_body(CORNERS, NORMALS, 0.374, [mu, 0.5 * mu])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = tb.impact(walls, q, v, pairs=PAIRS, restitution=e)
    energy = np.asarray(tb.kinetic_energy(walls, q, v))
    assert (after.energy_change / energy).max() < 1e-9
    assert after.residual.max() < 1e-11
    if mu == 0.0 and e == 1.0:
        assert np.abs(after.energy_change / energy).max() < 1e-9


def planar_problem(rng):
    """Return rows, velocities, friction and restitution of a body between two random walls."""
    points = rng.normal(size=(2, 2))
    points *= (rng.uniform(0.3, 1.0, 2) / np.linalg.norm(points, axis=1))[:, None]
    angles, gyration = rng.uniform(0.0, 2.0 * math.pi, 2), math.sqrt(rng.uniform(0.02, 0.5))
    rows = np.zeros((6, 3))
    for k, (point, angle) in enumerate(zip(points, angles, strict=True)):
        n = np.array([math.cos(angle), math.sin(angle)])
        for axis, way in ((0, np.array([-n[1], n[0]])), (2, n)):
            moment = (point[0] * way[1] - point[1] * way[0]) / gyration
            rows[3 * k + axis] = [*way, moment]
    e = np.where(rng.random(2) < 0.5, rng.integers(0, 2, 2), rng.uniform(0.0, 1.0, 2))
    return rows, rng.normal(size=3), rng.uniform(0.0, 2.0, 2), e


def count_reductions(seed, problems):
    """Collide random bodies with two walls; return how often restitution had to be reduced."""
    rng = np.random.default_rng(seed)
    collided = reduced = 0
    while collided < problems:
        rows, v, mu, e = planar_problem(rng)
        b = rows @ v
        if (b[2::3] > 0.0).any():
            continue
        collided += 1
        p, factor, residual = collision_impulses(rows, b, mu, e)
        change = rows.T @ p
        energy = v @ change + 0.5 * change @ change
        assert residual < 1e-9
        assert energy <= 1e-8 * (0.5 * v @ v)
        reduced += factor < 1.0
        if e[0] == e[1] or not mu.any():
            assert factor == 1.0
    return reduced


def test_random_collisions_never_create_energy():
    """Different coefficients and friction, wedged and free."""
    # energies and residuals are checked on the way
    assert count_reductions(1, 40) <= 4


@pytest.mark.slow
def test_many_random_collisions_never_create_energy():
    """About one in two hundred would have created energy."""
    assert 1 <= count_reductions(2, 1000) <= 30


def test_coefficients_by_name_and_their_errors():
    """Names of contacts and of points; what does not exist or is no coefficient is refused."""
    for bad in (-0.1, 1.1, math.nan, "all"):
        with pytest.raises(tb.TiburonError, match="restitution"):
            tb.impact(ROW, np.zeros(3), np.zeros(3), restitution=bad)
    with pytest.raises(tb.DomainError, match="b0/b1"):
        tb.impact(ROW, np.zeros(3), np.zeros(3), restitution={"b0/b1": 2.0})
    with pytest.raises(tb.UnknownNameError, match="b0/b4"):
        tb.impact(ROW, np.zeros(3), np.zeros(3), restitution={"b0/b4": 0.5})
    with pytest.raises(tb.OptionError, match="sequential"):
        tb.impact(ROW, np.zeros(3), np.zeros(3), order="both")
    after = tb.impact(ROW, np.zeros(3), [1.0, 0, 0], restitution={"b1/b2": 0.25})
    np.testing.assert_allclose(after.restitution, [0.0, 0.0, 0.25])


def test_overlapping_shapes_do_not_collide_but_are_refused():
    """With the contact, its depth and the case."""
    with pytest.raises(tb.DomainError, match=r"'b0/b1'.*0\.1 m in case 1.*lift_out"):
        tb.impact(ROW, [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]], np.zeros((2, 3)))


def test_a_stack_of_boxes_collides_at_all_its_corners():
    """Forty points that touch of 440 candidates: solved on floats; the whole stack stops."""
    stack = tb.load("box_stack")
    q = np.array(stack.poses["stack"])
    v = np.zeros(stack.nv)
    v[5::6] = -1.0
    after = tb.impact(stack, q, v, world=tb.World(ground=tb.Ground(static_friction=0.5)))
    assert after.residual < 1e-10
    assert np.abs(after.v).max() < 1e-9
    assert after.touching.sum() == 40
    mass = sum(body.inertia.mass for body in stack.bodies)
    on_ground = ["ground" in name for name in after.names]
    assert after.impulses[on_ground, 2].sum() == pytest.approx(mass, rel=1e-9)


def test_resting_contacts_have_no_impulse():
    """No approach, no impulse, no round; all that touches still touches."""
    after = tb.impact(ROW, np.zeros(3), [0.3, 0.3, 0.3], restitution=1.0)
    np.testing.assert_array_equal(after.v, 0.3)
    assert after.rounds == 0
    assert after.touching.tolist() == [True, False, True]


def test_one_robot_and_batches_have_the_same_bits():
    """Collisions of different lengths in one batch."""
    rng = np.random.default_rng(1)
    v = rng.normal(size=(9, 3))
    for order in ("simultaneous", "sequential"):
        many = tb.impact(ROW, np.zeros((9, 3)), v, restitution=0.8, order=order)
        assert len(set(many.rounds.tolist())) > 1
        for k in range(9):
            one = tb.impact(ROW, np.zeros(3), v[k], restitution=0.8, order=order)
            np.testing.assert_array_equal(one.v, many.v[k])
            np.testing.assert_array_equal(one.impulses, many.impulses[k])


def test_rimless_wheel_rolls_steadily():
    """8 spokes of 0.5 m, I = m l^2 / 4, 6 degrees: swings and collisions settle to a cycle."""
    l, m, spokes, slope = 0.5, 2.0, 8, math.radians(6.0)
    half = math.pi / spokes
    points = [
        tb.ContactPoint(f"foot{k}", "wheel", (l * math.sin(a), 0.0, -l * math.cos(a)))
        for k, a in enumerate(half * (2 * k + 1) for k in range(spokes))
    ]
    moment = m * l * l / 4
    wheel = tb.Model(
        "wheel",
        [
            tb.Body(
                "wheel",
                "world",
                joint=tb.Free("wheel"),
                inertia=tb.Inertia(m, (0, 0, 0), (0.6 * moment, moment, 0.6 * moment)),
            )
        ],
        contacts=points,
    )
    floor = tb.World(ground=tb.Ground(static_friction=0.5))
    q = np.array([1.0, 0, 0, 0, 0, 0, l * math.cos(half)])
    about_foot = moment + m * l * l
    # heights of the hub at the ends of a swing, along gravity
    gain = 2 * m * 9.81 * l * (math.cos(slope - half) - math.cos(slope + half)) / about_foot
    before = 3.5
    for _ in range(60):
        # rolling to +x about the foot behind, at (-l sin, 0, 0)
        v = [0.0, before, 0.0, before * l * math.cos(half), 0.0, -before * l * math.sin(half)]
        after = tb.impact(wheel, q, v, world=floor)
        rate = after.v[1]
        np.testing.assert_allclose(
            after.v[3:], [rate * l * math.cos(half), 0, rate * l * math.sin(half)], atol=1e-12
        )
        last, before = before, math.sqrt(rate * rate + gain)
    assert last == pytest.approx(2.463799064, abs=1e-9)
    assert rate == pytest.approx(1.886495033, abs=1e-9)
    # the foot behind lifts off, the one ahead sticks
    assert after.touching.tolist() == [True] + 7 * [False]


def test_surfaces_and_masses_by_name_are_those_of_other_models():
    """Friction, restitution and masses of each case of a batch, as with a robot of that kind."""

    def ball(mass):
        inertia = tb.Inertia(mass, (0, 0, 0), np.eye(3) * 0.004)
        shapes = (tb.Shape(tb.SphereShape(0.1)),)
        joint = tb.Free("ball")
        return tb.Model("ball", [tb.Body("ball", joint=joint, inertia=inertia, shapes=shapes)])

    def floor(mu, e):
        return tb.World(ground=tb.Ground(static_friction=mu, restitution=e))

    q, v = [1.0, 0, 0, 0, 0, 0, 0.1], [0.3, -0.2, 1.0, 1.0, 0.4, -2.0]
    cases = [(0.1, 0.2, 1.0), (0.3, 0.9, 2.0), (0.05, 0.0, 0.5)]
    mu, e, mass = (list(x) for x in zip(*cases, strict=True))
    given = {"ground.static_friction": mu, "ground.restitution": e, "ball.mass": mass}
    found = tb.impact(ball(1.0), q, v, world=floor(0.5, 0.5), parameters=given)
    for k, (a, b, m) in enumerate(cases):
        alone = tb.impact(ball(m), q, v, world=floor(a, b))
        np.testing.assert_allclose(found.v[k], alone.v, atol=1e-12)
        np.testing.assert_allclose(found.impulses[k], alone.impulses, atol=1e-12)
    for name, words in (
        ("ground.normal_stiffness", "does not"),
        ("ground.statik_friction", "ground.static_friction"),
    ):
        with pytest.raises(tb.TiburonError, match=words):
            tb.impact(ball(1.0), q, v, world=floor(0.5, 0.5), parameters={name: 1.0})
    with pytest.raises(tb.TiburonError, match=r"ground.restitution.*does not"):
        tb.impact(
            ball(1.0),
            q,
            v,
            world=floor(0.5, 0.5),
            restitution=0.5,
            parameters={"ground.restitution": 0.1},
        )


def test_cases_solved_one_by_one_have_their_own_parameters(monkeypatch):
    """Collisions on floats take masses and surfaces of their case, as kernels do."""
    row = balls(3)
    given = {"b1.mass": [1.0, 3.0], "contact.b0/b1.restitution": [0.2, 0.9]}
    args = (row, np.zeros(3), [1.0, 0.0, 0.0])
    native = tb.impact(*args, parameters=given)
    monkeypatch.setattr("tiburon.functions.contact.MOST_NATIVE", 0)
    floats = tb.impact(*args, parameters=given)
    np.testing.assert_allclose(floats.v, native.v, atol=1e-12)
    assert np.abs(native.v[0] - native.v[1]).max() > 0.1
