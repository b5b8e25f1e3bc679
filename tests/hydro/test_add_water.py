"""Water numbers of whole robots from their shapes."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close


def shaped(name, *shapes, parent="world", fluid=None):
    joint = tb.Free(name) if parent == "world" else tb.Revolute(f"{name}_joint")
    inertia = tb.Inertia(1.0, (0, 0, 0), (0.1, 0.1, 0.1))
    return tb.Body(name, parent, joint=joint, inertia=inertia, shapes=shapes, fluid=fluid)


def ball(radius, role="both"):
    return tb.Shape(tb.SphereShape(radius), role=role)


def test_sphere_gets_the_coefficients_of_potential_flow():
    """Half of the displaced mass, and its volume."""
    dry = tb.Model("ball", [shaped("ball", ball(0.1))])
    (entry,) = tb.hydrodynamics_report(dry, 1000.0)
    volume = 4.0 / 3.0 * np.pi * 0.1**3
    assert_close(entry.fluid.volume, volume)
    assert_close(np.diag(entry.fluid.added_mass)[3:], np.full(3, 500.0 * volume))
    assert entry.quality == {
        "volume": "exact",
        "added_mass": "exact",
        "added_moments": "exact",
        "drag": "fitted",
    }
    assert tb.add_hydrodynamics(dry, 1000.0).body("ball").fluid == entry.fluid


def test_collision_shapes_are_used_if_present():
    robot = tb.Model("two", [shaped("two", ball(0.3, "visual"), ball(0.2, "collision"))])
    assert_close(tb.hydrodynamics_report(robot)[0].fluid.volume, 4.0 / 3.0 * np.pi * 0.2**3)
    seen = tb.Model("one", [shaped("one", ball(0.3, "visual"))])
    assert_close(tb.hydrodynamics_report(seen)[0].fluid.volume, 4.0 / 3.0 * np.pi * 0.3**3)


def test_coefficients_that_are_not_estimated_are_reported():
    """Numbers that are there stay; bodies without simple shapes are named with the reason."""
    own = tb.BodyFluid(volume=0.5)
    mesh = tb.Shape(tb.MeshShape("hull.stl"))
    robot = tb.Model(
        "mixed",
        [
            shaped("base", ball(0.1), fluid=own),
            shaped("bare", parent="base"),
            shaped("hull", mesh, parent="base"),
            shaped("arm", ball(0.1), parent="base"),
        ],
    )
    dry = r"for 2 of 4 bodies: 'bare' \(has no shape\); 'hull' \(hull.stl: there is no such file"
    with pytest.warns(tb.ModelWarning, match=dry):
        added = tb.add_hydrodynamics(robot)
    reasons = {entry.body: entry.reason for entry in tb.hydrodynamics_report(robot)}
    assert reasons["base"] == "has coefficients already"
    assert reasons["bare"] == "has no shape"
    assert reasons["hull"] == "hull.stl: there is no such file; check the path"
    assert reasons["arm"] == ""
    assert added.body("base").fluid == own
    assert added.body("bare").fluid is None
    with pytest.warns(tb.ModelWarning, match=dry):
        again = tb.add_hydrodynamics(robot, overwrite=True)
    assert again.body("base").fluid == again.body("arm").fluid


def test_a_robot_without_any_simple_shape_is_refused():
    with pytest.raises(
        tb.ModelError, match="no body has a shape with known hydrodynamic coefficients"
    ):
        tb.add_hydrodynamics(tb.Model("bare", [shaped("bare")]))


def test_other_fluids_keep_everything_else():
    """Names, frames, thrusters and poses stay; an unknown body is named."""
    robot = tb.load("tiburon_titan")
    dry = robot.with_fluids({body.name: None for body in robot.bodies})
    assert all(body.fluid is None for body in dry.bodies)
    assert dry.with_fluids({body.name: body.fluid for body in robot.bodies}) == robot
    with pytest.raises(tb.UnknownNameError, match="hul"):
        robot.with_fluids({"hul": None})
    name = robot.body_names[0]
    with pytest.raises(tb.ModelError, match=f"body {name!r}: fluid must be a BodyFluid"):
        robot.with_fluids({name: 3.0})


def test_robot_with_estimated_coefficients_can_be_simulated():
    """All of dynamics takes the result: a ball of the density of water hangs where it is."""
    volume = 4.0 / 3.0 * np.pi * 0.1**3
    inertia = tb.Inertia(1025.0 * volume, (0, 0, 0), (0.1, 0.1, 0.1))
    body = tb.Body("ball", joint=tb.Free("ball"), inertia=inertia, shapes=(ball(0.1),))
    model = tb.add_hydrodynamics(tb.Model("ball", [body]))
    rest = np.zeros(6)
    vd = tb.forward_dynamics(model, model.neutral(), rest, rest, fluid=tb.Water(1025.0))
    # buoyancy and weight cancel to rounding of 9.81
    assert_close(vd, np.zeros(6), 1e-14, scale=9.81)


def test_fins_are_kept_when_coefficients_are_estimated_again():
    """Shapes say nothing of fins."""
    fin = tb.Fin(0.01, 2.0, name="rudder")
    fluid = tb.BodyFluid(volume=1e-3, fins=(fin,))
    body = tb.Body(
        "hull",
        joint=tb.Free("float"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
        fluid=fluid,
    )
    again = tb.add_hydrodynamics(tb.Model("fish", [body]), overwrite=True)
    assert again.bodies[0].fluid.fins == (fin,)
    assert again.bodies[0].fluid.volume != 1e-3


def test_bodies_that_keep_added_mass_alone_are_warned_of():
    """They have neither buoyancy nor drag, though their shape has."""
    massive = tb.BodyFluid(added_mass=np.eye(6), reference_density=None)
    model = tb.Model("two", [shaped("ball", ball(0.1)), shaped("buoy", ball(0.2))])
    model = model.with_fluids({"buoy": massive})
    with pytest.warns(tb.ModelWarning, match=r"'buoy' \(keeps its added mass alone; pass overwr"):
        wet = tb.add_hydrodynamics(model)
    assert wet.body("buoy").fluid == massive
    assert tb.add_hydrodynamics(model, overwrite=True).body("buoy").fluid.volume > 0.0
