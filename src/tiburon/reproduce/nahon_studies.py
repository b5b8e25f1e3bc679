"""Beyond Nahon 1991: what its conclusions leave to later work, a small study each (S1-S3).

S1: with bending energy as the objective, a beam loads three supports as elasticity predicts.
S2: flexible links of arms remove redundancy: deflections determine the forces.
S3: an additional motor reduces efforts, its weight increases them: the mass at which both balance.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.functions.assembly import assemble
from tiburon.functions.closed_loops import loop_dynamics
from tiburon.functions.load_sharing import LoadShare, LoadSharing
from tiburon.functions.mobility import mobility
from tiburon.load_sharing.objectives.contact_force import InternalForce
from tiburon.load_sharing.objectives.objective import Objective
from tiburon.load_sharing.objectives.structure import BendingEnergy, JointWrenchNorm
from tiburon.load_sharing.objectives.torque_norm import TorqueNorm
from tiburon.model import Body, ContactPoint, Ground, Inertia, LoopClosure, Model, Pose, World
from tiburon.model.flexible_link import BeamSection, flexible_link
from tiburon.model.joints import Fixed, Free, Revolute
from tiburon.reproduce.cells import INDEPENDENT, Cells, cell_table, claim, measured, number

Y = (0.0, 1.0, 0.0)
G = 9.81

SPAN = 0.8
"""Distance of supports of the beam [m]."""

LOAD = 4.0
"""Each of two masses in the middle between supports [kg]."""

REACH = 0.35
"""Length of a link of an arm [m]."""


def _at(x: float, z: float = 0.0) -> Pose:
    return Pose(translation=(x, 0.0, z))


def _beam() -> tuple[Model, dict[str, tuple[tuple[float, float, float], float]]]:
    """Return a beam on three supports with a mass in each span, and its four parts."""
    middle = Inertia.box(1.0, (0.05, 0.05, 0.05))
    bodies = [Body("middle", joint=Free("middle"), inertia=middle)]
    feet = [ContactPoint("support_middle", "middle", (0.0, 0.0, 0.0))]
    parts = {}
    for side, sign in (("left", -1.0), ("right", 1.0)):
        half = 0.5 * sign * SPAN
        parent, place = "middle", 0.0
        for part, mass in (("inner", LOAD), ("outer", 1.0)):
            name = f"{side}_{part}"
            end = Inertia.box(mass, (0.05, 0.05, 0.05), com=(half, 0.0, 0.0))
            joint = Revolute(f"{name}_joint", Y, pose=_at(place))
            bodies.append(Body(name, parent, joint=joint, inertia=end))
            parts[joint.name] = ((half, 0.0, 0.0), 50.0)
            parent, place = name, half
        feet.append(ContactPoint(f"support_{side}", parent, (half, 0.0, 0.0)))
    return Model("beam", bodies, contacts=feet), parts


@cell_table("S1", "a beam on three supports, a load P in the middle of each span")
def _beam_on_supports() -> Cells:
    beam, parts = _beam()
    world = World(ground=Ground(static_friction=0.5))
    joints = list(parts)
    ends, middles = [], []
    for objective in (InternalForce(), BendingEnergy(parts)):
        plan = LoadSharing.of(
            beam, world=world, driven=joints, torque_limits=False, objective=objective
        )
        force = plan.share(beam.neutral()).forces[:, 2]
        middles.append((force[0] - G) / (LOAD * G))
        ends.append((force[1:] - G) / (LOAD * G))
    yield number("rigid, least forces: middle / P", 2 / 3, middles[0], 1e-6, INDEPENDENT)
    yield number("ends / P", [2 / 3] * 2, ends[0], 1e-6, INDEPENDENT)
    yield number("least bending energy: middle / P", 22 / 16, middles[1], 1e-4, INDEPENDENT)
    yield number("ends / P", [5 / 16] * 2, ends[1], 1e-4, INDEPENDENT)
    yield (
        "rigid bodies leave one force open; the energy of bending determines it as the "
        "equation of three moments does"
    )


def arms_with_blades(flexible: Sequence[str], *, motor_mass: float = 0.0) -> tuple[Model, Array]:
    """Return two planar arms that hold a bar, and a configuration with closed loop.

    Args:
        flexible: Sides ("left", "right") whose forearm is a flexible link with one spring.
        motor_mass: Of a motor at the elbow of the right arm [kg].
    """
    rod = Inertia.cylinder(1.0, 0.02, REACH, com=(REACH / 2, 0.0, 0.0), axis=0)
    shoulder = Pose.from_axis_angle(Y, -1.2)
    robot = Model("arms", [])
    for side, x in (("left", -0.35), ("right", 0.35)):
        joint = Revolute(f"{side}_shoulder", Y, pose=replace(shoulder, translation=(x, 0.0, 0.0)))
        links = [Body(f"{side}_upper", joint=joint, inertia=rod)]
        if side == "right" and motor_mass:
            motor = Inertia.cylinder(motor_mass, 0.03, 0.06, axis=1)
            place = Fixed("motor", pose=_at(REACH))
            links.append(Body("motor", "right_upper", joint=place, inertia=motor))
        arm = Model("arm", links)
        robot = robot.attach(arm, at="world") if robot.bodies else arm
        elbow = Revolute(f"{side}_elbow", Y, pose=_at(REACH))
        sleeve = Inertia.cylinder(0.2, 0.02, 0.04, com=(0.0, 0.0, 0.0), axis=0)
        fore = Model("fore", [Body(f"{side}_sleeve", joint=elbow, inertia=sleeve)])
        robot = robot.attach(fore, at=f"{side}_upper")
        blade = flexible_link(
            f"{side}_blade",
            BeamSection.rectangle(0.02, 0.006),
            length=REACH,
            segments=1,
            youngs_modulus=70e9,
            density=2700.0,
            deformations=["bend_y"],
        )
        robot = robot.attach(blade, at=f"{side}_sleeve")
    wrist = Revolute("left_wrist", Y)
    bar = Inertia.box(4.0, (0.5, 0.05, 0.05), com=(0.25, 0.0, 0.0))
    robot = robot.attach(Model("bar", [Body("bar", joint=wrist, inertia=bar)]), at="left_blade_tip")
    tip = next(frame for frame in robot.frames if frame.name == "right_blade_tip")
    held = LoopClosure("right_wrist", "bar", tip.body, Revolute("right_wrist", Y, pose=_at(0.5)),
                       tip.pose)  # fmt: skip
    bodies = []
    for body in robot.bodies:
        own = body.joint
        if own.passive is not None and not body.name.startswith(tuple(flexible)):
            own = Fixed(own.name, pose=own.pose)
        bodies.append(replace(body, joint=own))
    closed = Model("arms on a bar", bodies, robot.frames, loops=[held])
    guess = np.zeros(closed.nq)
    for name, angle in (("left_elbow", 1.2), ("right_elbow", 1.3), ("right_shoulder", -0.3)):
        guess[closed.slice(name)] = angle
    return closed, np.asarray(assemble(closed, guess).q)


MOTORS = ("left_shoulder", "left_elbow", "left_wrist", "right_shoulder", "right_elbow")


def _held(
    flexible: Sequence[str], deflection: float, objective: Objective
) -> tuple[Model, LoadShare, Array]:
    """Return arms at rest under given deflections, the shared load, and all joint forces."""
    robot, q = arms_with_blades(flexible)
    joints = [f"{side}_blade_joint_1" for side in flexible]
    for name in joints:
        q[robot.slice(name)] = deflection
    q = np.asarray(assemble(robot, q, hold=joints).q)
    plan = LoadSharing.of(robot, driven=MOTORS, objective=objective, torque_limits=False)
    share = plan.share(q)
    tau = np.array(share.tau)
    for name in joints:
        passive = robot.joint(name).passive
        assert passive is not None
        tau[robot.slice(name, of="v")] -= np.ravel(passive.stiffness)[0] * q[robot.slice(name)]
    return robot, share, tau


@cell_table("S2", "two arms with flexible forearms hold a bar")
def _flexible_arms() -> Cells:
    apart = []
    for flexible in ((), ("left",), ("left", "right")):
        robot, q = arms_with_blades(flexible)
        r = mobility(robot, q, driven=MOTORS).redundancy
        title = f"redundancy with {len(flexible)} flexible links"
        yield number(title, 2 - len(flexible), r, 0, INDEPENDENT)
        found = [_held(flexible, 0.02, objective)[1].x for objective in
                 (InternalForce(), TorqueNorm())]  # fmt: skip
        apart.append(float(np.abs(found[0] - found[1]).max()))
    yield claim(
        "least forces and least torques differ by [N]",
        "only while redundant",
        ", ".join(f"{x:.2g}" for x in apart),
        apart[0] > 1.0 and apart[2] < 1e-8,
        INDEPENDENT,
    )
    squeezes, errors = [], []
    for deflection in (0.0, 0.01, 0.02):
        robot, share, tau = _held(("left", "right"), deflection, InternalForce())
        squeezes.append(float(share.x[0]))
        at = np.asarray(share.motion[0])
        rate = loop_dynamics(robot, at, np.zeros(robot.nv), tau).acceleration
        errors.append(float(np.abs(rate).max()))
    yield number("acceleration under these efforts [rad/s^2]", 0.0, max(errors), 1e-8, INDEPENDENT)
    yield measured(
        "force along the bar at 0, 0.01, 0.02 rad [N]", "-", ", ".join(f"{x:.4g}" for x in squeezes)
    )
    yield (
        "each spring takes one from the redundancy: with one in each arm, deflections "
        "determine all forces, and what is optimal has to be reached by bending the arms"
    )


@cell_table("S3", "a motor more at the elbow of an arm: structural load saved against its weight")
def _motor_weight() -> Cells:
    masses = np.linspace(0.0, 3.0, 7)

    def load(mass: float, motors: Sequence[str]) -> float:
        """Return the sum of squares of the wrenches that joints transmit, the least there is."""
        robot, q = arms_with_blades((), motor_mass=mass)
        norm = JointWrenchNorm(length=REACH)
        plan = LoadSharing.of(robot, driven=motors, objective=norm, torque_limits=False)
        rest = np.zeros(robot.nv)
        rows, offsets = plan.squares(q, rest, rest)
        residual = rows @ plan.share(q).x + offsets
        return float(residual @ residual)

    without = load(0.0, MOTORS[:-1])
    found = np.array([load(float(mass), MOTORS) for mass in masses])
    c, b, a = np.polynomial.polynomial.polyfit(masses, found, 2).tolist()
    even = (-b + float(np.sqrt(b * b - 4.0 * a * (c - without)))) / (2.0 * a)
    again = load(even, MOTORS)
    parabola = c + b * masses + a * masses * masses
    residual = float(np.abs(parabola - found).max() / found.max())
    yield claim(
        "squared wrenches of joints, weightless motor / without [N^2]",
        "less",
        f"{found[0]:.4g} / {without:.4g}",
        found[0] < without,
        INDEPENDENT,
    )
    yield number("relative distance from a parabola in its mass", 0.0, residual, 1e-6, INDEPENDENT)
    yield measured("mass at which nothing is saved [kg]", "-", f"{even:.3f}")
    yield number("load at that mass / without", 1.0, again / without, 1e-5, INDEPENDENT)
    yield (
        "the arms hold a bar of 4 kg at rest; with the motor, their loop carries less squeeze: "
        "what it saves in structure is more than its weight costs up to that mass"
    )


STUDIES: dict[str, Callable[[], Any]] = {
    "S1": _beam_on_supports,
    "S2": _flexible_arms,
    "S3": _motor_weight,
}
"""Studies by name."""
