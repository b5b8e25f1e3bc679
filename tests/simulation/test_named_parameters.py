"""Numbers by name in runs: a batch is a loop over robots, waters, elements and controllers."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.hydro.wet import random_fluid
from tests.integrators import integrator
from tests.model.samples import random_inertia, random_tree

CASES = 2


def close(ours, expected, size=1e-10):
    """Compare runs: a tenth of a second multiplies rounding by less than a hundred."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=size * max(1.0, abs(expected).max()))


def robot(mass=1.0, com=(0.0, 0.0, 0.0), damping=0.0, stiffness=0.0, rest=0.0, friction=0.0):
    """Return an arm of two links with water numbers and a welded tool; zeros by default."""
    rng = np.random.default_rng(8)
    upper = tb.Body(
        "upper",
        joint=tb.Universal("shoulder", (0, 1, 0), (1, 0, 0)),
        inertia=tb.Inertia.box(2.0, (0.1, 0.1, 0.6), com=(0, 0, -0.3)),
        fluid=random_fluid(rng),
    )
    own = tb.JointPassive(damping=damping, stiffness=stiffness, rest=rest, friction=friction)
    passive = own if own != tb.JointPassive() else None
    pose = tb.Pose(translation=(0, 0, -0.6))
    lower = tb.Body(
        "lower",
        "upper",
        joint=tb.Revolute("elbow", (0, 1, 0), pose=pose, passive=passive),
        inertia=tb.Inertia.box(1.0, (0.1, 0.1, 0.4), com=(0, 0, -0.2)),
        fluid=random_fluid(rng),
    )
    tool = tb.Body(
        "tool",
        "lower",
        joint=tb.Fixed("grip", pose=tb.Pose(translation=(0, 0, -0.4))),
        inertia=tb.Inertia(mass, com, tb.Inertia.sphere(1.0, 0.05).tensor),
    )
    return tb.Model("arm", [upper, lower, tool])


START = {"q": (0.4, -0.3, 0.5), "v": (0.3, 0.6, -0.5)}
MASS = np.array([0.5, 2.0])
COM = np.array([(0.02, 0.0, 0.0), (0.0, -0.03, 0.01)])
DAMPING = np.array([0.0, 0.5])
GAINS = np.array([9.0, 0.0])
SEAS = [tb.Water(1000.0, (0.0, 0.3, 0.0)), tb.Water(0.0)]


def test_masses_damping_gains_and_water_are_accepted(tmp_path):
    """All at once, zeros in other places in each case; energies and forces too; saved, resumed."""
    control = tb.PD((0.1, 0.2, 0.0), 0.0, 1.0)
    named = {
        "tool.mass": MASS,
        "tool.center_of_mass": COM,
        "elbow.damping": DAMPING,
        "control.stiffness": GAINS,
    }
    record = ["total_energy", "joint_reaction", "joint_force", "joint_acceleration"]
    options = {"control": control, "record": tb.Record(quantities=record), **START}
    run = tb.simulate(robot(), 0.1, fluid=SEAS, parameters=named, **options)
    assert run.q.shape == (11, CASES, 3)
    half = tb.simulate(robot(), 0.05, fluid=SEAS, parameters=named, **options)
    half.save(tmp_path / "half.zarr")
    again = tb.load_run(tmp_path / "half.zarr").resume(0.05)
    np.testing.assert_array_equal(again.q, run.q)
    for k in range(CASES):
        one = robot(MASS[k], COM[k], DAMPING[k])
        own = replace(control, stiffness=GAINS[k])
        alone = tb.simulate(one, 0.1, fluid=SEAS[k], **{**options, "control": own})
        close(run.q[:, k], alone.q)
        close(run.v[:, k], alone.v)
        close(run.u[:, k], alone.u)
        for name in record:
            close(run.data[name].values[:, k], alone.data[name].values)
            close(again.data[name].values[:, k], alone.data[name].values)


@pytest.mark.parametrize("method", ["dopri5", "rosenbrock"])
@pytest.mark.slow
def test_methods_of_all_kinds(method):
    """Steps that adapt and implicit ones."""
    named = {"tool.mass": MASS, "elbow.damping": DAMPING}
    run = tb.simulate(
        robot(), 0.1, fluid=SEAS, parameters=named, method=integrator(method), **START
    )
    for k in range(CASES):
        alone = tb.simulate(
            robot(MASS[k], damping=DAMPING[k]),
            0.1,
            fluid=SEAS[k],
            method=integrator(method),
            **START,
        )
        # steps are chosen by errors that rounding moves: to within the tolerance
        close(run.q[:, k], alone.q, 1e-10 if method == "rosenbrock" else 1e-6)


def test_springs_and_friction_of_joints_that_have_none():
    """Stiffness, rest and Coulomb friction where the model has no passive forces at all."""
    stiffness, rest, friction = np.array([[0.0, 5.0], [0.1, -0.2], [0.3, 0.0]])
    named = {"elbow.stiffness": stiffness, "elbow.rest": rest, "elbow.friction": friction}
    run = tb.simulate(robot(), 0.1, parameters=named, **START)
    for k in range(CASES):
        one = robot(stiffness=stiffness[k], rest=rest[k], friction=friction[k])
        close(run.q[:, k], tb.simulate(one, 0.1, **START).q)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_in_water(seed):
    """Every moving body has its own mass and center of mass, every joint its damping."""
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, 5, ("revolute", "prismatic", "universal", "spherical", "fixed"))
    bodies = [replace(b, fluid=random_fluid(rng)) for b in tree.bodies]
    model = tb.Model("tree", bodies)
    q, v = model.random_state(rng)
    named, cases = {}, [{} for _ in range(CASES)]
    for body in bodies:
        others = [random_inertia(rng) for _ in range(CASES)]
        if model.plan.frame(body.name).body >= 0:
            named[f"{body.name}.mass"] = np.array([x.mass for x in others])
            named[f"{body.name}.center_of_mass"] = np.array([x.com for x in others])
            named[f"{body.name}.inertia"] = np.array([x.tensor for x in others])
        damping = rng.uniform(0.0, 0.5, (CASES, body.joint.dof))
        damping[0] = 0.0
        if body.joint.dof:
            several = damping if body.joint.dof > 1 else damping[:, 0]
            named[f"{body.joint.name}.damping"] = several
        for k in range(CASES):
            passive = tb.JointPassive(damping=damping[k]) if damping[k].any() else None
            joint = replace(body.joint, passive=passive)
            cases[k][body.name] = replace(body, joint=joint, inertia=others[k])
    # slow enough that drag on light bodies is not stiff
    options = {"q": q, "v": 0.1 * v, "method": tb.RK4(dt=2e-4)}
    run = tb.simulate(model, 0.02, fluid=SEAS, parameters=named, **options)
    for k in range(CASES):
        one = tb.Model("tree", list(cases[k].values()))
        alone = tb.simulate(one, 0.02, fluid=SEAS[k], **options)
        assert alone.status == "finished"
        close(run.q[:, k], alone.q)


def test_robots_with_loops():
    """A four-bar linkage whose coupler, damping and motor differ; forces of its bearings too."""
    bar = tb.load("four_bar")
    body = bar.bodies[-1]
    joint = bar.joints[0].name
    mass, damping = np.array([1.5, 3.0]) * body.inertia.mass, np.array([0.0, 0.4])
    com = np.array(body.inertia.com) + np.array([(0.01, 0, 0), (0, 0.02, 0)])
    named = {
        f"{body.name}.mass": mass,
        f"{body.name}.center_of_mass": com,
        f"{joint}.damping": damping,
    }
    record = ["total_energy", "constraint_singular_value", "joint_reaction"]
    run = tb.simulate(bar, 0.1, parameters=named, record=tb.Record(quantities=record))
    for k in range(CASES):
        bodies = []
        for part in bar.bodies:
            if part.name == body.name:
                inertia = replace(part.inertia, mass=mass[k], com=com[k])
                part = replace(part, inertia=inertia)
            if part.joint.name == joint:
                passive = replace(part.joint.passive or tb.JointPassive(), damping=damping[k])
                part = replace(part, joint=replace(part.joint, passive=passive))
            bodies.append(part)
        parts = bar._parts._replace(bodies=tuple(bodies))
        alone = tb.simulate(
            tb.Model._of(bar.name, parts, bar.about), 0.1, record=tb.Record(quantities=record)
        )
        close(run.q[:, k], alone.q)
        for name in record:
            close(run.data[name].values[:, k], alone.data[name].values, 1e-9)


def test_elements_and_stops():
    """Motors, thrusters, springs, limits; the stiffness of stops follows the masses."""
    motor = tb.Motor(resistance=1.0, torque_constant=0.05, inductance=2e-3)
    limits = tb.JointLimits(-0.2, 0.2)

    def made(mass=2.0, upper=0.2, resistance=1.0, stiffness=30.0, gain=1.0):
        slide = tb.Prismatic("x", axis=(1, 0, 0), limits=replace(limits, upper=upper))
        cart = tb.Body("cart", joint=slide, inertia=tb.Inertia.point(mass))
        drive = tb.Actuator("drive", "x", ratio=20.0, motor=replace(motor, resistance=resistance))
        jet = tb.Thruster("jet", "cart", curve=tb.LinearThrust(gain))
        spring = tb.Spring("rope", "world", "cart", stiffness=stiffness, rest_length=0.05)
        return tb.Model("cart", [cart], actuators=[drive], thrusters=[jet], springs=[spring])

    cases = {
        "cart.mass": (2.0, 3.0),
        "x.upper": (0.2, 0.15),
        "drive.motor.resistance": (1.0, 1.5),
        "rope.stiffness": (0.0, 20.0),
        "jet.curve.gain": (0.5, 2.0),
    }
    options = {"q": [0.1], "v": [2.0], "command": {"drive": 6.0, "jet": 1.0}}
    run = tb.simulate(made(), 0.2, parameters=cases, **options)
    for k in range(2):
        alone = tb.simulate(made(*(values[k] for values in cases.values())), 0.2, **options)
        assert alone.q.max() == pytest.approx(cases["x.upper"][k], abs=2e-8)
        close(run.q[:, k], alone.q)
        close(run.x[:, k], alone.x)


def test_forces_and_functions_of_users():
    """Elements of runs have names; numbers of elements and controllers of users are one array."""

    class Push(tb.Element):
        name = "push"

        def parameters(self):
            return (0.0, 2.0)

        def act(self, now):
            a, b = now.p
            return tb.Action({"elbow": [a - b * now.q[2]]})

    @tb.traced
    def spring(state):
        return -state.p[0] * state.q

    spring.parameters = (3.0,)
    rope = tb.Spring("rope", "world", "lower", stiffness=10.0)
    numbers, stiff = np.array([(0.0, 2.0), (0.5, 0.0)]), np.array([3.0, 6.0])
    named = {"push.parameters": numbers, "control.parameters": stiff[:, None]}
    named["rope.damping"] = np.array([0.0, 4.0])
    run = tb.simulate(
        robot(), 0.1, elements=[Push(), rope], control=spring, parameters=named, **START
    )
    for k in range(2):

        class Own(Push):
            def parameters(self, k=k):
                return tuple(numbers[k])

        def own(state, k=k):
            return -stiff[k] * state.q

        other = replace(rope, damping=named["rope.damping"][k])
        alone = tb.simulate(robot(), 0.1, elements=[Own(), other], control=tb.traced(own), **START)
        close(run.q[:, k], alone.q)


def test_controllers_of_all_kinds():
    """Parts of combined ones, targets by joint name, and models of their own."""
    both = tb.CombinedControl(
        (tb.PD({"elbow": 0.1}, 20.0, 2.0), tb.GravityCompensation(joints=("shoulder",)))
    )
    table = tb.parameters(robot(), control=both)
    assert {"control.0.stiffness", "control.0.target.elbow", "control.1.fraction"} <= set(table)
    named = {
        "control.0.target.elbow": np.array([[0.0], [0.4]]),
        "control.1.fraction": np.array([0.0, 0.9]),
        "tool.mass": np.array([0.5, 2.0]),
    }
    run = tb.simulate(robot(), 0.1, control=both, parameters=named, **START)
    for k, (target, share) in enumerate([(0.0, 0.0), (0.4, 0.9)]):
        own = tb.CombinedControl(
            (tb.PD({"elbow": target}, 20.0, 2.0), replace(both.parts[1], fraction=share))
        )
        alone = tb.simulate(robot(named["tool.mass"][k]), 0.1, control=own, **START)
        close(run.q[:, k], alone.q)


def test_one_value_holds_for_all():
    """Without cases there is no batch; with others given by case, it is one value in each."""
    run = tb.simulate(robot(), 0.05, parameters={"tool.mass": 2.0}, **START)
    alone = tb.simulate(robot(2.0), 0.05, **START)
    assert run.q.shape == alone.q.shape
    close(run.q, alone.q)
    close(run.get("total_energy").values, alone.get("total_energy").values)
    both = {"tool.mass": 2.0, "tool.center_of_mass.x": [0.0, 0.1]}
    run = tb.simulate(robot(), 0.05, parameters=both, **START)
    close(run.q[:, 0], alone.q)
    close(run.q[:, 1], tb.simulate(robot(2.0, (0.1, 0, 0)), 0.05, **START).q)


def test_the_table_lists_names_values_units_and_shapes():
    """What `simulate` takes, and nothing that would do nothing."""
    table = tb.parameters(robot(damping=0.2), fluid=tb.Water(1000.0), control=tb.PD(0.1, 4.0, 1.0))
    assert table["tool.center_of_mass"].shape == (3,)
    assert table["elbow.damping"].value == 0.2
    assert table["fluid.density"].unit == "kg/m^3"
    assert table["control.stiffness"].value == 4.0
    text = str(table)
    assert "upper.center_of_buoyancy" in text
    assert text.splitlines()[0].split() == ["name", "shape", "unit", "value"]
    assert "\n" not in repr(table)
    # every name is taken with the value that it has
    named = {name: item.value for name, item in table.items()}
    run = tb.simulate(
        robot(damping=0.2),
        0.02,
        fluid=tb.Water(1000.0),
        control=tb.PD(0.1, 4.0, 1.0),
        parameters=named,
        **START,
    )
    alone = tb.simulate(
        robot(damping=0.2), 0.02, fluid=tb.Water(1000.0), control=tb.PD(0.1, 4.0, 1.0), **START
    )
    close(run.q, alone.q)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"parameters": {"tool.mass": [1, -1]}},
            tb.ModelError,
            "case 1: body 'tool', inertia: mass must",
        ),
        (
            {"parameters": {"elbow.damping": [0.1, -0.1]}},
            tb.ModelError,
            "case 1: .*damping must be at least 0",
        ),
        ({"parameters": {"elbow.dampin": 1.0}}, tb.UnknownNameError, "did you mean 'elbow.dampi"),
        ({"parameters": {"elements": np.ones(3)}}, tb.ModelError, r"parameters\['elements'\]: exp"),
        ({"parameters": {"control": np.ones(3)}}, tb.ModelError, r"parameters\['control'\]: expec"),
        ({"parameters": {"control.stiffness": 1.0}}, tb.UnknownNameError, "control.stiffness"),
        (
            {"control": tb.PD(0.1, 4.0, 1.0), "parameters": {"control.stiffness": [1.0, -1.0]}},
            tb.TiburonError,
            "case 1: ",
        ),
        (
            {"q": np.zeros((4, 3)), "parameters": {"tool.mass": [1.0, 2.0]}},
            tb.ShapeError,
            r"parameters\['tool.mass'\] \(2,\)",
        ),
        ({"q": np.zeros((4, 3)), "fluid": SEAS}, tb.ShapeError, r"parameters\['fluid.density'\]"),
    ],
)
def test_parameter_values_are_checked_before_a_run(options, error, words):
    """Messages name the case and the parameter."""
    with pytest.raises(error, match=words):
        tb.simulate(robot(), 0.01, **options)


def test_buoyancy_uses_the_water_density_of_each_case():
    """Loops, a current and gravity compensation: water at rest has the numbers of the case."""
    rod = tb.Inertia.cylinder(1.0, 0.02, 0.5, com=(0, 0, 0.25))
    end, axis, wet = tb.Pose(translation=(0, 0, 0.5)), (0, 1, 0), tb.BodyFluid(volume=5e-4)
    names = ("a", "b", "c")
    bodies = [
        tb.Body(
            f"link_{name}",
            f"link_{names[k - 1]}" if k else "world",
            joint=tb.Revolute(name, axis, pose=end if k else tb.Pose()),
            inertia=rod,
            fluid=wet,
        )
        for k, name in enumerate(names)
    ]
    pin = tb.Revolute("d", axis, pose=end)
    loop = tb.LoopClosure("pin", "link_c", "world", pin, tb.Pose(translation=(0.5, 0, 0)))
    model = tb.Model("bars", bodies, loops=[loop], actuators=[tb.Actuator("motor", "a")])
    q = 0.7 * np.array([1.0, -1.0, 1.0]) + np.array([0.0, 0.5 * np.pi, 0.5 * np.pi])
    options = {"q": q, "control": tb.GravityCompensation()}
    seas = [tb.Water(density, (0.3, 0.0, 0.0)) for density in (1000.0, 500.0)]
    run = tb.simulate(model, 0.02, fluid=seas, **options)
    for k, sea in enumerate(seas):
        close(run.u[:, k], tb.simulate(model, 0.02, fluid=sea, **options).u)
    assert abs(run.u[0, 0] - run.u[0, 1]).max() > 0.1


def test_entries_of_matrices_and_inertias_have_names():
    robot = tb.load("bluerov2_alpha")
    sea = tb.Water(density=1000.0)
    q, v = robot.neutral(), np.full(robot.nv, 0.3)
    given = {
        "vehicle.added_mass.wx": 0.1,
        "vehicle.added_mass.wy": 0.2,
        "vehicle.added_mass.wy_vx": 0.3,
        "vehicle.linear_damping.wy": 0.5,
        "vehicle.linear_damping.wy_vx": 0.7,
        "vehicle.inertia.xy": 0.01,
    }
    fluid = robot.body("vehicle").fluid
    added, drag = np.array(fluid.added_mass), np.array(fluid.linear_damping)
    added[0, 0], added[1, 1], added[1, 3], added[3, 1] = 0.1, 0.2, 0.3, 0.3
    # drag need not be symmetric: its entry stands alone
    drag[1, 1], drag[1, 3] = 0.5, 0.7
    tensor = np.array(robot.body("vehicle").inertia.tensor)
    tensor[1] = 0.01
    whole = {
        "vehicle.added_mass": added,
        "vehicle.linear_damping": drag,
        "vehicle.inertia": tensor,
    }
    found, expected = (
        tb.forward_dynamics(robot, q, v, np.zeros(robot.nv), fluid=sea, parameters=values)
        for values in (given, whole)
    )
    assert np.array_equal(found, expected)
    with pytest.raises(tb.UnknownNameError, match=r"vehicle\.added_mass\.zz"):
        tb.forward_dynamics(robot, q, v, v, fluid=sea, parameters={"vehicle.added_mass.zz": 1.0})
