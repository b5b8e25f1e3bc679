"""Numbers by name in functions of dynamics and kernels: a batch is a loop over models."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import random_fluid
from tests.model.samples import random_inertia, random_tree

CASES = 4
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 5))]
JOINTS = ("revolute", "prismatic", "universal", "fixed", "free")


def wet_tree(seed):
    """Return a random tree of which some bodies have water numbers, and one none."""
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, 4, JOINTS)
    bodies = [
        replace(body, fluid=random_fluid(rng)) if k % 3 != 2 else body
        for k, body in enumerate(tree.bodies)
    ]
    return tb.Model(tree.name, bodies, tree.frames)


def with_body(model, name, **fields):
    """Return a model with other fields of one body."""
    bodies = [replace(b, **fields) if b.name == name else b for b in model.bodies]
    return tb.Model(model.name, bodies, model.frames, loops=model.loops)


def states(model, rng, count=CASES):
    """Return kicked states and forces."""
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(count)), strict=True))
    return q, v, rng.standard_normal((count, model.nv))


def close(ours, expected):
    """Compare sums of the same terms in another order: some hundred roundings."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-11 * max(1.0, abs(expected).max()))


def moving_bodies(model):
    return [b.name for b in model.bodies if model.plan.frame(b.name).body >= 0]


SEAS = [
    tb.Water(1000.0, (0.0, 0.3, 0.0)),
    tb.Water(0.0),
    tb.Water(1025.0, (0.1, 0.0, 0.0)),
    tb.Water(1030.0, (0.0, 0.0, -0.5)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_water_parameters_vary_per_case(seed):
    """Zeros in different places: a list, arrays in one Water, and names are the same."""
    model = wet_tree(seed)
    q, v, tau = states(model, np.random.default_rng(seed))
    expected = np.array(
        [tb.forward_dynamics(model, q[k], v[k], tau[k], fluid=sea) for k, sea in enumerate(SEAS)]
    )
    density = np.array([sea.density for sea in SEAS])
    current = np.array([sea.current for sea in SEAS])
    one = tb.Water(density, current)
    named = {"fluid.density": density, "fluid.current": current}
    close(tb.forward_dynamics(model, q, v, tau, fluid=SEAS), expected)
    close(tb.forward_dynamics(model, q, v, tau, fluid=one), expected)
    close(tb.forward_dynamics(model, q, v, tau, world=tb.World(fluid=SEAS)), expected)
    close(tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(), parameters=named), expected)
    # components by themselves
    axes = {f"fluid.current.{axis}": current[:, k] for k, axis in enumerate("xyz")}
    axes["fluid.density"] = density
    close(tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(), parameters=axes), expected)
    kernel = tb.compile(tb.forward_dynamics, model, fluid=tb.Water(), parameters=list(named))
    close(kernel(q, v, tau, parameters=named), expected)
    close(pickle.loads(pickle.dumps(kernel))(q, v, tau, parameters=named), expected)
    # one value for all cases, bound
    second = kernel.__self__.with_parameters(
        parameters={"fluid.density": 1030.0, "fluid.current": (0.0, 0.0, -0.5)}
    )
    close(second(q[3], v[3], tau[3]), expected[3])


@pytest.mark.parametrize("seed", SEEDS)
def test_body_parameters_vary_per_case(seed):
    """Mass, center of mass, tensor, armature and water numbers, of two bodies at once."""
    rng = np.random.default_rng(100 + seed)
    model = wet_tree(seed)
    names = moving_bodies(model)
    first, second = names[0], names[-1]
    # zero in the model: the center of mass, and all that water knows of the second body
    model = with_body(model, first, inertia=tb.Inertia.box(2.0, (0.3, 0.2, 0.1)))
    joint = next(j.name for j in model.joints if j.dof == 1)
    base = model.joint(joint)
    mass = rng.uniform(1.0, 3.0, CASES)
    com = rng.standard_normal((CASES, 3))
    tensor = np.array([random_inertia(rng).tensor for _ in range(CASES)])
    volume = np.array([0.0, 1e-3, 2e-3, 5e-4])
    buoyancy = rng.standard_normal((CASES, 3))
    armature = np.array([0.0, 0.1, 0.2, 0.05])
    drag = np.array([np.diag(rng.uniform(0.0, 2.0, 6)) for _ in range(CASES)])
    named = {
        f"{first}.mass": mass,
        f"{first}.center_of_mass": com,
        f"{first}.inertia": tensor,
        f"{second}.mass": 2.0 * mass,
        f"{second}.volume": volume,
        f"{second}.center_of_buoyancy": buoyancy,
        f"{second}.linear_damping": drag,
        f"{joint}.armature": armature,
    }
    q, v, tau = states(model, rng)
    sea = tb.Water(1000.0, (0.2, 0.0, -0.1))
    ours = tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=named)
    forces = tb.inverse_dynamics(model, q, v, tau, fluid=sea, parameters=named)
    for k in range(CASES):
        one = with_body(model, first, inertia=tb.Inertia(mass[k], com[k], tensor[k]))
        body = one.body(second)
        fluid = replace(
            body.fluid or tb.BodyFluid(),
            volume=volume[k],
            center_of_buoyancy=buoyancy[k],
            linear_damping=drag[k],
        )
        inertia = replace(body.inertia, mass=2.0 * mass[k])
        one = with_body(one, second, fluid=fluid, inertia=inertia)
        held = next(b for b in one.bodies if b.joint.name == joint)
        one = with_body(one, held.name, joint=replace(base, armature=armature[k]))
        close(ours[k], tb.forward_dynamics(one, q[k], v[k], tau[k], fluid=sea))
        close(forces[k], tb.inverse_dynamics(one, q[k], v[k], tau[k], fluid=sea))


def test_parameters_of_bodies_without_coefficients_can_be_set():
    """A massless camera on a fixed joint, without water numbers, in water that moves apart."""
    arm = tb.Body(
        "arm",
        joint=tb.Revolute("j", (0, 1, 0)),
        inertia=tb.Inertia.box(2.0, (0.1, 0.2, 0.8)),
        fluid=tb.BodyFluid(volume=1e-3),
    )
    pose = tb.Pose(translation=(0.1, 0.2, -0.9))
    camera = tb.Body("camera", "arm", joint=tb.Fixed("bolt", pose=pose))
    model = tb.Model("m", [arm, camera])
    sea = tb.Water(current=tb.LinearShear((0.5, 0.0, 0.0), 20.0))
    q, v, tau = np.full((3, 1), 0.4), np.full((3, 1), -0.8), np.zeros((3, 1))
    masses, volumes = np.array([0.0, 0.5, 1.0]), np.array([2e-3, 0.0, 1e-3])
    named = {"camera.mass": masses, "camera.volume": volumes}
    ours = tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=named)
    for k in range(3):
        seen = replace(
            camera, inertia=tb.Inertia.point(masses[k]), fluid=tb.BodyFluid(volume=volumes[k])
        )
        one = tb.Model("m", [arm, seen])
        close(ours[k], tb.forward_dynamics(one, q[k], v[k], tau[k], fluid=sea))


def test_currents_of_other_kinds():
    """Tides whose amplitude and phase differ, some of them zero; by list and by name."""
    model = wet_tree(1)
    rng = np.random.default_rng(5)
    q, v, tau = states(model, rng, 3)
    tides = [
        tb.Tide((0.3, 0.0, 0.0), 60.0),
        tb.Tide((0.0, 0.2, 0.0), 60.0, phase=0.4),
        tb.Tide((0.0, 0.0, 0.0), 60.0, mean=(0.0, 0.0, 0.1)),
    ]
    seas = [tb.Water(1000.0, tide) for tide in tides]
    at = {"time": 7.0}
    expected = [
        tb.forward_dynamics(model, q[k], v[k], tau[k], fluid=sea, **at)
        for k, sea in enumerate(seas)
    ]
    close(tb.forward_dynamics(model, q, v, tau, fluid=seas, **at), expected)
    named = {
        f"fluid.current.{word}": np.array([getattr(tide, word) for tide in tides])
        for word in ("amplitude", "phase", "mean")
    }
    still = tb.Water(1000.0, tb.Tide((0.0, 0.0, 0.0), 60.0))
    close(tb.forward_dynamics(model, q, v, tau, fluid=still, parameters=named, **at), expected)


def test_levels_of_surfaces_and_gravity():
    """A float at different levels of the surface, on other planets; a surface is level there."""
    hull = tb.Body(
        "hull",
        joint=tb.Free("float"),
        inertia=tb.Inertia.sphere(200.0, 0.5),
        shapes=[tb.Shape(tb.SphereShape(0.5))],
        fluid=tb.BodyFluid(volume=4.0 / 3.0 * np.pi * 0.125),
    )
    model = tb.Model("float", [hull])
    q, v, tau = states(model, np.random.default_rng(2), 3)
    q[:, 4:] = (0.0, 0.0, 0.1)
    levels, gravity = np.array([-0.2, 0.0, 0.3]), np.array([[0, 0, -9.81], [0, 0, 0], [0, 0, -1.6]])
    named = {"fluid.surface": levels, "world.gravity": gravity}
    sea = tb.Water(1000.0, surface=0.0)
    ours = tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=named)
    for k in range(3):
        world = tb.World(gravity[k], fluid=tb.Water(1000.0, surface=levels[k]))
        close(ours[k], tb.forward_dynamics(model, q[k], v[k], tau[k], world=world))
    named["world.gravity"] = np.array([[0, 0, -9.81], [0, 0, -9.81], [1.0, 0, 0]])
    with pytest.raises(tb.ModelError, match="case 2: world: gravity must point along -z"):
        tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=named)


def test_shapes_and_fins_have_names():
    """Coefficients of drag, and angles of fins that are zero in the model."""
    fluid = tb.BodyFluid(
        volume=1e-2,
        drag=[tb.CylinderDrag(0.1, 1.0, side_coefficient=0.0, end_coefficients=(0.5, 0.2))],
        fins=[tb.Fin(0.02, 3.0, (-0.7, 0.1, 0.0), deflection=0.0)],
    )
    hull = tb.Body(
        "hull", joint=tb.Free("f"), inertia=tb.Inertia.box(10.0, (1, 0.2, 0.2)), fluid=fluid
    )
    model, sea = tb.Model("m", [hull]), tb.Water(1000.0, (0.3, 0.2, 0.0))
    named = {
        "hull.drag.0.side_coefficient": np.array([0.0, 1.1]),
        "hull.fins.0.deflection": np.array([0.1, -0.2]),
    }
    q, v, tau = states(model, np.random.default_rng(3), 2)
    ours = tb.forward_dynamics(model, q, v, tau, fluid=sea, parameters=named)
    for k in range(2):
        side, angle = (values[k] for values in named.values())
        own = replace(
            fluid,
            drag=[replace(fluid.drag[0], side_coefficient=side)],
            fins=[replace(fluid.fins[0], deflection=angle)],
        )
        one = tb.Model("m", [replace(hull, fluid=own)])
        close(ours[k], tb.forward_dynamics(one, q[k], v[k], tau[k], fluid=sea))


def test_named_parameters_inside_a_user_function():
    """The library uses the parameters of the case in every function."""

    def weight(model, q):
        return tb.gravity_force(model, q)

    arm = tb.load("double_pendulum")
    name = arm.bodies[0].name
    kernel = tb.compile(weight, arm, parameters=f"{name}.center_of_mass.y")
    q, y = np.array([0.3, -0.4]), np.array([0.0, 0.2])
    ours = kernel(q, parameters={f"{name}.center_of_mass.y": y})
    for k in range(2):
        inertia = arm.bodies[0].inertia
        com = (inertia.com[0], y[k], inertia.com[2])
        one = with_body(arm, name, inertia=replace(inertia, com=com))
        close(ours[k], tb.gravity_force(one, q))


def test_named_parameters_compile_once():
    """Other values, zeros among them, run the code of the first call."""
    model = wet_tree(2)
    q, v, tau = states(model, np.random.default_rng(1), 2)
    name = moving_bodies(model)[0]

    def run(com, current):
        named = {f"{name}.center_of_mass": com, "fluid.current": current}
        return tb.forward_dynamics(model, q, v, tau, fluid=tb.Water(), parameters=named)

    run(np.ones((2, 3)), np.ones((2, 3)))
    kernel = tb.compile(
        tb.forward_dynamics,
        model,
        fluid=tb.Water(1000.0, (0.0, 1.0, 0.0)),
        parameters=(f"{name}.center_of_mass", "fluid.current"),
    )
    other = tb.compile(
        tb.forward_dynamics,
        model,
        fluid=tb.Water(),
        parameters=("fluid.current", f"{name}.center_of_mass"),
    )
    assert kernel.__self__.source.key == other.__self__.source.key
    assert (
        kernel.__self__.source.key
        != tb.compile(tb.forward_dynamics, model, fluid=tb.Water()).__self__.source.key
    )
    assert np.isfinite(run(np.zeros((2, 3)), np.zeros(3))).all()


BALL = tb.Inertia.sphere(1.0, 0.1)


def one_link():
    return tb.Model("m", [tb.Body("arm", joint=tb.Revolute("j", (0, 1, 0)), inertia=BALL)])


@pytest.mark.parametrize(
    ("named", "error", "words"),
    [
        (
            {"arm.mass": [1.0, -2.0]},
            tb.ModelError,
            "parameters, case 1: body 'arm', inertia: mass must be",
        ),
        (
            {"arm.inertia": [[1, 0, 0, 1, 0, 1], [1, 0, 0, 1, 0, 5]]},
            tb.ModelError,
            "case 1: body 'arm': principal moments of inertia must obey the triangle",
        ),
        ({"arm.mass": [1.0, 0.0]}, tb.ModelError, "case 1: body 'arm': a massless body cannot"),
        ({"arm.mass": [1.0, np.nan]}, tb.NonFiniteError, r"parameters\['arm.mass'\].*index \(1,\)"),
        ({"j.armature": [0.0, -1.0]}, tb.ModelError, "case 1: joint 'j': armature must be at"),
        ({"fluid.density": 1000.0}, tb.UnknownNameError, "unknown parameter 'fluid.density'"),
        ({"arm.mas": 1.0}, tb.UnknownNameError, "did you mean 'arm.mass'.*parameters.model"),
        ({"inertia": np.ones((2, 4))}, tb.ModelError, r"parameters\['inertia'\]: expected the na"),
        ({"arm.center_of_mass": [1.0, 2.0]}, tb.ShapeError, r"center_of_mass.*shape \(3,\)"),
        ({"arm.mass": "heavy"}, tb.ShapeError, r"parameters\['arm.mass'\]: expected one value"),
        ({"arm.mass": [1.0, 2.0, 3.0]}, tb.ShapeError, "the same number of cases"),
        (
            {"arm.mass": [1.0, 2.0, 3.0], "arm.center_of_mass": np.zeros((2, 3))},
            tb.ModelError,
            "as many cases in each",
        ),
        ([1.0, 2.0], tb.ModelError, "parameters: expected values by name, got list"),
    ],
)
def test_parameter_values_are_checked_as_in_a_model(named, error, words):
    """Before anything runs; messages name parameter and case."""
    q, v = np.array([[0.1], [0.2]]), np.zeros((2, 1))
    with pytest.raises(error, match=words):
        tb.forward_dynamics(one_link(), q, v, v, parameters=named)


def test_water_parameters_are_checked():
    """Of each case, and cases as many as there are."""
    model = tb.load("bluerov2_heavy")
    q, v = np.tile(model.neutral(), (2, 1)), np.zeros((2, model.nv))
    with pytest.raises(tb.ModelError, match="case 1: water: density must be at least 0, got -1"):
        tb.forward_dynamics(
            model, q, v, v, fluid=tb.Water(), parameters={"fluid.density": [1.0, -1.0]}
        )
    with pytest.raises(tb.ModelError, match=r"water: density\[1\] must be at least 0"):
        tb.Water(density=[1.0, -1.0])
    with pytest.raises(tb.ModelError, match="cases, got 2 of density, 3 of current"):
        tb.Water(density=[1.0, 1.0], current=np.zeros((3, 3)))
    with pytest.raises(tb.ModelError, match="case 0: body fluid: volume must be at least 0"):
        tb.forward_dynamics(
            model, q, v, v, fluid=tb.Water(), parameters={"hull.volume": [-1.0, 1.0]}
        )
    with pytest.raises(tb.ShapeError, match=r"fluid \(3,\)"):
        tb.forward_dynamics(model, q, v, v, fluid=[tb.Water()] * 3)
    with pytest.raises(tb.ModelError, match=r"fluid\[1\]: expected a current of the same type"):
        tb.forward_dynamics(
            model, q, v, v, fluid=[tb.Water(), tb.Water(current=tb.Tide((1, 0, 0), 9.0))]
        )
    with pytest.raises(tb.ModelError, match=r"fluid\[1\]: expected water that differs"):
        tb.forward_dynamics(model, q, v, v, fluid=[tb.Water(), tb.Water(strips=2)])
    with pytest.raises(tb.ModelError, match="expected the water of one case, got 2 cases"):
        tb.compile(tb.forward_dynamics, model, fluid=[tb.Water(), tb.Water()])


def test_kernels_take_values_by_name_alone():
    """Tables of numbers without their zeros meant something else in each robot."""
    model = one_link()
    kernel = tb.compile(tb.forward_dynamics, model, parameters="arm.mass")
    x = np.array([0.1])
    with pytest.raises(tb.ModelError, match="gravity: expected values by name, got a table"):
        kernel(x, x, x, gravity=[-1.62])
    with pytest.raises(tb.ModelError, match="inertia: expected values by name"):
        kernel.__self__.with_parameters(inertia=[1.0])
    with pytest.raises(tb.ModelError, match=r"parameters\['arm.inertia'\].*compiled for"):
        kernel(x, x, x, parameters={"arm.inertia": [1.0, 0, 0, 1.0, 0, 1.0]})
    with pytest.raises(tb.UnknownNameError, match=r"did you mean 'arm\.mass'"):
        tb.compile(tb.forward_dynamics, model, parameters="arm.mas")


def test_named_parameters_do_not_change_model_equality():
    """Only code differs: users never meet the difference."""
    model = one_link()
    kernel = tb.compile(tb.forward_dynamics, model, parameters="arm.center_of_mass")
    inner = kernel.__self__.source.model
    assert inner == model
    assert len(inner.plan.parameter_names) > len(model.plan.parameter_names)
    assert tb.Water(1000.0).at_run_time() == tb.Water(1000.0)


FUNCTIONS = {
    "mass_matrix": lambda m, q, v, tau, **k: tb.mass_matrix(m, q, **k),
    "kinetic_energy": lambda m, q, v, tau, **k: tb.kinetic_energy(m, q, v, **k),
    "potential_energy": lambda m, q, v, tau, **k: tb.potential_energy(m, q, **k),
    "coriolis_matrix": lambda m, q, v, tau, **k: tb.coriolis_matrix(m, q, v, **k),
    "bias_force": lambda m, q, v, tau, **k: tb.bias_force(m, q, v, **k),
    "momentum": lambda m, q, v, tau, **k: tb.momentum(m, q, v, **k),
    "joint_reactions": lambda m, q, v, tau, **k: tb.joint_reactions(m, q, v, tau, **k).bearing,
    "derivatives": lambda m, q, v, tau, **k: (
        tb.forward_dynamics_derivatives(m, q, v, tau, **k).by_v
    ),
    "linearize": lambda m, q, v, tau, **k: tb.linearize(m, q, v, tau, **k).A,
    "prepared": lambda m, q, v, tau, **k: tb.prepare_dynamics(m, q, v, **k).accelerations(tau),
    "fossen_form": lambda m, q, v, tau, **k: tb.fossen_form(m, q, v, **k).D,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_dynamics_takes_names(name):
    """Also those of several results, in water that differs, on one floating vehicle."""
    rng = np.random.default_rng(7)
    hull = tb.Body(
        "hull",
        joint=tb.Free("f"),
        inertia=tb.Inertia.box(8.0, (1, 0.3, 0.2)),
        fluid=random_fluid(rng),
    )
    pose = tb.Pose(translation=(0.5, 0.0, 0.0))
    arm = tb.Body(
        "arm", "hull", joint=tb.Revolute("j", (0, 1, 0), pose=pose), inertia=random_inertia(rng)
    )
    model = tb.Model("m", [hull, arm])
    q, v, tau = states(model, rng)
    mass, com = np.array([8.0, 9.0, 10.0, 11.0]), np.array(np.diag([0.1, 0.2, 0.3, 0.0])[:, :3])
    named = {"hull.mass": mass, "hull.center_of_mass": com}
    ask = FUNCTIONS[name]
    ours = ask(model, q, v, tau, fluid=SEAS, parameters=named)
    for k in range(CASES):
        inertia = replace(hull.inertia, mass=mass[k], com=com[k])
        one = tb.Model("m", [replace(hull, inertia=inertia), arm])
        close(ours[k], ask(one, q[k], v[k], tau[k], fluid=SEAS[k]))


def test_masses_enter_the_center_of_mass_and_the_rest_is_refused():
    """Numbers that act in runs alone are refused; those that do not enter leave results alone."""
    model = tb.load("double_pendulum")
    name, q = f"{model.bodies[1].name}.mass", np.array([0.3, -0.2])
    ours = tb.center_of_mass(model, q, parameters={name: [0.5, 2.0]})
    for k, mass in enumerate((0.5, 2.0)):
        inertia = replace(model.bodies[1].inertia, mass=mass)
        close(
            ours[k], tb.center_of_mass(with_body(model, model.bodies[1].name, inertia=inertia), q)
        )
    for ours, own in zip(
        tb.forward_kinematics(model, q, parameters={name: 1.0}),
        tb.forward_kinematics(model, q),
        strict=True,
    ):
        assert np.array_equal(ours, own)
    with pytest.raises(TypeError, match="takes no 'parameters'"):
        tb.trim(model, parameters={name: 1.0})
    damping = {f"{model.joint_names[0]}.damping": 1.0}
    with pytest.raises(tb.UnknownNameError, match="unknown parameter"):
        tb.forward_dynamics(model, q, q, q, parameters=damping)
    with pytest.raises(tb.ModelError, match="trim: fluid: expected the water of one case"):
        tb.trim(tb.load("bluerov2_heavy"), fluid=[tb.Water(), tb.Water()])


def test_accelerations_that_are_known_in_some_cases():
    """NaN stands for what is unknown, in other places in each case, with masses of its own."""
    model = tb.load("double_pendulum")
    body = model.bodies[1]
    mass = np.array([0.5, 1.0, 2.0])
    rng = np.random.default_rng(3)
    q, v, tau, vd = rng.standard_normal((4, 3, 2))
    tau[[0, 2], 0] = np.nan
    vd[[0, 2], 1] = np.nan
    tau[1, 1] = vd[1, 0] = np.nan
    ours = tb.hybrid_dynamics(model, q, v, tau, vd, parameters={f"{body.name}.mass": mass})
    for k in range(3):
        one = with_body(model, body.name, inertia=replace(body.inertia, mass=mass[k]))
        for mine, theirs in zip(
            ours, tb.hybrid_dynamics(one, q[k], v[k], tau[k], vd[k]), strict=True
        ):
            close(mine[k], theirs)
