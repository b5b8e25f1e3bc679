"""Surfaces of two bodies together, and patches of the ground."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.contact.candidates import candidates_of, surfaces_of
from tiburon.contact.rows import contact_geometry
from tiburon.model.contact_kinds import combined_material


def test_two_spring_dampers_of_one_time_constant_act_in_series():
    """Springs with damping in the same ratio in series are one spring-damper, exactly."""
    soft = tb.ContactMaterial(
        0.5, normal_stiffness=1e4, normal_damping=20.0, planar_stiffness=4e3, planar_damping=8.0
    )
    hard = tb.ContactMaterial(
        0.8, normal_stiffness=4e4, normal_damping=80.0, planar_stiffness=12e3, planar_damping=24.0
    )
    both = combined_material(soft, hard)
    assert both.static_friction == 0.5
    np.testing.assert_allclose(
        (both.normal_stiffness, both.normal_damping), (8e3, 16.0), rtol=1e-15
    )
    np.testing.assert_allclose((both.planar_stiffness, both.planar_damping), (3e3, 6.0), rtol=1e-15)
    assert combined_material(soft, tb.ContactMaterial(0.9)).normal_stiffness == 1e4


def test_equal_surfaces_of_hunt_and_crossley_halve_stiffness_and_dissipation():
    """Each takes half the depth at half the speed: f = k d/2 (1 + c d'/2)."""
    one = tb.ContactMaterial(normal_stiffness=1e4, dissipation=0.6)
    both = combined_material(one, one)
    assert (both.normal_stiffness, both.dissipation) == (5e3, 0.3)


def test_of_two_surfaces_one_with_the_rule_larger_decides():
    """Friction is the larger one if either surface says so; restitution stays the smaller one."""
    rough = tb.ContactMaterial(0.9, 0.7, restitution=0.6)
    smooth = tb.ContactMaterial(0.2, 0.1, restitution=0.3)
    larger = tb.ContactMaterial(0.2, 0.1, restitution=0.3, friction_rule="larger")
    for pair in ((rough, smooth), (smooth, rough)):
        assert combined_material(*pair).values[:3] == (0.2, 0.1, 0.3)
    for pair in ((rough, larger), (larger, rough)):
        assert combined_material(*pair).values[:3] == (0.9, 0.7, 0.3)
    assert combined_material(None, larger).friction_rule == "larger"
    with pytest.raises(tb.ModelError, match="friction_rule must be 'smaller' or 'larger', got 3"):
        tb.Ground(friction_rule=3)


def test_the_ground_of_a_case_keeps_the_rule_of_friction():
    """With the larger coefficient, friction of the ground below that of a body changes nothing."""
    size = (0.2, 0.2, 0.1)
    shape = tb.Shape(tb.BoxShape(size), material=tb.ContactMaterial(0.7))
    box = tb.Body("box", joint=tb.Free("box"), inertia=tb.Inertia.box(1.0, size), shapes=(shape,))
    world = tb.World(ground=tb.Ground(static_friction=0.1, friction_rule="larger"))
    state = {"q": [1.0, 0, 0, 0, 0, 0, 0.05], "v": [0, 0, 0, 2.0, 0, 0], "world": world}
    given = {"ground.static_friction": [0.1, 0.5, 0.9]}
    v = tb.simulate(tb.Model("box", [box]), 0.1, parameters=given, **state).v[-1]
    np.testing.assert_array_equal(v[0], v[1])
    # it slides all the time: m v' = -mu m g
    np.testing.assert_allclose(v[[0, 2], 3], 2.0 - 0.1 * 9.81 * np.array([0.7, 0.9]), rtol=1e-6)


def test_patches_of_the_ground_have_materials_of_their_own():
    ice = tb.ContactMaterial(0.05)
    moss = tb.ContactMaterial(0.9, restitution=0.1)
    ground = tb.Ground(
        static_friction=0.6,
        patches=[
            tb.GroundPatch("ice", (1.0, -1.0), (3.0, 1.0), ice),
            tb.GroundPatch("moss", (2.0, -1.0), (3.0, 1.0), moss),
        ],
    )
    shape = tb.Shape(tb.SphereShape(0.1), material=tb.ContactMaterial(0.7))
    inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3))
    ball = tb.Body("ball", "world", joint=tb.Free("ball"), inertia=inertia, shapes=(shape,))
    model = tb.Model("ball", [ball])
    found = candidates_of(model, tb.World(ground=ground))
    p = found[0].parameters()
    for x, friction in ((0.5, 0.6), (1.5, 0.05), (2.5, 0.7), (3.5, 0.6)):
        q = [1.0, 0, 0, 0, x, 0.2, 0.1]
        (surface,) = surfaces_of(found, p, contact_geometry(model.plan, q, found, p)[0])
        assert surface.static_friction == friction


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.ContactMaterial(normal_damping=3.0), "needs a normal_stiffness"),
        (lambda: tb.ContactMaterial(dissipation=0.3), "dissipation 0.3 needs a normal_stiffness"),
        (lambda: tb.GroundPatch("ice", (1, 1), (0, 2), tb.ContactMaterial()), "lower must be"),
        (lambda: tb.GroundPatch("ice", (0, 0), (1, 1), 0.3), "must be a ContactMaterial"),
        (lambda: tb.Ground(patches=[0.3]), "list of GroundPatch"),
    ],
)
def test_invalid_surfaces_are_refused(make, message):
    with pytest.raises(tb.ModelError, match=message):
        make()
