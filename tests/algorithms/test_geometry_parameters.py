"""Geometry by name: placements at run time are those of a robot that is built with them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.hydro.wet import random_fluid
from tests.model.samples import GENERAL, random_pose, random_tree
from tests.strategies import DRIVEN, TIED, models
from tiburon.model.composition import changed

KINDS = ("revolute", "prismatic", "fixed", "free", *GENERAL)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]


def tree(seed):
    """Return a random tree of all joint kinds, with frames on a link, a weld and the world."""
    rng = np.random.default_rng(seed)
    model = random_tree(seed, 4, KINDS)
    bodies = [model.bodies[-1].name, model.bodies[0].name, "world"]
    frames = [tb.Frame(f"mark{k}", body, random_pose(rng)) for k, body in enumerate(bodies)]
    base = tb.Body("base", joint=tb.Fixed("base", pose=random_pose(rng)), inertia=tb.Inertia(1.0))
    link = tb.Body(
        "link",
        "base",
        joint=tb.Revolute("swing", (0, 1, 0), pose=random_pose(rng)),
        inertia=tb.Inertia.box(1.0, (0.1, 0.2, 0.3), com=(0.1, 0, 0)),
    )
    weld = tb.Body(
        "weld",
        "link",
        joint=tb.Fixed("weld", pose=random_pose(rng)),
        inertia=tb.Inertia.box(2.0, (0.3, 0.2, 0.1), com=(0.0, 0.1, 0)),
    )
    return model.with_bodies(base, link, weld).with_frames(
        *frames, tb.Frame("tip", "weld", random_pose(rng))
    )


def geometry(model):
    return [name for name in tb.parameters(model) if name.endswith((".translation", ".rotation"))]


def values_of(model, names, rng=None, size=0.4, lead=()):
    """Return values of some names: those of the robot, or others near them."""
    known = tb.parameters(model)
    off = 0.0 if rng is None else 1.0
    rng = np.random.default_rng(0) if rng is None else rng
    return {
        name: np.array(known[name].value) + off * rng.uniform(-size, size, (*lead, 3))
        for name in names
    }


FUNCTIONS = [
    tb.forward_dynamics,
    tb.inverse_dynamics,
    tb.mass_matrix,
    tb.forward_kinematics,
    tb.center_of_mass,
    tb.potential_energy,
    tb.kinetic_energy,
    tb.joint_reactions,
]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", SEEDS)
def test_geometry_by_name_is_that_of_a_robot_built_with_it(seed):
    """All joint kinds and welds, frames, the base; at its own values the robot stays as it is."""
    rng = np.random.default_rng(seed)
    model = tree(seed)
    names = geometry(model)
    assert {"weld.rotation", "base.translation", "tip.rotation", "mark2.translation"} <= set(names)
    q, v = model.random_state(rng)
    state = (q, v, *rng.standard_normal((2, model.nv)))
    plain = tb.compile(FUNCTIONS, model)(*state)
    for some in (names, [str(name) for name in rng.permutation(names)[:4]]):
        own, others = values_of(model, some), values_of(model, some, rng)
        kernel = tb.compile(FUNCTIONS, model, parameters=some)
        built = tb.compile(FUNCTIONS, tb.with_parameters(model, others))(*state)
        # the same sums of products, about frames that were chosen otherwise
        for values, expected, rounding in ((own, plain, 1e-13), (others, built, 1e-12)):
            for x, y in zip(kernel(*state, parameters=values), expected, strict=True):
                size = max(1.0, np.abs(y).max())
                np.testing.assert_allclose(x, y, rtol=0, atol=rounding * size)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(models(kinds=(*DRIVEN, *TIED), most=4), st.integers(0, 1000))
def test_geometry_of_joints_that_time_moves_or_that_follow_others(model, seed):
    rng = np.random.default_rng(seed)
    values = values_of(model, geometry(model), rng)
    built = tb.with_parameters(model, values)
    q, v = model.random_state(rng)
    state = (q, v, rng.standard_normal(model.nv))
    functions = [tb.inverse_dynamics, tb.forward_kinematics]
    kernel = tb.compile(functions, model, parameters=list(values))
    own = tb.compile(functions, built)
    at = {"time": 0.3} if model.plan.depends_on_time else {}
    for x, y in zip(kernel(*state, parameters=values, **at), own(*state, **at), strict=True):
        size = max(1.0, np.abs(y).max(initial=0.0))
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * size)


def test_each_case_of_a_batch_has_its_own_geometry_and_mass():
    """One kernel for all of them; names of geometry go with others."""
    rng = np.random.default_rng(3)
    model = tree(3)
    cases = 5
    values = values_of(model, ["swing.translation", "weld.rotation"], rng, lead=(cases,))
    values["weld.mass"] = rng.uniform(1.0, 3.0, cases)
    values["tip.translation.x"] = rng.uniform(0.0, 1.0, cases)
    q, v = model.random_state(rng, (cases,))
    tau = rng.standard_normal((cases, model.nv))
    kernel = tb.compile(tb.forward_dynamics, model, parameters=list(values))
    assert np.array_equal(
        kernel(q, v, tau, parameters=values),
        tb.forward_dynamics(model, q, v, tau, parameters=values),
    )
    R, p = tb.forward_kinematics(model, q, "tip", parameters=values)
    for k in range(cases):
        built = tb.with_parameters(model, {name: x[k] for name, x in values.items()})
        expected = tb.forward_dynamics(built, q[k], v[k], tau[k])
        found = tb.forward_dynamics(model, q, v, tau, parameters=values)[k]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        for ours, other in zip((R, p), tb.forward_kinematics(built, q[k], "tip"), strict=True):
            np.testing.assert_allclose(ours[k], other, rtol=0, atol=1e-14)


def test_geometry_of_a_weld_beside_armatures_of_the_joints_after_it():
    """The weld becomes a link without velocity, in front of a joint with an armature."""
    rng = np.random.default_rng(8)
    model = tb.load("panda")
    values = values_of(model, ["hand_mount.rotation", "hand_mount.translation"], rng, size=0.1)
    values |= {"finger.armature": 0.3, "other_finger.armature": 0.2, "hand.mass": 1.5}
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    expected = tb.forward_dynamics(tb.with_parameters(model, values), q, v, tau)
    found = tb.forward_dynamics(model, q, v, tau, parameters=values)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.usefixtures("interpreted")
def test_geometry_in_water_of_a_robot_with_a_floating_base():
    """Hydrodynamic coefficients belong to bodies, wherever these are put."""
    rng = np.random.default_rng(5)
    model = random_tree(5, 4, ("revolute", "fixed", "free"))
    bodies = [changed(body, fluid=random_fluid(rng)) for body in model.bodies]
    model = tb.Model("wet", bodies)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(model.nv)
    values = values_of(model, geometry(model), rng)
    sea = tb.Water(1025.0, current=(0.3, -0.1, 0.2))
    expected = tb.forward_dynamics(tb.with_parameters(model, values), q, v, tau, fluid=sea)
    found = tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=values)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_geometry_of_a_robot_on_the_tape():
    """Chains of many bodies are compiled in pieces, which read geometry as well."""
    model = tb.load("chain_100")
    rng = np.random.default_rng(2)
    names = [name for name in geometry(model) if name.endswith(".translation")][:50]
    values = values_of(model, names, rng, size=0.05)
    q, v = model.random_state(rng)
    expected = tb.inverse_dynamics(tb.with_parameters(model, values), q, v, v)
    found = tb.inverse_dynamics(model, q, v, v, parameters=values)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_rotations_are_vectors_or_unit_quaternions():
    model = tb.load("double_pendulum")
    name = f"{model.joint_names[1]}.rotation"
    phi = np.array([0.2, -0.3, 0.1])
    angle = np.linalg.norm(phi)
    quaternion = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * phi / angle])
    q = np.array([0.3, -0.2])
    one, other = (
        tb.forward_kinematics(model, q, parameters={name: x})[0] for x in (phi, quaternion)
    )
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)
    R = np.array(tb.with_parameters(model, {name: phi}).joint(model.joint_names[1]).pose.rotation)
    np.testing.assert_allclose(
        R, np.array(tb.Pose.from_quaternion(quaternion).rotation), atol=1e-15
    )
    batch = np.stack([quaternion, -quaternion, [1.0, 0.0, 0.0, 0.0]])
    turned = tb.forward_kinematics(model, q, parameters={name: batch})[0]
    np.testing.assert_allclose(turned[0], turned[1], rtol=0, atol=1e-15)
    with pytest.raises(tb.ModelError, match=r"or unit quaternions.*got a quaternion of length 2;"):
        tb.forward_kinematics(model, q, parameters={name: 2.0 * quaternion})


def test_bad_geometry_is_refused():
    """By name: unknown ones, shapes, numbers that are not finite, tables, kernels without it."""
    model = tb.load("double_pendulum")
    joint, q = model.joint_names[1], np.array([0.3, -0.2])
    name = f"{joint}.translation"
    with pytest.raises(tb.UnknownNameError, match=f"did you mean '{name}'"):
        tb.forward_kinematics(model, q, parameters={f"{joint}.translatoin": (0, 0, 1)})
    with pytest.raises(
        tb.ShapeError, match=r"shape \(3,\), or \(cases, \*\(3,\)\), got shape \(2,"
    ):
        tb.forward_kinematics(model, q, parameters={name: (0.0, 1.0)})
    with pytest.raises(tb.NonFiniteError, match=name):
        tb.forward_kinematics(model, q, parameters={name: (0.0, np.nan, 1.0)})
    with pytest.raises(tb.ModelError, match="that of a parameter table"):
        tb.forward_kinematics(model, q, parameters={"geometry": np.zeros(3)})
    kernel = tb.compile(tb.forward_kinematics, model, parameters=f"{joint}.rotation")
    with pytest.raises(tb.ModelError, match="expected a name that the kernel was compiled for"):
        kernel(q, parameters={name: (0.0, 0.0, 1.0)})
    with pytest.raises(tb.ShapeError, match="a robot has one value"):
        tb.with_parameters(model, {name: np.zeros((2, 3))})
    with pytest.raises(tb.UnknownNameError, match="gravity"):
        tb.with_parameters(model, {"world.gravity": (0, 0, 1)})


def test_frames_with_the_name_of_a_joint_have_their_kind_in_front():
    hinge = tb.Revolute("elbow", (0, 0, 1), pose=tb.Pose(translation=(1.0, 0, 0)))
    body = tb.Body("arm", joint=hinge, inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    frame = tb.Frame("elbow", "arm", tb.Pose(translation=(0, 2.0, 0)))
    model = tb.Model("named twice", [body], [frame])
    known = tb.parameters(model)
    assert known["elbow.translation"].value == (1.0, 0.0, 0.0)
    assert known["frame elbow.translation"].value == (0.0, 2.0, 0.0)
    moved = {"frame elbow.translation": (0.0, 3.0, 0.0)}
    _, p = tb.forward_kinematics(model, [0.0], "elbow", parameters=moved)
    assert np.allclose(p, (1.0, 3.0, 0.0), rtol=0, atol=1e-15)


def test_code_without_geometry_is_as_it_was_and_robots_travel():
    """The compiled-in robot has no such input; a kernel with it is pickled."""
    model = tb.load("panda")
    assert "geometry" not in tb.compile(tb.forward_dynamics, model).__self__.parameters
    name = "joint_4.translation"
    kernel = tb.compile(tb.forward_kinematics, model, frames="tool", parameters=name)
    q = model.neutral()
    there = pickle.loads(pickle.dumps(kernel))
    value = {name: (0.1, 0.2, 0.3)}
    for one, other in zip(there(q, parameters=value), kernel(q, parameters=value), strict=True):
        assert np.array_equal(one, other)


def test_runs_with_geometry_per_case_are_those_of_robots_built_with_it():
    """Rows, energies and poses of bodies; a part of the run is drawn with its own geometry."""
    rng = np.random.default_rng(1)
    model = tb.load("double_pendulum")
    names = [name for name in geometry(model) if name.split(".")[0] in model.joint_names]
    cases = 3
    values = values_of(model, names, rng, size=0.1, lead=(cases,))
    q = rng.uniform(-1.0, 1.0, (cases, model.nq))
    run = tb.simulate(model, 0.2, q=q, parameters=values, method=tb.RK4(dt=0.01))
    for k in range(cases):
        built = tb.with_parameters(model, {name: x[k] for name, x in values.items()})
        alone = tb.simulate(built, 0.2, q=q[k], method=tb.RK4(dt=0.01))
        for quantity in ("joint_position", "total_energy", "body_position"):
            expected = alone.get(quantity).values
            np.testing.assert_allclose(
                run.get(quantity).values[:, k],
                expected,
                rtol=0,
                atol=1e-12 * np.abs(expected).max(),
            )
    assert "geometry" in run.header.case_parameters
    with pytest.raises(
        tb.ModelError, match=r"got one per case; take one of them: run.part\(case=0"
    ):
        run.save_html("never.html")
    assert run._repr_html_()
    from tiburon.results.quantities import shown_model

    built = tb.with_parameters(model, {name: x[1] for name, x in values.items()})
    assert shown_model(run.part(case=1)) == built


def test_runs_refuse_what_would_take_the_geometry_of_the_robot_itself():
    model = tb.load("stewart")
    name = "leg_1_head.second.translation"
    value = {name: np.array(tb.parameters(model)[name].value)}
    with pytest.raises(tb.ModelError, match=f"'{name}'.*does not go with loops="):
        tb.simulate(model, 0.1, parameters=value, loops=tb.Embedding())
    q = model.neutral()
    with pytest.raises(tb.ModelError, match=r"geometry is constant.*use method='augmented'"):
        tb.loop_dynamics(
            model, q, 0 * q[: model.nv], q[: model.nv], method="denoc", parameters=value
        )


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_derivatives_by_parameters_are_differences_between_robots(seed):
    """Central differences by geometry and masses; all results, batches."""
    rng = np.random.default_rng(seed)
    model = tree(seed)
    names = [*rng.permutation(geometry(model))[:4].tolist(), "weld.mass", "link.center_of_mass.y"]
    functions = [tb.forward_dynamics, tb.forward_kinematics]
    kernel = tb.compile(functions, model, parameters=names)
    q, v = model.random_state(rng, (2,))
    tau = rng.standard_normal((2, model.nv))
    at = values_of(model, names[:4], rng)
    found = tb.parameter_derivatives(kernel, q, v, tau, parameters=at)
    assert list(found) == names
    known = tb.parameters(model)
    # error of central differences of numbers of size 1: h^2 and 1e-16 / h
    h, rounding = 1e-5, 1e-7
    for name in names:
        shape = known[name].shape if name in known else ()
        for place in np.ndindex(shape):
            sides = []
            for sign in (1.0, -1.0):
                whole = name if name in known else name.rpartition(".")[0]
                value = np.array(at.get(whole, known[whole].value), dtype=np.float64)
                value[place if name in known else 1] += sign * h
                # which are those of robots built with them, see above
                sides.append(kernel(q, v, tau, parameters={**at, whole: value}))
            for ours, up, down in zip(found[name], *sides, strict=True):
                expected = (up - down) / (2.0 * h)
                assert ours.shape == (*expected.shape, *shape)
                size = max(1.0, np.abs(expected).max())
                np.testing.assert_allclose(
                    ours[(..., *place)], expected, rtol=0, atol=rounding * size
                )
    part = tb.parameter_derivatives(kernel, q[0], v[0], tau[0], parameters=at, by=names[0])
    assert list(part) == [names[0]]
    for one, other in zip(part[names[0]], found[names[0]], strict=True):
        np.testing.assert_allclose(one, other[0], rtol=0, atol=1e-13 * np.abs(other).max())


def test_derivatives_by_parameters_refuse_other_kernels_and_names():
    model = tb.load("double_pendulum")
    kernel = tb.compile(tb.mass_matrix, model)
    with pytest.raises(tb.ModelError, match="that was compiled with parameters=names"):
        tb.parameter_derivatives(kernel, model.neutral())
    name = f"{model.joint_names[1]}.translation"
    kernel = tb.compile(tb.mass_matrix, model, parameters=name)
    with pytest.raises(tb.ShapeError, match=r"arrays: expected 1 \(q\), got 0"):
        tb.parameter_derivatives(kernel)
    with pytest.raises(tb.UnknownNameError, match=r"parameter of the kernel 'world.gravity'"):
        tb.parameter_derivatives(kernel, model.neutral(), by="world.gravity")
    with pytest.raises(tb.ModelError, match="expected one value for all cases, got shape"):
        tb.parameter_derivatives(kernel, model.neutral(), parameters={name: np.zeros((2, 3))})


def test_derivatives_by_added_mass_are_those_by_its_components():
    """Mirrored entries change together; the matrix as a whole has no such derivative."""
    rng = np.random.default_rng(4)
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(2.0, (0.1, 0.2, 0.3)),
        fluid=tb.BodyFluid(added_mass=np.diag([0.1, 0.2, 0.3, 4.0, 5.0, 6.0])),
    )
    model = tb.Model("float", [hull])
    kernel = tb.compile(
        tb.forward_dynamics, model, fluid=tb.Water(), parameters=["hull.added_mass"]
    )
    q, v = model.random_state(rng)
    tau = rng.standard_normal(6)
    with pytest.raises(tb.ModelError, match=r"expected components of 'hull.added_mass'"):
        tb.parameter_derivatives(kernel, q, v, tau)
    name, h = "hull.added_mass.wy_vz", 1e-4
    found = tb.parameter_derivatives(kernel, q, v, tau, by=name)[name]
    up, down = (kernel(q, v, tau, parameters={name: x}) for x in (h, -h))
    np.testing.assert_allclose(found, (up - down) / (2.0 * h), rtol=0, atol=1e-7)


@pytest.mark.parametrize("most_native", [64, 0])
def test_impacts_of_other_geometry_are_those_of_robots_built_with_it(most_native, monkeypatch):
    """Gaps, and what overlaps, are those of each case; by sweeps, and solved exactly."""
    monkeypatch.setattr("tiburon.functions.contact.MOST_NATIVE", most_native)
    hull = tb.Body("hull", joint=tb.Free("float"), inertia=tb.Inertia.box(5.0, (0.3, 0.2, 0.1)))
    hip = tb.Revolute("hip", (0, 1, 0), pose=tb.Pose(translation=(0.2, 0, -0.1)))
    leg = tb.Body("leg", "hull", joint=hip, inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.2)))
    ankle = tb.Fixed("ankle", pose=tb.Pose(translation=(0, 0, -0.2)))
    shoe = tb.Body("shoe", "leg", joint=ankle, inertia=tb.Inertia.box(0.2, (0.1, 0.1, 0.1)))
    points = [tb.ContactPoint("toe", "shoe", (0.05, 0, 0)), tb.ContactPoint("belly", "hull")]
    model = tb.Model("hopper", [hull, leg, shoe], contacts=points)
    floor = tb.World(ground=tb.Ground(static_friction=0.6, restitution=0.3))
    values = {"ankle.translation.z": np.array([-0.3, -0.1, -0.2]), "hip.rotation.x": 0.2}
    built = [
        tb.with_parameters(
            model, {"ankle.translation.z": z, "hip.rotation.x": values["hip.rotation.x"]}
        )
        for z in values["ankle.translation.z"]
    ]
    q = np.tile(model.neutral(), (3, 1))
    height = model.slice("float").stop - 1
    for k, robot in enumerate(built):
        q[k, height] -= tb.contacts(robot, q[k], world=floor).gap.min()
    v = np.array([0.1, 0.2, -0.1, 0.3, 0.0, -1.5, 0.4])
    found = tb.impact(model, q, v, world=floor, parameters=values)
    for k, robot in enumerate(built):
        expected = tb.impact(robot, q[k], v, world=floor)
        assert expected.impulses[0, 2] > 1.0
        np.testing.assert_allclose(found.v[k], expected.v, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.impulses[k], expected.impulses, rtol=0, atol=1e-12)
    # what the first robot touches, the second would not reach
    with pytest.raises(tb.DomainError, match=r"contact 'toe'.*got a penetration of 0.202 m"):
        tb.impact(model, q[1], v, world=floor, parameters={"ankle.translation.z": -0.3})


def moved_arm(center):
    """Return a link on a slide that time moves, with a center of mass."""
    carriage = tb.Prismatic("rail", (0.6, 0.0, 0.8))
    hinge = tb.Revolute("hinge", (0, 1, 0))
    joint = tb.Driven("base", carriage, tb.Harmonic(0.4, 0.7, 0.3, 0.2), carried=hinge)
    return tb.Model("moved", [tb.Body("link", joint=joint, inertia=tb.Inertia.point(1.3, center))])


def test_derivatives_by_parameters_are_at_the_time_that_is_given():
    """Each case of a batch at its own time, against robots that are built apart."""
    center, name, h = np.array([0.3, 0.1, -0.2]), "link.center_of_mass", 1e-5
    kernel = tb.compile(tb.forward_dynamics, moved_arm(center), parameters=[name])
    times = np.array([0.0, 0.3, 1.1])
    state = [np.array([x]) for x in (0.1, 0.2, 0.3)]
    found = tb.parameter_derivatives(kernel, *state, time=times)[name]
    assert found.shape == (3, 1, 3)
    for k in range(3):
        sides = [moved_arm(center + sign * h * np.eye(3)[k]) for sign in (1.0, -1.0)]
        up, down = (tb.forward_dynamics(m, *state, time=times) for m in sides)
        # error of central differences of numbers of size 10
        np.testing.assert_allclose(found[..., k], (up - down) / (2 * h), rtol=0, atol=1e-6)
    one = tb.parameter_derivatives(kernel, *state, time=0.3)[name]
    np.testing.assert_allclose(one, found[1], rtol=1e-13)
    assert np.abs(found[1] - found[0]).max() > 1.0


def test_derivatives_by_parameters_refuse_a_time_that_changes_nothing():
    model = tb.load("double_pendulum")
    kernel = tb.compile(tb.mass_matrix, model, parameters=f"{model.body_names[0]}.mass")
    with pytest.raises(tb.ModelError, match=r"time: expected none, because nothing in kernel"):
        tb.parameter_derivatives(kernel, model.neutral(), time=0.3)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_derivatives_of_scalars_by_parameters_are_differences(batch):
    """A scalar result has no dimensions: the derivative has those of batch and parameter."""
    model = tree(3)
    names = ["link.mass", "swing.translation"]
    functions = [tb.kinetic_energy, tb.forward_dynamics]
    kernel = tb.compile(functions, model, parameters=names)
    rng = np.random.default_rng(9)
    q, v = model.random_state(rng, batch)
    tau = rng.standard_normal((*batch, model.nv))
    known, h = tb.parameters(model), 1e-5
    found = tb.parameter_derivatives(kernel, q, v, tau)
    alone = tb.compile(tb.kinetic_energy, model, parameters=names)
    for name in names:
        shape = known[name].shape
        energy, motion = found[name]
        assert energy.shape == (*batch, *shape)
        assert motion.shape == (*batch, model.nv, *shape)
        np.testing.assert_allclose(tb.parameter_derivatives(alone, q, v)[name], energy, rtol=1e-12)
        for place in np.ndindex(shape):
            sides = []
            for sign in (1.0, -1.0):
                value = np.array(known[name].value, dtype=np.float64)
                value[place] += sign * h
                sides.append(np.asarray(alone(q, v, parameters={name: value})))
            expected = (sides[0] - sides[1]) / (2.0 * h)
            size = max(1.0, np.abs(sides[0]).max())
            # error of central differences: 1e-16 / h of the energy
            np.testing.assert_allclose(energy[(..., *place)], expected, rtol=0, atol=1e-8 * size)
