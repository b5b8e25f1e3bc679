"""Constraints that users write as functions: their residuals, and where they work."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.dense import dense_acceleration, dense_constraints
from tests.loops.mechanisms import link
from tiburon.loops.constraints import constraints, jacobian_pattern

RANDOM = np.random.default_rng(81)

ROUNDING = 1e-11
"""Sums of some hundred products of numbers of size one to ten."""


def cross(a, b):
    """The vector product, on floats and traced values alike."""
    return np.array(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
        like=a,
    )


def together(first, second):
    """Where the second origin is, in axes of the first frame."""
    return first.R.T @ (second.p - first.p)


def crossed(first, second):
    """The same, and how far the second y axis leans along the first x axis."""
    return [*together(first, second), first.R[:, 0] @ second.R[:, 1]]


def no_slip(first, second):
    """How fast what is 0.3 m below the second origin slides along the first x and y axes."""
    down = -0.3 * first.R[:, 2]
    apart = second.p + down - first.p
    slide = second.v + cross(second.w, down) - first.v - cross(first.w, apart)
    return (first.R.T @ slide)[:2]


def swinging_tree():
    """A robot with joints of many kinds and two hands, one of whose bases time moves."""
    shaken = tb.Driven(
        "shaken",
        tb.Prismatic("shake", (0.6, 0.8, 0.0)),
        tb.Harmonic(0.2, frequency=0.7, phase=0.4),
        carried=tb.Revolute("turn", (0, 0.6, 0.8)),
    )
    step = tb.Pose.from_rpy((0.3, -0.5, 0.9), (0.4, 0.1, -0.2))
    bodies = [
        link("trunk", "world", tb.Free("float")),
        link("left", "trunk", tb.Spherical("shoulder", pose=step)),
        link("left hand", "left", tb.Universal("wrist", (1, 0, 0), (0, 1, 0), pose=step)),
        link("right", "trunk", tb.Cylindrical("sleeve", (0, 0, 1), pose=step)),
        link("stand", "world", shaken),
        link("arm", "stand", tb.Revolute("elbow", (0, 1, 0), pose=step)),
    ]
    frames = [
        tb.Frame("left tip", "left hand", tb.Pose.from_rpy((0.2, 0.1, 0.7), (0.1, 0.3, 0.2))),
        tb.Frame("right tip", "right", tb.Pose.from_rpy((-0.4, 0.8, 0.1), (0.2, -0.1, 0.3))),
    ]
    return bodies, frames


CLOSURES = {
    "ball": (together, 3, "position", tb.Spherical("ball")),
    "cross": (crossed, 4, "position", tb.Universal("cross", (1, 0, 0), (0, 1, 0))),
    "roll": (no_slip, 2, "velocity", tb.RollingSphere("roll", radius=0.3)),
}


@pytest.mark.parametrize("kind", CLOSURES)
@pytest.mark.parametrize(
    "ends", [("left tip", "right tip"), ("world", "right tip"), ("arm", "left")]
)
def test_a_constraint_function_equals_the_joint_of_the_same_meaning(kind, ends):
    """Values, Jacobian, rate and bias at random open positions, while time moves a joint."""
    function, count, level, joint = CLOSURES[kind]
    bodies, frames = swinging_tree()
    written = tb.ConstraintFunction("w", function, frames=ends, count=count, level=level)
    model = tb.Model("written", bodies, frames, loops=[written])
    built = tb.Model("built", bodies, frames, loops=[tb.LoopClosure("b", *ends, joint)])
    q, v = model.random_state(RANDOM)
    mine, other = (constraints(m, m.plan.at(0.37), q.tolist(), v.tolist()) for m in (model, built))
    # the function has no height of the ball that rolls
    for part in ("value", "rate", "bias"):
        np.testing.assert_allclose(
            getattr(mine, part), getattr(other, part)[-count:], atol=ROUNDING, err_msg=part
        )
    for row, expected in zip(mine.jacobian, other.jacobian[-count:], strict=True):
        dense = [[r.get(i, 0.0) for i in range(model.nv)] for r in (row, expected)]
        np.testing.assert_allclose(*dense, atol=ROUNDING)
    # joints that bear both ends are no part of what is compiled
    for used, expected in zip(
        jacobian_pattern(model), jacobian_pattern(built)[-count:], strict=True
    ):
        assert used >= expected
        assert ends != ("left tip", "right tip") or not used & set(range(6))


def test_a_constraint_function_of_joints_equals_a_coupling():
    """A tie by a polynomial, written out."""

    def tied(crank, slide):
        x = crank.q[0]
        return slide.q[0] - 0.2 - 0.5 * x - 0.3 * x * x

    bodies = [
        link("crank", "world", tb.Revolute("crank")),
        link("slide", "crank", tb.Prismatic("slide")),
    ]
    written = tb.ConstraintFunction("tie", tied, joints=("crank", "slide"), units=("m",))
    coupled = tb.JointCoupling("tie", "slide", "crank", (0.2, 0.5, 0.3))
    models = [tb.Model("m", bodies, loops=[loop]) for loop in (written, coupled)]
    q, v = models[0].random_state(RANDOM)
    mine, other = (dense_constraints(model, q, v) for model in models)
    for found, expected in zip(mine, other, strict=True):
        np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_jacobian_and_bias_are_rates_of_the_values():
    """Where frames and quaternions of joints meet in one function, against differences."""

    def mixed(tip, arm, shoulder):
        w, x, y, z = shoulder.q
        return (
            np.sin(tip.p[0] * w) + tip.R[0, 1] * x,
            (arm.p - tip.p) @ (arm.p - tip.p) * np.exp(y) - z * arm.R[2, 2],
        )

    bodies, frames = swinging_tree()
    loop = tb.ConstraintFunction(
        "mixed", mixed, frames=("left tip", "arm"), joints="shoulder", count=2
    )
    model = tb.Model("m", bodies, frames, loops=[loop])
    q, v = model.random_state(RANDOM)
    h = 1e-4

    def at(time):
        # time moves a joint of its own accord
        moved = model.integrate(q, time * v)
        return constraints(model, model.plan.at(0.3 + time), moved.tolist(), v.tolist())

    here = at(0.0)
    # central differences: h^2 times third derivatives of size 100, and rounding over h
    rate = (np.array(at(h).value) - np.array(at(-h).value)) / (2.0 * h)
    np.testing.assert_allclose(here.rate, rate, atol=1e-5)
    bias = (np.array(at(h).rate) - np.array(at(-h).rate)) / (2.0 * h)
    np.testing.assert_allclose(here.bias, bias, atol=1e-4)
    for k, row in enumerate(here.jacobian):
        for i in range(model.nv):
            step = h * np.eye(model.nv)[i]
            ends = [
                constraints(model, model.plan.at(0.3), model.integrate(q, s * step).tolist())
                for s in (1.0, -1.0)
            ]
            slope = (ends[0].value[k] - ends[1].value[k]) / (2.0 * h)
            assert row.get(i, 0.0) == pytest.approx(slope, abs=1e-5)


# -- a bead on a wire ------------------------------------------------------------------------------

MASS = 1.7


def on_parabola(bead):
    """The wire z = x^2 / 2."""
    return bead.p[2] - 0.5 * bead.p[0] ** 2


def bead_on_wire(function=on_parabola, **options):
    """A mass that slides along x and z, and a wire."""
    bodies = [
        tb.Body("cart", joint=tb.Prismatic("x", (1, 0, 0)), inertia=tb.Inertia.sphere(1e-9, 0.01)),
        tb.Body(
            "bead",
            "cart",
            joint=tb.Prismatic("z", (0, 0, 1)),
            inertia=tb.Inertia.sphere(MASS, 0.05),
        ),
    ]
    wire = tb.ConstraintFunction("wire", function, frames="bead", **options)
    return tb.Model("bead", bodies, loops=[wire], actuators=[tb.Actuator("pull", "x")])


WIRE = bead_on_wire()


def wire_acceleration(x, xd, pull):
    """By Lagrange with z = x^2 / 2: xdd (1 + x^2) = pull / m - g x - x xd^2."""
    xdd = (pull / MASS - 9.81 * x - x * xd**2) / (1.0 + x**2)
    return np.stack([xdd, xd**2 + x * xdd], axis=-1)


@pytest.mark.parametrize("method", ["augmented", "handles", "proximal"])
def test_a_bead_accelerates_along_its_wire(method):
    """A batch against the equation of motion in one coordinate; the force is what the wire does."""
    x, xd, pull = RANDOM.standard_normal((3, 5))
    q, v = np.stack([x, 0.5 * x**2], -1), np.stack([xd, x * xd], -1)
    tau = np.stack([pull, np.zeros(5)], -1)
    found = tb.loop_dynamics(WIRE, q, v, tau, method=method)
    expected = wire_acceleration(x, xd, pull)
    # the cart of 1e-9 kg is not there in the equation
    np.testing.assert_allclose(found.acceleration, expected, atol=1e-7)
    force = MASS * (expected[:, 1] + 9.81)
    np.testing.assert_allclose(found.constraint_force[:, 0], force, rtol=1e-7, atol=1e-7)


def test_inverse_dynamics_undoes_forward_dynamics_on_a_wire():
    """The pull along x that makes a motion, from the accelerations it made."""
    x, xd, pull = 0.7, -1.1, 2.5
    q, v = [x, 0.5 * x**2], [xd, x * xd]
    vd = tb.forward_dynamics(WIRE, q, v, [pull, 0.0])
    np.testing.assert_allclose(tb.inverse_dynamics(WIRE, q, v, vd), [pull, 0.0], atol=1e-8)


def test_linearization_holds_beside_the_wire():
    """Derivatives of accelerations against differences of the dense solution."""
    q, v, tau = np.array([0.4, 0.08]), np.array([0.9, 0.36]), np.array([0.3, -0.2])
    A, B = tb.linearize(WIRE, q, v, tau)
    h = 1e-6

    def vd(dq, dv, dtau):
        return dense_acceleration(WIRE, q + dq, v + dv, tau + dtau)[0]

    none = np.zeros(2)
    for k, step in enumerate(h * np.eye(2)):
        # differences of numbers of size 10 over 2e-6
        by_q = (vd(step, none, none) - vd(-step, none, none)) / (2 * h)
        by_v = (vd(none, step, none) - vd(none, -step, none)) / (2 * h)
        by_tau = (vd(none, none, step) - vd(none, none, -step)) / (2 * h)
        np.testing.assert_allclose(A[2:, k], by_q, atol=1e-6)
        np.testing.assert_allclose(A[2:, 2 + k], by_v, atol=1e-6)
        np.testing.assert_allclose(B[2:, k], by_tau, atol=1e-6)


def test_bead_stays_on_its_wire_and_conserves_energy():
    """Four seconds of swinging in native code, two cases at once."""
    x = np.array([1.2, -0.4])
    q = np.stack([x, 0.5 * x**2], -1)
    run = tb.simulate(
        WIRE,
        4.0,
        q=q,
        v=np.zeros((2, 2)),
        method=tb.RK4(dt=2e-3),
        record=tb.Record(quantities=["constraint_residual", "energy"]),
    )
    assert float(run.data["constraint_residual"].max()) < 1e-12
    energy = np.asarray(run.data["total_energy"])
    # the integrator is of fourth order: some 1e-10 of the swing of 10 J
    assert energy.shape == (401, 2)
    assert np.ptp(energy, axis=0).max() < 1e-8


def test_assembly_brings_a_bead_to_its_wire_with_x_held():
    """From off the wire, and what can move there by rank and by counting."""
    found = tb.assemble(WIRE, [0.0, 3.0], hold={"x": 0.8})
    np.testing.assert_allclose(found.q, [0.8, 0.32], atol=1e-12)
    told = tb.mobility(WIRE, found.q)
    assert (told.equations, told.mobility, told.counted_mobility) == (1, 1, 1)
    assert "x can drive it alone" in told.summary


@interpreting()
def test_reactions_are_those_of_the_joint_of_the_same_meaning():
    """Bearings of an arm whose tip a ball holds, and a function that says the same."""
    bodies = [
        link("upper", "world", tb.Revolute("shoulder", (0, 1, 0))),
        link("lower", "upper", tb.Spherical("elbow", pose=tb.Pose(translation=(0.5, 0, 0)))),
    ]
    tip = tb.Frame("tip", "lower", tb.Pose(translation=(0.3, 0.1, 0.0)))
    spot = tb.Frame("spot", "world", tb.Pose(translation=(0.8, 0.1, 0.0)))
    written = tb.ConstraintFunction("tie", together, frames=("spot", "tip"), count=3)
    ball = tb.LoopClosure("tie", "spot", "tip", tb.Spherical("ball"))
    found = []
    for loop in (written, ball):
        model = tb.Model("arm", bodies, [tip, spot], loops=[loop])
        q = model.neutral()
        v = tb.project_velocity(model, q, [0.3, 1.0, -2.0, 0.7])
        found.append(tb.loop_reactions(model, q, v, [1.0, 0.2, -0.4, 0.5]))
    mine, other = found
    np.testing.assert_allclose(mine.bearing, other.bearing, atol=1e-9)
    np.testing.assert_allclose(mine.actuator, other.actuator, atol=1e-9)
    assert mine.loop.shape == (0, 6)


# -- robots from robots, files, keys -------------------------------------------------------------


def test_a_robot_with_a_wire_is_carried_by_another():
    """World among its frames becomes the place it is put; names get a prefix."""

    def beside(ground, bead):
        return (ground.R.T @ (bead.p - ground.p))[2] - 0.5

    bead = tb.Body("bead", joint=tb.Free("float"), inertia=tb.Inertia.sphere(1.0, 0.1))
    loop = tb.ConstraintFunction("wire", beside, frames=("world", "bead"))
    robot = tb.Model("bead", [bead], loops=[loop])
    carrier = tb.Model("carrier", [link("lift", "world", tb.Prismatic("up", (0, 0, 1)))])
    whole = carrier.attach(robot, at="lift", pose=tb.Pose(translation=(0, 0, 0.25)), prefix="b_")
    q = whole.neutral()
    q[whole.slice("up")] = 2.0
    q[whole.slice("b_float")][6] = 3.0
    np.testing.assert_allclose(tb.constraint_residual(whole, q), [3.0 - 0.5], atol=1e-14)
    assert whole.loops[0].name == "b_wire"
    assert not whole.without("b_bead").loops
    tie = tb.ConstraintFunction("tie", lambda crank: crank.q[0], joints="crank")
    tied = tb.Model("m", [link("crank", "world", tb.Revolute("crank"))], loops=[tie])
    with pytest.raises(tb.ModelError, match="loop 'tie': depends on the joint 'crank', which"):
        tied.lock("crank")


def test_the_key_of_compiled_code_is_that_of_the_graph():
    """The same function in another process has the same key, another function another."""
    same = bead_on_wire(lambda bead: bead.p[2] - 0.5 * bead.p[0] ** 2)
    assert same.structure_key() == WIRE.structure_key()
    other = bead_on_wire(lambda bead: bead.p[2] - 0.6 * bead.p[0] ** 2)
    assert other.structure_key() != WIRE.structure_key()
    assert pickle.loads(pickle.dumps(WIRE)) == WIRE
    code = (
        "from tests.loops.test_constraint_function import WIRE; print(WIRE.structure_key().hex())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == WIRE.structure_key().hex()


def test_files_cannot_hold_functions(tmp_path):
    """Saving says which loop is code."""
    with pytest.raises(tb.ModelError, match="loop 'wire': a function cannot be written to a file"):
        tb.save(WIRE, tmp_path / "bead.toml")


# -- what is refused -------------------------------------------------------------------------------

REFUSED = {
    "its function must return 2 residuals, got 1": (on_parabola, {"count": 2}),
    "its function must return 1 residual, got 3 in nested arrays": (lambda b: (b.p,), {}),
    "its function cannot be traced": (lambda b: b.p[2] if b.p[0] > 0 else b.p[1], {}),
    "expected a function of (bead), got one of (a, b)": (lambda a, b: a.p[0] - b.p[0], {}),
    "its function failed on bead: TypeError": (lambda a: len(3), {}),
    'velocities need level="velocity"': (lambda b: b.v[0], {}),
    "residual 0 does not depend on any of its arguments": (lambda b: 1.0, {}),
    "linear in the velocities, got derivatives that depend on the velocity": (
        lambda b: b.v[0] ** 2,
        {"level": "velocity"},
    ),
    "linear in the velocities, got 0.1 at rest": (
        lambda b: b.v[0] - 0.1,
        {"level": "velocity"},
    ),
    "count must be the number of residuals": (on_parabola, {"count": 0}),
    "units must be one for each of 1 residuals, got 2": (on_parabola, {"units": ("m", "m")}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_non_constraints_are_refused(message):
    """When the robot is built, not when it moves."""
    function, options = REFUSED[message]
    with pytest.raises(tb.ModelError, match=r"^loop 'wire': ") as caught:
        bead_on_wire(function, **options)
    assert message in str(caught.value)


class Unhashable:
    """Compares by value and forgot to hash."""

    def __eq__(self, other):
        return True

    def __call__(self, joint):
        return joint.q[0]


def test_unknown_names_are_refused():
    """Frames and joints, followers and joints that never move."""
    bodies = [
        link("a", "world", tb.Revolute("hinge")),
        link("b", "a", tb.Coupled("gear", tb.Revolute("wheel"), "hinge", 2.0)),
        link("c", "b", tb.Fixed("weld")),
    ]

    def build(**seen):
        loop = tb.ConstraintFunction("tie", lambda x: 0.0, **seen)
        return tb.Model("m", bodies, loops=[loop])

    with pytest.raises(tb.UnknownNameError, match=r"'hing'.*'hinge'"):
        build(joints="hing")
    with pytest.raises(tb.UnknownNameError, match="'A'"):
        build(frames="A")
    with pytest.raises(tb.ModelError, match="joint 'gear', which follows 'hinge'"):
        build(joints="gear")
    with pytest.raises(tb.ModelError, match="joint 'weld', which never moves"):
        build(joints="weld")
    with pytest.raises(tb.ModelError, match="must depend on something"):
        build()
    with pytest.raises(tb.OptionError, match="level"):
        build(joints="hinge", level="acceleration")
    with pytest.raises(tb.ModelError, match="function must be hashable"):
        tb.ConstraintFunction("tie", Unhashable(), joints="hinge")


def test_loops_of_a_body_with_itself_are_refused():
    """Two frames of one body never move apart."""
    arm = link("arm", "world", tb.Revolute("hinge"))
    ends = [tb.Frame("tip", "arm"), tb.Frame("heel", "arm"), tb.Frame("spot", "world")]
    for loop in (
        tb.LoopClosure("tie", "tip", "heel", tb.Spherical("ball")),
        tb.LoopClosure("tie", "arm", "heel", tb.Fixed("weld")),
        tb.LoopClosure("tie", "spot", "world", tb.Fixed("weld")),
        tb.Blade("tie", "tip", "heel"),
    ):
        with pytest.raises(
            tb.ModelError, match=r"loop 'tie': must connect two bodies, got .*, both on"
        ):
            tb.Model("m", [arm], ends, loops=[loop])


def test_contradictory_constraint_functions_are_reported():
    """Assembly says how far both stay open; a run does not start."""
    low, high = (
        tb.ConstraintFunction(name, lambda bead, at=at: bead.p[2] - at, frames="bead")
        for name, at in (("low", 0.1), ("high", 0.5))
    )
    model = tb.Model("m", WIRE.bodies, loops=[low, high])
    with pytest.raises(tb.LoopError, match="stay open at best") as caught:
        tb.assemble(model, starts=2)
    assert caught.value.residuals == pytest.approx({"low": 0.2, "high": 0.2}, abs=1e-6)
    with pytest.raises(tb.DomainError, match=r"loop 'high' open by 0\.4"):
        tb.simulate(model, 0.1, q=[0.0, 0.1], v=[0.0, 0.0])


def test_non_finite_residuals_are_reported_with_their_loop():
    """A root of a negative number, in a call and at the start of a run."""
    model = bead_on_wire(lambda bead: bead.p[2] - np.sqrt(bead.p[0]))
    np.testing.assert_allclose(tb.constraint_residual(model, [0.25, 0.5]), [0.0], atol=1e-15)
    for call in (
        lambda: tb.constraint_residual(model, [-0.25, 0.5]),
        lambda: tb.simulate(model, 0.1, q=[-0.25, 0.5], v=[0.0, 0.0]),
    ):
        with pytest.raises(tb.DomainError, match="loop 'wire': its residuals must be finite"):
            call()
