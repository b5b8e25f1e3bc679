"""Model warnings: values that are allowed but probably wrong; none for plausible robots."""

import math

import numpy as np
import pytest

import tiburon as tb
from tiburon import zoo


def arm(*, joint=None, inertia=None, shapes=(), **options):
    """Return a link of one meter with one thing about it changed."""
    link = tb.Body(
        "link",
        joint=joint or tb.Revolute("hinge", (0, 1, 0)),
        inertia=inertia or tb.Inertia.cylinder(2.0, 0.05, 1.0, com=(0, 0, -0.5)),
        shapes=shapes,
    )
    hand = tb.Body(
        "hand",
        "link",
        joint=options.get("wrist", tb.Revolute("wrist", pose=tb.Pose(translation=(0, 0, -1.0)))),
        inertia=options.get("hand", tb.Inertia.box(0.5, (0.1, 0.1, 0.1))),
    )
    return tb.Model("arm", [link, hand])


def told(model):
    return [str(doubt) for doubt in tb.model_warnings(model)]


def test_plausible_robot_has_no_warnings():
    """No false alarm on a plain arm."""
    assert told(arm()) == []


def test_zoo_robots_have_no_warnings():
    """Neither on any of the robots that ship."""
    for name in zoo.names():
        assert told(tb.load(name)) == [], name


def test_bodies_that_stay_dry_among_wet_ones_are_named():
    """A tin without a shape falls through water as through air, which nobody would see."""
    wet = arm().with_fluids({"link": tb.BodyFluid(0.002)})
    (doubt,) = told(wet)
    assert doubt.startswith(
        "water: 1 of 2 bodies have no hydrodynamic coefficients, such as 'hand'"
    )
    assert told(wet.with_fluids({"hand": tb.BodyFluid()})) == []


def test_added_mass_without_buoyancy_and_drag_is_named():
    """SDF files have added mass alone; what lifts and brakes a link is elsewhere."""
    fluids = {"link": tb.BodyFluid(added_mass=np.eye(6)), "hand": tb.BodyFluid(0.002)}
    (doubt,) = told(arm().with_fluids(fluids))
    assert doubt.startswith(
        "water: 1 of 2 bodies have added mass, but neither buoyancy nor drag, such as 'link'"
    )
    damped = tb.BodyFluid(added_mass=np.eye(6), linear_damping=np.eye(6))
    assert told(arm().with_fluids(fluids | {"link": damped})) == []


CASES = [
    (
        {"inertia": tb.Inertia(2.0, (0, 0, -0.5))},
        "body 'link': has 2 kg but no moments of inertia: a point mass",
    ),
    (
        {"inertia": tb.Inertia(2.0, (0, 0, -0.5), (1, 1, 1))},
        "body 'link': all moments of inertia are 1 kg m^2, a common placeholder",
    ),
    (
        # 0.17 kg m^2 written in kg cm^2
        {"inertia": tb.Inertia(2.0, (0, 0, -0.5), (1700, 1700, 25))},
        "body 'link': moments of inertia are those of 2 kg at 29.2 m, but the body reaches 1 m",
    ),
    (
        {"inertia": tb.Inertia(2.0, (0, 0, -0.5), (1.7e-7, 1.7e-7, 2.5e-9))},
        "body 'link': moments of inertia are those of 2 kg at 0.000292 m",
    ),
    (
        {"inertia": tb.Inertia.cylinder(2.0, 0.05, 1.0, com=(0, 0, -500.0))},
        "body 'link': center of mass is 500 m from the origin, but the body reaches 1 m; check "
        "its unit (millimeters?)",
    ),
    (
        {"inertia": tb.Inertia.cylinder(2000.0, 0.05, 1.0, com=(0, 0, -0.5)),
         "shapes": (tb.Shape(tb.CylinderShape(0.05, 1.0)),)},
        "body 'link': would have a density of 2.55e+05 kg/m^3, more than any metal; check the unit "
        "of its mass (grams?)",
    ),
    (
        {"shapes": (tb.Shape(tb.BoxShape((1.0, 1.0, 1.0))),)},
        "body 'link': would have a density of 2 kg/m^3, less than foam",
    ),
    (
        {"shapes": (tb.Shape(tb.MeshShape("no/such/link.stl")),)},
        "meshes: 1 of 1 are missing, such as 'no/such/link.stl'; give the folders of their",
    ),
    (
        {"hand": tb.Inertia.box(1e-7, (0.1, 0.1, 0.1))},
        "body 'hand': has 1e-07 kg on a body of 2 kg",
    ),
    (
        {"wrist": tb.Revolute("wrist", pose=tb.Pose(translation=(0, 0, -300.0)))},
        "joint 'wrist': is 300 m from its parent's origin; check the unit (millimeters?)",
    ),
    (
        {"joint": tb.Revolute("hinge", limits=tb.JointLimits(-90.0, 90.0))},
        "joint 'hinge': limits are -90 to 90 rad, many turns; check the unit (degrees?)",
    ),
    (
        {"joint": tb.Revolute("hinge", limits=tb.JointLimits(-1.0, 1.0, force=0.0))},
        "joint 'hinge': largest force is 0; leave it out if it is not known",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), CASES)
def test_each_implausible_value_is_reported(change, sentence):
    """The element, what was found, and what to look at."""
    assert any(doubt.startswith(sentence) for doubt in told(arm(**change))), told(arm(**change))


def test_moving_body_without_mass_is_reported_unless_something_is_welded_to_it():
    """A massless link between two joints is a chain's trick; welded mass makes it a body."""
    between = tb.Body("between", joint=tb.Revolute("first"))
    end = tb.Body(
        "end",
        "between",
        joint=tb.Revolute("second", (1, 0, 0)),
        inertia=tb.Inertia.sphere(1.0, 0.1),
    )
    assert told(tb.Model("two", [between, end])) == [
        "body 'between': moves but has no mass; give it an inertia, or fix it if it is only a frame"
    ]
    welded = tb.Body("end", "between", joint=tb.Fixed("weld"), inertia=tb.Inertia.sphere(1.0, 0.1))
    assert told(tb.Model("one", [between, welded])) == []


def test_bodies_with_meshes_are_not_checked_for_size():
    """A center of mass 5 m out is strange for a link of 1 m, but a mesh may reach there."""
    far = tb.Inertia.cylinder(2.0, 0.05, 1.0, com=(0, 0, -5.0))
    mesh = (tb.Shape(tb.MeshShape(__file__)),)
    assert len(told(arm(inertia=far))) == 1
    assert told(arm(inertia=far, shapes=mesh)) == []
    millimeters = tb.Inertia.cylinder(2.0, 0.05, 1.0, com=(0, 0, -500.0))
    assert len(told(arm(inertia=millimeters, shapes=mesh))) == 1


def test_joint_that_nothing_resists_is_reported():
    """Files may have fingers of no mass; they load, and are reported."""
    palm = tb.Body("palm", joint=tb.Free("base"), inertia=tb.Inertia.sphere(1.0, 0.1))
    finger = tb.Body("finger", "palm", joint=tb.Revolute("knuckle"))
    assert told(tb.Model("hand", [palm, finger], movable=False))[-1] == (
        "joint 'knuckle': has no inertia; give the bodies it carries mass, or the joint an armature"
    )


def test_equal_moments_of_a_ball_are_not_reported():
    """Only powers of ten are what people type for want of a number."""
    ball = tb.Body("ball", joint=tb.Free("base"), inertia=tb.Inertia.sphere(3.0, 0.2))
    assert told(tb.Model("ball", [ball])) == []
    assert not math.log10(ball.inertia.tensor[0]).is_integer()


def test_volumes_in_liters_are_reported():
    def floating(volume):
        inertia, water = tb.Inertia.sphere(31.0, 0.2), tb.BodyFluid(volume)
        hull = tb.Body("hull", joint=tb.Free("base"), inertia=inertia, fluid=water)
        return tb.Model("craft", [hull])

    assert told(floating(0.031)) == []
    assert told(floating(0.0)) == []
    assert told(floating(31.0)) == [
        "water: bodies of 31 kg displace 31 m^3, a density of 1 kg/m^3; check the unit of volumes "
        "(liters?) and masses"
    ]
    assert len(told(floating(31e-6))) == 1
