"""Controllers with an idea of the robot or its surroundings of their own, where the true ones vary.

Independent evidence: each case of a batch against a run of its own robot in its own world.
"""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb

ROUNDING = 1e-9
"""Code takes numbers at run time in one run, compiled in in the other; motions are stable."""

CONTROLS = {
    "computed torque": lambda **idea: tb.ComputedTorque.critical((0.1, -0.2), 5.0, **idea),
    "weight": lambda **idea: tb.GravityCompensation(**idea),
}


def arm(factor=1.0):
    """Return an arm in water whose lower link is heavier by a factor."""
    model = tb.load("double_pendulum")
    wet = tb.BodyFluid(volume=1e-4, added_mass=np.diag([0.01, 0.01, 0.01, 0.2, 0.2, 0.2]))
    bodies = [replace(body, fluid=wet) for body in model.bodies]
    solid = bodies[-1].inertia
    heavier = tb.Inertia(factor * solid.mass, solid.com, solid.tensor)
    bodies[-1] = replace(bodies[-1], inertia=heavier)
    return tb.Model("arm", bodies)


@pytest.mark.parametrize("name", CONTROLS)
def test_controller_model_has_its_own_parameters(name):
    """Also where it is the robot of the run, whose masses are others in each case."""
    robot, control = arm(), CONTROLS[name]
    mass = robot.bodies[-1].inertia.mass
    q = [0.3, 0.2]
    run = tb.simulate(
        robot,
        0.3,
        q=q,
        control=control(model=robot),
        parameters={"lower.mass": [mass, 3.0 * mass]},
    )
    for k, factor in enumerate((1.0, 3.0)):
        alone = tb.simulate(arm(factor), 0.3, q=q, control=control(model=robot))
        np.testing.assert_allclose(run.q[:, k], alone.q, rtol=0, atol=ROUNDING)
    assert np.abs(run.q[-1, 0] - run.q[-1, 1]).max() > 1e-2


@pytest.mark.parametrize("name", CONTROLS)
def test_controller_world_has_its_own_parameters(name):
    """Also where it equals that of the run, whose gravity is another in each case."""
    robot, control, q = arm(), CONTROLS[name], [0.3, 0.2]
    gravity = [(0.0, 0.0, -9.81), (0.0, 0.0, -5.0)]
    run = tb.simulate(
        robot,
        0.3,
        q=q,
        control=control(world=tb.World()),
        parameters={"world.gravity": gravity},
    )
    for k, g in enumerate(gravity):
        alone = tb.simulate(robot, 0.3, q=q, world=tb.World(g), control=control(world=tb.World()))
        np.testing.assert_allclose(run.q[:, k], alone.q, rtol=0, atol=ROUNDING)
    assert np.abs(run.q[-1, 0] - run.q[-1, 1]).max() > 1e-2


def test_code_for_a_believed_world_does_not_depend_on_the_true_one():
    """One kernel for both: whether the two worlds are equal must not be part of the code."""
    robot, q = arm(), [0.3, 0.2]

    @tb.traced
    def written(state):
        return tb.gravity_force(state.model, state.q, world=tb.World())

    for g in (-9.81, -5.0, -9.81):
        world = tb.World((0.0, 0.0, g))
        control = tb.GravityCompensation(world=tb.World())
        ours = tb.simulate(robot, 0.3, q=q, world=world, control=control)
        theirs = tb.simulate(robot, 0.3, q=q, world=world, control=written)
        np.testing.assert_allclose(ours.q, theirs.q, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", CONTROLS)
def test_controller_model_uses_the_world_of_the_run(name):
    """Gravity and water of each case, not those of the first."""
    robot, control, q = arm(), CONTROLS[name], [0.3, 0.2]
    idea = arm(1.5)
    waters = [tb.Water(1000.0, (0.3, 0.0, 0.1)), tb.Water(700.0, (0.0, 0.2, 0.0))]
    gravity = [(0.0, 0.0, -9.81), (0.5, 0.0, -5.0)]
    run = tb.simulate(
        robot,
        0.3,
        q=q,
        fluid=waters,
        control=control(model=idea),
        parameters={"world.gravity": gravity},
    )
    for k, (water, g) in enumerate(zip(waters, gravity, strict=True)):
        alone = tb.simulate(
            robot, 0.3, q=q, world=tb.World(g, fluid=water), control=control(model=idea)
        )
        np.testing.assert_allclose(run.q[:, k], alone.q, rtol=0, atol=ROUNDING)


def test_closed_loop_controller_model_has_its_own_parameters():
    """The same with loops."""
    robot = tb.load("four_bar")
    body = robot.bodies[0]
    mass = body.inertia.mass
    run = tb.simulate(
        robot,
        0.2,
        control=tb.GravityCompensation(model=robot),
        parameters={f"{body.name}.mass": [mass, 4.0 * mass]},
    )
    # the first bears its weight and stays, the second sinks
    assert np.abs(run.q[-1, 0] - run.q[0, 0]).max() < 1e-9
    assert np.abs(run.q[-1, 1] - run.q[0, 1]).max() > 1e-3
