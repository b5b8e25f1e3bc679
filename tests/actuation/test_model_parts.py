"""Springs and cylinders as parts of robots: files, composition, messages."""

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import moment, slider
from tiburon.actuation.defaults import elements_of

SPRING = tb.Spring(
    "coil",
    "world",
    "block",
    stiffness=5.0,
    damping=0.5,
    rest_length=0.1,
    first_point=(1.0, 0.2, -0.3),
    second_point=(0.0, 0.1, 0.0),
    rope=True,
)
RAM = tb.HydraulicCylinder("ram", joint="x", valve_time=0.01, relief_pressure=2.1e7)
STRUT = tb.HydraulicCylinder("strut", "block", "world", second_point=(2.0, 0.0, 0.0))


def machine():
    """Return a slider with two springs and two cylinders."""
    block = slider()
    plain = tb.Spring("plain", "block", "post", stiffness=3.0)
    post = tb.Frame("post", "world", tb.Pose(translation=(0.0, 1.0, 0.0)))
    return tb.Model(
        "machine", block.bodies, [post], springs=[SPRING, plain], cylinders=[RAM, STRUT]
    )


def test_native_files_hold_springs_and_cylinders(tmp_path):
    """Written and read again a machine is the same machine."""
    model = machine()
    tb.save(model, tmp_path / "machine.toml")
    assert tb.load(tmp_path / "machine.toml") == model


def test_models_that_differ_in_a_spring_differ():
    """Springs and cylinders are part of what a robot is."""
    model = machine()
    block = slider()
    other = tb.Model("machine", block.bodies, model.frames, springs=model.springs)
    assert other != model
    assert hash(other) != hash(model)


def test_elements_come_from_the_parts_of_a_robot():
    """Cylinders drive, springs pull; without passive forces springs are left out."""
    model = machine()
    assert [e.name for e in elements_of(model)] == ["ram", "strut", "coil", "plain"]
    assert [e.name for e in elements_of(model.without_passive())] == ["ram", "strut"]


def test_attached_robot_keeps_the_ends_of_its_springs():
    """What ended on the world ends on the carrier, at the same place, under prefixed names."""
    hull = tb.Model(
        "hull",
        [
            tb.Body(
                "hull",
                joint=tb.Free("float"),
                inertia=tb.Inertia(9.0, (0, 0, 0), (1, 0, 0, 1, 0, 1)),
            )
        ],
    )
    mount = tb.Pose.from_rpy((0.3, -0.2, 0.5), (0.4, 0.0, 0.1))
    whole = hull.attach(machine(), at="hull", pose=mount, prefix="left_")
    names = [(s.name, s.first, s.second) for s in whole.springs]
    assert names == [
        ("left_coil", "hull", "left_block"),
        ("left_plain", "left_block", "left_post"),
    ]
    assert [(c.first, c.second, c.joint) for c in whole.cylinders] == [
        (None, None, "left_x"),
        ("left_block", "hull", None),
    ]
    # with the hull at rest in the origin of the mount the spring is as long as before
    alone, (q, v) = machine(), (np.array([0.3]), np.zeros(1))
    coil = next(e for e in elements_of(alone) if e.name == "coil")
    before = coil.act(moment(coil, alone, q, v)).outputs["coil.length"]
    carried = next(e for e in elements_of(whole) if e.name == "left_coil")
    q7, v7 = np.array([1, 0, 0, 0, 0, 0, 0, 0.3]), np.zeros(7)
    after = carried.act(moment(carried, whole, q7, v7)).outputs["left_coil.length"]
    assert after == pytest.approx(before, rel=1e-14)


def test_removed_bodies_take_their_springs_and_cylinders_with_them():
    """Nothing is left that hangs on what is gone."""
    rest = tb.Model(
        "two",
        [
            *machine().bodies,
            tb.Body(
                "other",
                joint=tb.Revolute("turn"),
                inertia=tb.Inertia(1.0, (0, 0, 0), (1, 0, 0, 1, 0, 1)),
            ),
        ],
        springs=[SPRING],
        cylinders=[RAM, STRUT],
    ).without("block")
    assert (rest.springs, rest.cylinders) == ((), ())
    held = machine().lock("x")
    assert [c.name for c in held.cylinders] == ["strut"]


def test_wrong_parts_are_refused_with_their_names():
    """Messages name the part, what it refers to and what exists."""
    block = slider()
    far = tb.Spring("s", "block", "blok")
    with pytest.raises(tb.UnknownNameError, match="spring 's': unknown body or frame 'blok'"):
        tb.Model("m", block.bodies, springs=[far])
    with pytest.raises(tb.UnknownNameError, match="cylinder 'c': unknown joint 'y'"):
        tb.Model("m", block.bodies, cylinders=[tb.HydraulicCylinder("c", joint="y")])
    with pytest.raises(tb.ModelError, match="'coil'"):
        tb.Model("m", block.bodies, springs=[SPRING, SPRING])
    with pytest.raises(tb.ModelError, match="expected a Spring, got"):
        tb.Model("m", block.bodies, springs=[RAM])
    ball = tb.Body("b", joint=tb.Spherical("ball"), inertia=block.bodies[0].inertia)
    with pytest.raises(
        tb.ModelError, match="can only drive a joint with one degree of freedom, got the sph"
    ):
        tb.Model("m", [ball], cylinders=[tb.HydraulicCylinder("c", joint="ball")])


def test_urdf_reports_that_it_cannot_hold_them(tmp_path):
    """What was left out is reported, by name."""
    losses = tb.save(machine(), tmp_path / "machine.urdf")
    assert "springs between points were left out: coil, plain" in losses
    assert "hydraulic cylinders were left out: ram, strut" in losses


def test_zoo_robots_have_the_springs_of_their_sources():
    """The squeezer's coil and the governor's two spring-dampers are part of the models."""
    (coil,) = tb.load("andrews_squeezer").springs
    assert (coil.stiffness, coil.rest_length) == (4530.0, 0.07785)
    left, right = tb.load("flyball_governor").springs
    assert (left.stiffness, left.damping, left.rest_length) == (8e5, 4e4, 0.5)
    assert right.first == "right_spring_top"
