"""Random robots with everything a model can hold."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

import tiburon as tb
from tests.model.samples import random_axis, random_inertia, random_pose
from tests.strategies import models

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip()) and text != "world"
)
"""Names of any characters, quotes and control characters too."""


def _per_freedom(rng, joint, low=0.0):
    """Return one number, or one per freedom."""
    if rng.random() < 0.5 or joint.dof == 0:
        return float(rng.uniform(low, 2.0))
    return tuple(rng.uniform(low, 2.0, joint.dof).tolist())


def _limits(rng, joint):
    if rng.random() < 0.3:
        return tb.JointLimits()
    return tb.JointLimits(
        -3.0 + float(rng.random()),
        math.inf if rng.random() < 0.3 else float(rng.uniform(0.0, 3.0)),
        velocity=_per_freedom(rng, joint),
        force=_per_freedom(rng, joint),
    )


def _passive(rng, joint):
    numbers = [_per_freedom(rng, joint) for _ in range(3)]
    return tb.JointPassive(*numbers, rest=float(rng.normal()))


def with_joint_data(rng, joint):
    """Return a joint with limits, passive forces and armature."""
    data = {"limits": _limits(rng, joint), "passive": _passive(rng, joint)}
    if joint.dof:
        data["armature"] = _per_freedom(rng, joint)
    return replace(joint, **data)


def shapes(rng):
    """Return one shape of each kind."""
    kinds = [
        tb.BoxShape(rng.uniform(0.1, 1.0, 3)),
        tb.SphereShape(rng.uniform(0.1, 1.0)),
        tb.CylinderShape(*rng.uniform(0.1, 1.0, 2)),
        tb.CapsuleShape(*rng.uniform(0.1, 1.0, 2)),
        tb.EllipsoidShape(rng.uniform(0.1, 1.0, 3)),
        tb.PlaneShape(),
        tb.MeshShape(
            "meshes/no such file.stl", (1.0, -2.0, rng.uniform(0.5, 1.0)), convex=rng.random() < 0.5
        ),
    ]
    roles = ["both", "visual", "collision"]
    return tuple(
        tb.Shape(
            kind,
            random_pose(rng),
            roles[int(rng.integers(3))],
            tuple(rng.random(4).tolist()) if rng.random() < 0.5 else None,
            f"shape {i}" if rng.random() < 0.5 else "",
            contact_bits=(i, 2**31 + i) if i % 2 else None,
        )
        for i, kind in enumerate(kinds)
    )


def fluid(rng):
    """Return the water data of a body, with every kind of drag."""
    L = rng.standard_normal((6, 6))
    return tb.BodyFluid(
        volume=rng.random(),
        center_of_buoyancy=rng.normal(size=3),
        added_mass=L @ L.T if rng.random() < 0.7 else None,
        drag=(
            tb.CylinderDrag(0.1, 0.5, 1.1, (0.2, 0.3), rng.normal(size=3), random_axis(rng)),
            tb.BoxDrag(rng.random(3), rng.random(3), random_pose(rng)),
            tb.EllipsoidDrag(rng.random(3), rng.random(3), random_pose(rng)),
            tb.SphereDrag(rng.random(), rng.random(), rng.normal(size=3)),
        ),
        linear_damping=rng.random(6) if rng.random() < 0.5 else L @ L.T,
        quadratic_damping=rng.random(6) if rng.random() < 0.5 else None,
        fins=fins(rng) if rng.random() < 0.5 else (),
    )


def fins(rng):
    """Return a fin of each kind."""
    span = random_axis(rng)
    chord = np.cross(span, random_axis(rng))
    table = tb.TableFoil((0.0, 0.3, math.pi), (0.0, rng.random(), 0.0), rng.random(3))
    thin = tb.ThinFoil(rng.random(), rng.random(), 0.9, (0.2, 0.5), rng.random())
    return (
        tb.Fin(rng.random(), 2.0, name="plain"),
        tb.Fin(rng.random(), 3.0, rng.normal(size=3), span, chord, table, rng.normal()),
        tb.Fin(rng.random(), 4.0, foil=thin, deflection=0.0),
    )


def servo(rng):
    """Return a servo with all values, for a robot with a pose "home"."""
    gains = rng.random(4)
    return tb.Servo(*gains[:3], -gains[3], (-1.0, np.inf), {"home": rng.normal(), "b c": 2.0})


def thrusters(rng, body):
    curves = [
        tb.LinearThrust(rng.random(), (-0.1, 0.2)),
        tb.QuadraticThrust(rng.random(), rng.random() if rng.random() < 0.5 else None),
        tb.TableThrust((-1.0, 0.0, rng.random()), (-40.0, 0.0, 60.0)),
    ]
    return [
        tb.Thruster(
            f"thruster {i}",
            body,
            rng.normal(size=3),
            random_axis(rng) * 3.0,
            curve,
            time_constant=rng.random(),
            torque_ratio=rng.normal(),
            command_limits=(-1.0, math.inf),
            thrust_limits=(-50.0, 60.0),
        )
        for i, curve in enumerate(curves)
    ]


@st.composite
def rich_models(draw):
    """Draw a robot with joints of every kind, shapes, water, loops, motors and poses."""
    base = draw(models(most=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bodies = [
        tb.Body(
            body.name,
            body.parent,
            joint=with_joint_data(rng, body.joint),
            inertia=body.inertia,
            shapes=shapes(rng) if rng.random() < 0.5 else (),
            fluid=fluid(rng) if rng.random() < 0.5 else None,
        )
        for body in base.bodies
    ]
    name = draw(NAMES)
    last = bodies[-1].name
    bodies += [
        tb.Body(
            "hinged",
            last,
            joint=tb.Revolute("leader", random_axis(rng), 0.2, pose=random_pose(rng)),
            inertia=random_inertia(rng),
        ),
        tb.Body(
            "slid",
            "hinged",
            joint=tb.Coupled(
                "follower",
                tb.Prismatic("slide", random_axis(rng), 0.1),
                "leader",
                rng.normal(),
                rng.normal(),
                pose=random_pose(rng),
                armature=rng.random(),
            ),
            inertia=random_inertia(rng),
        ),
        tb.Body(
            "shaken",
            joint=tb.Driven(
                "shaker",
                tb.Planar("table", random_axis(rng)),
                (
                    tb.Harmonic(0.1, 2.0, rng.normal()),
                    tb.Polynomial(rng.normal(size=3)),
                    tb.Harmonic(*rng.random(4)),
                ),
                carried=tb.Spherical("ball", pose=random_pose(rng)),
                pose=random_pose(rng),
                armature=tuple(rng.random(3)),
            ),
            inertia=random_inertia(rng),
        ),
    ]
    frames = [*base.frames, tb.Frame("on world", "world", random_pose(rng))]
    loops = [
        tb.LoopClosure(
            "loop", "tip", "world", tb.Universal("cross", pose=random_pose(rng)), random_pose(rng)
        ),
        # names of loops are unique, and texts that are drawn may be "tie"
        tb.LoopClosure(f"{name} pin", "world", "hinged", tb.Spherical(name)),
        tb.JointCoupling("tie", "leader", None, (rng.normal(),)),
        tb.Blade("edge", "tip", "hinged", second_pose=random_pose(rng)),
        tb.RollingDisc("rim", "world", "hinged", radius=0.2, pose=random_pose(rng)),
        tb.TendonCoupling("cable", ("leader",), tuple(rng.normal(size=1))),
    ]
    if "joint0" in [b.joint.name for b in bodies if b.joint.dof == 1]:
        loops.append(tb.JointCoupling("curve", "leader", "joint0", tuple(rng.normal(size=4))))
    motor = tb.Motor(2.0, 0.2, 0.19, 1e-3, 1e-4, 0.01, 0.5, 40.0, 8.0)
    moving = [body.joint.name for body in bodies if body.joint.dof]
    data = {
        "loops": loops,
        "thrusters": thrusters(rng, last),
        "contacts": [
            tb.ContactPoint("heel", last, rng.normal(size=3)),
            tb.ContactPoint("toe", "tip", rng.normal(size=3), 0.01),
        ],
        "contact_pairs": [
            tb.ContactPair(last, "world", touches=False),
            tb.ContactPair(
                "hinged",
                "world",
                material=tb.ContactMaterial(*rng.random(1), friction_rule="larger"),
            ),
        ],
        "actuators": [
            tb.Actuator("plain", moving[0]),
            tb.Actuator("whole", "leader", -100.0, (-60.0, 70.0), 3.0, 2e-4, motor),
            tb.Actuator("servo", "leader", 1.0, (-2.0, 3.0), servo=servo(rng)),
            tb.Actuator("slow", "leader", servo=tb.Servo(damping=rng.random())),
        ],
        "springs": [
            tb.Spring("coil", "world", last, *rng.random(3), rng.normal(size=3)),
            tb.Spring("rope", "tip", "hinged", rng.random(), rope=True),
        ],
        "cylinders": [
            tb.HydraulicCylinder("ram", joint="leader", valve_time=rng.random()),
            tb.HydraulicCylinder("strut", "hinged", "on world", second_point=rng.normal(size=3)),
        ],
        "cables": [
            tb.Cable("hoist", "world", last, rng.normal(size=3), rng.normal(size=3)),
            tb.Cable("stay", "tip", "hinged", tension_limits=(2.0, 300.0)),
        ],
        "about": draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=40)),
    }
    plain = tb.Model(name, bodies, frames)
    q, _ = plain.random_state(rng)
    return tb.Model(name, bodies, frames, poses={"home": q, draw(NAMES): plain.neutral()}, **data)
