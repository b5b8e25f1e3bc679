"""Closed chains against statics of bars and against a closed form under water."""

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.tolerances import assert_close
from tiburon.reproduce.iftomm_references import rotating_four_bars

RANDOM = np.random.default_rng(17)

DOWN = np.array([0.0, 0.0, -9.81])


def tilted(name, size):
    """Return a parallel robot in a closed position off its home, at rest."""
    model = tb.load(name)
    q = model.integrate(model.neutral(), size * RANDOM.standard_normal(model.nv))
    closed = tb.project_configuration(model, q)
    assert closed.residual < 1e-12
    rest = np.zeros(model.nv)
    found = tb.loop_inverse_dynamics(model, closed.q, rest, rest)
    return model, closed.q, found.tau


class Places:
    """Where everything is, in world axes: one call for all bodies."""

    def __init__(self, model, q):
        self.model = model
        names = [body.name for body in model.bodies]
        rotation, origin = tb.forward_kinematics(model, q, names)
        self.rotation = dict(zip(names, rotation, strict=True))
        self.origin = dict(zip(names, origin, strict=True))

    def point(self, name, local):
        """Return a point of a body [m]."""
        return self.origin[name] + self.rotation[name] @ np.array(local)

    def weight(self, name):
        """Return weight [N] and center of mass [m] of a body."""
        inertia = self.model.body(name).inertia
        return inertia.mass * DOWN, self.point(name, inertia.com)

    def heads(self):
        """Return where loops hold the platform, by the body that holds it."""
        return {
            loop.first: self.point("platform", loop.second_pose.translation)
            for loop in self.model.loops
        }


def bar_forces(platform, bars):
    """Return the force of each bar on a platform at rest [N], by balance of forces and moments.

    A bar turns freely about its foot and its head. Moments about the foot give what it does across
    itself, (s / l) of each weight at distance s of its length l. Along itself it does what the six
    equations of the platform ask for.

    Args:
        platform: Weight and center of mass.
        bars: Foot, head and the weights on it, each with its center of mass.
    """
    along, across, points = [], [], []
    for foot, head, loads in bars:
        length = np.linalg.norm(head - foot)
        u = (head - foot) / length
        share = sum((u @ (center - foot)) / length * load for load, center in loads)
        along.append(u)
        across.append(share - (share @ u) * u)
        points.append(head)
    load, center = platform
    arms = np.array(points) - center
    matrix = np.vstack([np.array(along).T, np.cross(arms, along).T])
    rest = np.concatenate([load + np.sum(across, 0), np.cross(arms, across).sum(0)])
    f = np.linalg.solve(matrix, -rest)
    return [x * u + side for x, u, side in zip(f, along, across, strict=True)]


@interpreting()
def test_leg_forces_of_stewart_follow_statics_of_bars():
    """Each motor carries its head's force along the leg, and the weight of its own rod."""
    model, q, tau = tilted("stewart", 0.05)
    at = Places(model, q)
    bars = []
    for rod, head in at.heads().items():
        tube = rod.replace("rod", "tube")
        bars.append((at.origin[tube], head, [at.weight(tube), at.weight(rod)]))
    forces = bar_forces(at.weight("platform"), bars)
    expected = []
    for (foot, head, (_, (rod_weight, _))), force in zip(bars, forces, strict=True):
        u = (head - foot) / np.linalg.norm(head - foot)
        expected.append(u @ (force - rod_weight))
    found = [tau[model.slice(f"leg_{k}_stroke", of="v")][0] for k in range(1, 7)]
    # no two legs alike, or the test would not tell them apart
    assert np.ptp(expected) > 100.0
    # a 6 x 6 system of condition some tens, and ours of 24 and 18
    assert_close(found, expected, 1e-10)
    assert np.count_nonzero(tau) == 6


@interpreting()
def test_shoulder_torques_of_delta_follow_statics_of_bars():
    """Each arm carries two bars at its elbows, and itself."""
    model, q, tau = tilted("delta", 0.05)
    at = Places(model, q)
    rods = at.heads()
    bars = [(at.origin[rod], head, [at.weight(rod)]) for rod, head in rods.items()]
    forces = bar_forces(at.weight("platform"), bars)
    expected = []
    for arm in ("arm_1", "arm_2", "arm_3"):
        shoulder = at.origin[f"{arm}_upper"]
        axis = at.rotation[f"{arm}_upper"] @ np.array([0.0, 1.0, 0.0])
        load, center = at.weight(f"{arm}_upper")
        moment = np.cross(center - shoulder, load)
        for (elbow, _, [(rod_weight, _)]), force, rod in zip(bars, forces, rods, strict=True):
            if rod.startswith(arm):
                # what the bar hands on to the arm
                moment += np.cross(elbow - shoulder, rod_weight - force)
        expected.append(-axis @ moment)
    found = [tau[model.slice(f"arm_{k}_shoulder", of="v")][0] for k in (1, 2, 3)]
    # the platform is off its home: arms carry different loads
    assert np.ptp(expected) > 0.01
    assert_close(found, expected, 1e-10)


@pytest.mark.parametrize(("added", "displaced"), [(0.7, 0.4), (0.3, 0.9)])
def test_four_bars_under_water_are_a_slower_pendulum(added, displaced):
    """Water that adds to masses and takes off weights: k = weight moment / inertia, and no more.

    Uprights turn about their ends with added mass like their own, all along; couplers do not turn.
    Through poses in which all rods lie on one line; elliptic functions tell where it should be.
    """
    dry = tb.load("n_four_bar_2")
    middle = np.array([0.5, 0.0, 0.0])
    own = tb.added_mass_from(
        [0.0, added / 12, added / 12, added, added, added], about=tuple(middle)
    )
    fluid = tb.BodyFluid(
        volume=displaced / 1000.0,
        center_of_buoyancy=tuple(middle),
        added_mass=own,
        reference_density=1000.0,
    )
    model = dry.with_fluids({body.name: fluid for body in dry.bodies})
    start = np.where([name.startswith("pivot") for name in model.v_names], -1.0, 1.0)
    run = tb.simulate(model, 5.0, v=start, fluid=tb.Water(density=1000.0))
    gravity = 9.81 * (1.0 - displaced) / (1.0 + added)
    exact = np.array([rotating_four_bars(2, t, gravity) for t in run.time])
    assert exact[-1, 0] > np.pi / 2
    # steps of 1 ms at some rad/s: RK4 leaves 1e-12 a step; singular poses a little more
    assert np.abs(run.q[:, 0] + exact[:, 0]).max() < 1e-7
    assert np.abs(run.v[:, 0] + exact[:, 1]).max() < 1e-7
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-10
