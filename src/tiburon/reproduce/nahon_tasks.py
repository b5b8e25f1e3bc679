"""Nahon 1991, chapters 6.2 and 7: arms, hands and walkers at work (E11-E14, E16)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.assembly import assemble
from tiburon.functions.balancing import FrameBalance, balance_frame
from tiburon.functions.kinematics import forward_kinematics
from tiburon.functions.load_sharing import GripLimit, LoadSharing
from tiburon.load_sharing.objectives.contact_force import InternalForce
from tiburon.load_sharing.objectives.motor_loss import MotorLoss
from tiburon.load_sharing.objectives.objective import Objective
from tiburon.load_sharing.performance import motor_power, performance_indices
from tiburon.load_sharing.shock import Shock, struck, torque_programs
from tiburon.load_sharing.smoothing import (
    ForcePrograms,
    SmoothingPenalty,
    StepBound,
    smallest_step,
    smoothed_forces,
)
from tiburon.loops.driven_cut import drive_cut_joint, driven_cut_state
from tiburon.model import Body, Free, Inertia, LoopClosure, Model, Pose, World
from tiburon.reproduce.cells import (
    DERIVED,
    INDEPENDENT,
    SURROGATE,
    Cell,
    Cells,
    cell_table,
    claim,
    lost,
    number,
    print_check,
    shown,
    timing,
)
from tiburon.reproduce.four_bar_motion import LENGTHS, exactly_balanced, four_bar_motion
from tiburon.reproduce.load_motion import JointMotion, cycloid, followed, quintic
from tiburon.reproduce.nahon_problems import (
    Constraints,
    feet_of_walker,
    walker_plan,
    walker_pose,
    with_inertias,
)
from tiburon.reproduce.nahon_solvers import best_time, compiled_qp
from tiburon.spatial import matrix_to_quaternion
from tiburon.trace import solve_qp

FREE = World(gravity=(0.0, 0.0, 0.0))


# -- two arms --------------------------------------------------------------------------------------


MOTORS = {
    "n": (62.61, 107.36, 53.69, 76.01, 71.91, 76.73),
    "n^2 J [kg m^2]": (1.14, 4.71, 0.83, 0.2, 0.179, 0.193),
    "n^2 c [kg m^2/s]": (4.00, 3.5, 3.5, 0.48, 0.55, 0.65),
    "f [N m]": (5.95, 6.82, 3.91, 1.07, 0.89, 0.94),
    "tau_lim [N m]": (97.6, 186.4, 89.4, 24.2, 20.1, 21.3),
    "R [ohm]": (1.6, 1.6, 1.6, 3.9, 3.9, 3.9),
    "K [N m/A]": (0.26, 0.26, 0.26, 0.09, 0.09, 0.09),
}
"""Table 6.6."""

OBJECTIVES: dict[str, Objective] = {
    "internal force": InternalForce(),
    "power": MotorLoss(),
    "power (Kopf)": MotorLoss(friction=False),
}


def pumas_motion(model: Model, times: Array) -> JointMotion:
    """Return the motion of two arms that turn the bar by 90 degrees clockwise in 2 s.

    A cycloid stands for the source's spline, whose coefficients are lost: its least internal force
    is the printed one to 0.4 %. The axis is horizontal and passes through the center of the bar.
    """
    home = np.array(model.poses["home"])
    R, center = forward_kinematics(model, home, "bar")
    w, x, y, z = matrix_to_quaternion(R.tolist())
    # about y of the bar, which is that of the world
    turning = np.array([0.0, 0.5 * np.pi, 0.0, 0.0, 0.0, 0.0])
    way = []
    for share, rate, change in zip(*cycloid(np.minimum(times / 2.0, 1.0)), strict=True):
        c, s = np.cos(0.25 * np.pi * share), np.sin(0.25 * np.pi * share)
        pose = (c * w - s * y, c * x - s * z, c * y + s * w, c * z + s * x, *center)
        way.append((pose, turning * rate / 2.0, turning * change / 4.0))
    q, v, vd = followed(model, home, "bar", way)
    # joints that do not turn have rounding for velocity, and no friction
    return JointMotion(q, np.where(np.abs(v) > 1e-9, v, 0.0), vd)


@cache
def two_pumas() -> Model:
    """Return the zoo's two arms with rotors and friction in the motors, as in (6.45).

    The zoo has them as armature and passive friction of the joints, which simulations need; here
    joint forces are loads of the motors alone.
    """
    model = load("two_pumas")
    bodies, actuators = [], []
    for body in model.bodies:
        joint = body.joint
        if body.name != "bar":
            joint = replace(joint, passive=None, armature=0.0)
        bodies.append(replace(body, joint=joint))
    for actuator in model.actuators:
        passive, motor = model.joint(actuator.joint).passive, actuator.motor
        assert passive is not None
        assert motor is not None
        n = abs(actuator.ratio)
        damping, friction = (float(np.ravel(x)[0]) for x in (passive.damping, passive.friction))
        own = replace(motor, damping=damping / n**2, friction=friction / n)
        actuators.append(replace(actuator, motor=own))
    parts = model._parts._replace(bodies=tuple(bodies), actuators=tuple(actuators))
    return model._changed(parts, None)


@cache
def fitted_pumas() -> Model:
    """Return the arms in the layout that gives all values of table 6.7, and of 7.2.2.

    Grips at the ends of the bar, shoulders 0.81 m from its center and 0.025 m below, hands at 120
    degrees to it, the left elbow below and the right one above. The left shoulder and both wrists
    leave the ranges of their joints, of which the source does not speak.
    """
    model = two_pumas()
    turns = [Pose.from_axis_angle((0.0, 0.0, 1.0), angle) for angle in (0.0, np.pi)]
    hand = Pose.from_axis_angle((0.0, 1.0, 0.0), np.radians(210.0), (-0.5, 0.0, 0.0))
    poses = {"bar": replace(model.joint("bar").pose, translation=(0.0, 0.0, 0.025))}
    loops = []
    for side, turn, loop in zip(("left", "right"), turns, model.loops, strict=True):
        assert isinstance(loop, LoopClosure)
        poses[f"{side}_trunk"] = turn @ Pose(translation=(-0.81, -0.1501, 0.0))
        loops.append(replace(loop, joint=replace(loop.joint, pose=turn @ hand)))
    bodies = [
        replace(body, joint=replace(body.joint, pose=poses.get(body.name, body.joint.pose)))
        for body in model.bodies
    ]
    moved = Model(model.name, bodies, model.frames, loops=loops, actuators=model.actuators)
    guess = np.array(moved.neutral())
    guess[7:] = np.radians((0, 85.1, -13.4, 0, 93.4, 0, 0, -79.5, 176.4, 0, 158.2, 0))
    return moved.with_poses({"home": assemble(moved, guess, hold=["bar"]).q})


class _Task(NamedTuple):
    """The turn of the bar, shared by one objective."""

    times: Array
    squares: Array
    """x^ . x^ [N^2 m^2] (6.20)."""
    power: Array
    """Of all motors [W]."""
    losses: Array
    """In all windings [W]."""
    joint_power: Array
    """Imparted at the joints [W] (6.43)."""

    @property
    def energy(self) -> float:
        """Consumed by the motors [W s]."""
        return float(np.trapezoid(self.power, self.times))

    @property
    def force(self) -> float:
        """Integral of x^ . x^ as in table 6.7, with the half of the objective [N^2 m^2 s]."""
        return 0.5 * float(np.trapezoid(self.squares, self.times))

    @property
    def loss(self) -> float:
        """Of the windings [W s]."""
        return float(np.trapezoid(self.losses, self.times))


@cache
def shared_task(*, fitted: bool = False) -> dict[str, _Task]:
    """Return the turn of the bar by objective.

    Args:
        fitted: Whether in the layout of `fitted_pumas`, with friction of motors at rest counted at
            its full positive value, as SIGN(f, 0) of Fortran does, instead of not at all.
    """
    model = fitted_pumas() if fitted else two_pumas()
    grip = model.loops[0]
    assert isinstance(grip, LoopClosure)
    lever = float(np.linalg.norm(grip.joint.pose.translation))
    times = np.linspace(0.0, 2.0, 101)
    q, v, vd = pumas_motion(model, times)
    if fitted:
        v = np.where(v == 0.0, np.finfo(float).tiny, v)
    found = {}
    for name, objective in OBJECTIVES.items():
        share = LoadSharing.of(model, world=FREE, objective=objective).share(q, v, vd)
        kinds = [kind for group in share.plan.layout.groups for kind in group.kinds]
        weights = np.array([1.0 if kind == "moment" else lever**2 for kind in kinds])
        motors = motor_power(model, v, vd, share.tau)
        found[name] = _Task(
            times,
            np.sum(weights * share.x**2, axis=1),
            motors.total,
            motors.loss.sum(axis=-1),
            np.sum(share.tau * v, axis=-1),
        )
    return found


def _turning_moment(times: Array) -> Array:
    """Return the moment that turns the bar [N m]."""
    change = cycloid(times / 2.0).change / 4.0
    return 0.5 * np.pi * change * two_pumas().body("bar").inertia.tensor[3]


@cell_table("E11, table 6.6", "motors of the PUMA 560, as in the zoo")
def _motors() -> Cells:
    model = two_pumas()
    ours: dict[str, list[float]] = {key: [] for key in MOTORS}
    for k in range(6):
        joint = model.joint(f"left_joint_{k + 1}")
        motor = next(a for a in model.actuators if a.joint == joint.name)
        assert motor.motor is not None
        n2 = motor.ratio**2
        row = (
            abs(motor.ratio),
            n2 * motor.rotor_inertia,
            n2 * motor.motor.damping,
            abs(motor.ratio) * motor.motor.friction,
            motor.force_limits[1],
            motor.motor.resistance,
            motor.motor.torque_constant or 0.0,
        )
        for key, value in zip(MOTORS, row, strict=True):
            ours[key].append(value)
    for key, published in MOTORS.items():
        yield number(key, published, ours[key], 5e-10 * max(published))
    bar = model.body("bar").inertia
    yield number("mass of the bar [kg]", 13.5, bar.mass, 1e-9)
    density = bar.mass / (1.0 * 0.05 * 0.10)
    yield print_check(
        "it is of aluminum: density by the printed size [kg/m^3]", 2700.0, density, 0.5
    )
    yield number("its moment about the depth axis [kg m^2]", 1.128, bar.tensor[3], 5e-4)


@cell_table("E11, table 6.7", "two PUMA 560 turn a bar: power against internal force")
def _two_arms() -> Cells:
    found = shared_task()
    internal, power, kopf = found.values()
    for key, published in (("power", 117.2), ("power (Kopf)", 18.16)):
        yield shown(
            f"{key}: integral of x^ . x^ / 2 [N^2 m^2 s]",
            f"{published:g}",
            f"{found[key].force:.3g}",
        )
    for (key, one), energy in zip(found.items(), (77.51, 75.90, 76.88), strict=True):
        yield _within(f"{key}: energy within 0.5 % [W s]", energy, one.energy, 0.005)
    # each arm makes a quarter of the moment by its own and a quarter by its force at the grip
    couple = float(np.trapezoid(_turning_moment(internal.times) ** 2, internal.times)) / 8.0
    yield number("least internal force by a closed form", couple, internal.force, 1e-6, INDEPENDENT)
    quantity = "internal force: integral of x^ . x^ / 2 within 0.5 %: a cycloid [N^2 m^2 s]"
    yield _within(quantity, 0.972, internal.force, 0.005)
    yield claim(
        "energy: power < Kopf < internal force",
        "75.90 < 76.88 < 77.51",
        " < ".join(f"{one.energy:.2f}" for one in (power, kopf, internal)),
        power.energy < kopf.energy < internal.energy,
        SURROGATE,
    )
    yield claim(
        "internal force: the other way round",
        "0.972 < 18.16 < 117.2",
        " < ".join(f"{one.force:.3g}" for one in (internal, kopf, power)),
        internal.force < kopf.force < power.force,
        SURROGATE,
    )
    invariant = max(
        float(np.abs(one.joint_power - internal.joint_power).max()) for one in found.values()
    ) / float(np.abs(internal.joint_power).max())
    yield claim(
        "power imparted does not depend on the sharing (6.43)",
        "yes",
        f"{invariant:.1e}",
        invariant < 1e-12,
    )
    for key, printed in (("power", (0.00825, 0.979)), ("power (Kopf)", (0.05300, 0.992))):
        one = found[key]
        index = performance_indices(
            internal.times, internal.squares, one.squares, internal.power, one.power
        )
        yield shown(
            f"{key}: eta_f', eta_p'",
            f"{printed[0]:g} ({printed[1]:g} derived)",
            f"{index.global_force:.4g} {index.global_power:.4f}",
        )
        if key == "power (Kopf)":
            local = one.power[internal.power > 0.0] / internal.power[internal.power > 0.0]
            above = float(local.max())
            yield claim(
                "Kopf: eta_p exceeds 1 at times", "yes", f"{above:.4f}", above > 1.0, SURROGATE
            )
        yield claim(
            f"{key}: global indices between 0 and 1",
            "yes",
            f"{index.global_force:.3g} {index.global_power:.3g}",
            0.0 < index.global_force < 1.0 and 0.0 < index.global_power < 1.0,
            SURROGATE,
        )
    extra = 100.0 * (internal.loss / power.loss - 1.0)
    yield shown("winding loss of internal force, above that of power", "20-25 %", f"{extra:.1f} %")
    yield claim(
        "it is larger", "yes", f"{internal.loss:.2f} > {power.loss:.2f}", extra > 0.0, SURROGATE
    )
    yield lost("arm bases and grips (Fig. 6.10)", "as in the zoo, joints in their ranges")
    yield lost("spline of the motion", "cycloid")
    yield lost("column eta_p' of table 6.7", "derived from the printed energies")
    yield (
        "the text says that two wrist motors of each arm are idle: arms are in the plane of "
        "motion. Distance and height of the shoulders, place and angle of the hands are fitted to "
        "the energies and to what the text says of E16"
    )
    yield "the printed eta_f' do not follow from the printed integrals (0.00829, 0.0535)"


@cell_table("E11, table 6.7, another layout", "the same where all its values come out")
def _fitted_arms() -> Cells:
    found = shared_task(fitted=True)
    internal, power, _ = found.values()
    for (key, one), energy in zip(found.items(), (77.51, 75.90, 76.88), strict=True):
        yield _within(f"{key}: energy within 0.5 % [W s]", energy, one.energy, 0.005)
    for (key, one), force in zip(found.items(), (0.972, 117.2, 18.16), strict=True):
        yield _within(
            f"{key}: integral of x^ . x^ / 2 within 3 % [N^2 m^2 s]", force, one.force, 0.03
        )
    extra = 100.0 * (internal.loss / power.loss - 1.0)
    yield claim(
        "winding loss of internal force, above that of power",
        "20-25 %",
        f"{extra:.1f} %",
        20.0 <= extra <= 25.0,
        SURROGATE,
    )
    programs, hit = _struck(fitted_pumas())
    yield _smallest_step(smallest_step(programs, dt=0.01, changes=(hit,), start=hit))
    yield (
        "three numbers are fitted to these: shoulders 0.81 m from the center of the bar and "
        "0.025 m below it, hands at 120 degrees to it; grips are at its ends. The left elbow is "
        "below, and joints leave their ranges, of which the source does not speak"
    )
    yield (
        "friction of motors at rest counts at its full positive value, as SIGN(f, 0) of Fortran "
        "has it. Without it no layout was found with energies within 0.5 % and both integrals "
        "within 25 %; searched were distance and height of the shoulders, place and angle of the "
        "hands, four pairs of elbows, hands on one or both sides, grips at flange or wrist"
    )


def _within(quantity: str, printed: float, ours: float, share: float) -> Cell:
    """Return a printed value beside ours of a surrogate layout, which agree to a share of it."""
    near = abs(ours / printed - 1.0) < share
    return claim(quantity, f"{printed:g}", f"{ours:.4g}", near, SURROGATE)


def _smallest_step(least: float) -> Cell:
    """Return the smallest feasible step of torques, which is printed in whole newton metres."""
    quantity = "(b) smallest feasible step, in whole N m"
    return claim(quantity, "11", f"{least:.2f}", 10.0 < least <= 11.0, SURROGATE)


# -- pick and pour ---------------------------------------------------------------------------------


FULL, EMPTY = 0.4, 0.15
"""Mass of the glass [kg]."""

GLASS_RADIUS, GLASS_HEIGHT = 0.03, 0.12
"""Radius and height of the glass [m]."""


def _carried_hand() -> Model:
    """Return the hand with three fingers on a palm that moves."""
    hand = load("three_finger_hand")
    palm = Body("palm", joint=Free("palm"), inertia=Inertia.box(0.5, (0.1, 0.1, 0.02)))
    bodies = [palm]
    for body in hand.bodies:
        on_palm = body.parent == "world" and body.name != "glass"
        bodies.append(replace(body, parent="palm") if on_palm else body)
    return Model("carried hand", bodies, loops=hand.loops, actuators=hand.actuators)


def _glass(hand: Model, tilt: float) -> Model:
    """Return the hand with the glass as full as its tilt leaves it: solid to shell, linearly."""
    left = 1.0 - tilt / (0.5 * np.pi)
    mass = EMPTY + left * (FULL - EMPTY)
    solid = np.array(
        [FULL * (3 * GLASS_RADIUS**2 + GLASS_HEIGHT**2) / 12] * 2 + [0.5 * FULL * GLASS_RADIUS**2]
    )
    shell = np.array(
        [EMPTY * (6 * GLASS_RADIUS**2 + GLASS_HEIGHT**2) / 12] * 2 + [EMPTY * GLASS_RADIUS**2]
    )
    x, y, z = shell + left * (solid - shell)
    glass = Inertia(mass, (0.0, 0.0, 0.0), (x, 0.0, 0.0, y, 0.0, z))
    return with_inertias(hand, {"glass": glass})


def _grips(hand: Model, q: Array, friction: float) -> list[GripLimit]:
    """Return the contacts of the fingertips with the side of the glass."""
    R, center = forward_kinematics(hand, q, "glass")
    found = []
    for loop in hand.loops:
        assert isinstance(loop, LoopClosure)
        tip, origin = forward_kinematics(hand, q, loop.first)
        frame = tip @ np.array(loop.joint.pose.rotation)
        inward = R.T @ (center - (origin + tip @ np.array(loop.joint.pose.translation)))
        inward[2] = 0.0
        x, y, z = frame.T @ R @ (inward / np.linalg.norm(inward))
        found.append(GripLimit(loop.name, (float(x), float(y), float(z)), friction))
    return found


@cell_table("E12, table 6.4", "links of a finger, as in the zoo")
def _finger() -> Cells:
    hand = load("three_finger_hand")
    bars = zip(("base", "middle", "tip"), (20, 35, 25), (21.6, 37.8, 27.0),
               ((1440, 1440), (2520, 5120), (1800, 2310)), strict=True)  # fmt: skip
    for name, length, mass, (along, across) in bars:
        inertia = hand.body(f"finger_1_{name}").inertia
        size = (1e3 * inertia.mass, 2e3 * inertia.com[0])
        yield number(f"{name}: mass [g], length [mm]", (mass, length), size, 0.05)
        # printed to ten; solid bars give 5118.75 and 2306.25
        moments = (1e9 * inertia.tensor[0], 1e9 * inertia.tensor[3])
        yield number(f"{name}: Ixx, Iyy [g mm^2]", (along, across), moments, 5.0)


@cell_table("E12, table 6.5", "three fingers pick up a glass and pour")
def _pick_and_pour() -> Cells:
    hand = load("three_finger_hand")
    carried = _carried_hand()
    home = {name: np.array(hand.poses["home"])[hand.slice(name)] for name in hand.joint_names}
    motors = [actuator.joint for actuator in carried.actuators]
    active, status, sizes = [], [], (0, 0, 0)
    program: Constraints | None = None
    for t in np.linspace(0.0, 2.0, 41):
        q, v, vd, tilt = _carrying(carried, home, float(t))
        model = _glass(carried, tilt)
        plan = LoadSharing.of(
            model, driven=["palm", *motors], grips=_grips(carried, q, 0.5), sides=4, inscribed=False
        )
        share = plan.share(q, v, vd)
        status.append(str(share.status))
        y = np.asarray(share.multipliers)
        active.append(int(np.count_nonzero(y > 1e-9 * max(float(y.max()), 1e-300))))
        problem = plan.problem(q, v, vd)
        sizes = (problem.A1.shape[1], problem.A1.shape[0], problem.A2.shape[0])
        program = Constraints(problem.A1, problem.b1, problem.A2, problem.b2)
    assert program is not None
    upright = active[:21]
    kernel = compiled_qp(program)
    mine = best_time(lambda: kernel(np.eye(9), np.zeros(9), *program), 200)
    interpreted = best_time(lambda: solve_qp(np.eye(9), np.zeros(9), *program), 3)
    yield number("unknowns, equations, inequalities", (9, 6, 33), sizes, 0)
    yield claim(
        "feasible throughout",
        "yes",
        f"{sum(x in ('optimal', 'at limits') for x in status)} of 41",
        set(status) <= {"optimal", "at limits"},
        SURROGATE,
    )
    yield claim(
        "active rows while the glass is raised",
        "3",
        f"{min(upright)} to {max(upright)}",
        set(upright) == {3},
        SURROGATE,
    )
    yield shown("active rows while it pours", "3", f"{min(active[21:])} to {max(active[21:])}")
    yield timing(
        "time of another code over ours: IMSL; here our own method in Python",
        88.3 / 38.0,
        interpreted / mine,
    )
    yield lost(
        "finger bases, contacts, motion law (Fig. 6.7)", "zoo's layout, polynomials of fifth order"
    )


def _lifted(t: float) -> tuple[float, float, float]:
    """Return height and its two derivatives [m]: 200 mm in the first second."""
    share, rate, change = map(float, quintic(np.clip(t, 0.0, 1.0)))
    return 0.2 * share, 0.2 * rate, 0.2 * change


def _tilted(t: float) -> tuple[float, float, float]:
    """Return tilt and its two derivatives [rad]: 90 degrees in the second second."""
    share, rate, change = map(float, quintic(np.clip(t - 1.0, 0.0, 1.0)))
    return 0.5 * np.pi * share, 0.5 * np.pi * rate, 0.5 * np.pi * change


def _carrying(model: Model, home: dict[str, Array], t: float) -> tuple[Array, Array, Array, float]:
    """Return q, v, vd and tilt: palm and glass move as one, about the glass."""
    height, climb, lift = _lifted(t)
    tilt, rate, change = _tilted(t)
    half = 0.5 * tilt
    turn = np.array([np.cos(half), 0.0, np.sin(half), 0.0])
    R = np.array(
        [[np.cos(tilt), 0.0, np.sin(tilt)], [0.0, 1.0, 0.0], [-np.sin(tilt), 0.0, np.cos(tilt)]]
    )
    # the glass hangs 30 mm below the palm, its joint is there
    below = np.array([0.0, 0.0, -0.03])
    q = np.array(model.neutral())
    v, vd = np.zeros(model.nv), np.zeros(model.nv)
    up = np.array([0.0, 0.0, height])
    q[model.slice("palm")] = [*turn, *(up + below - R @ below)]
    q[model.slice("glass")] = [*turn, *up]
    for name, value in home.items():
        if name != "glass":
            q[model.slice(name)] = value
    # body axes at each origin; velocities in body axes, so that their rates lack w x v
    w, wd = np.array([0.0, rate, 0.0]), np.array([0.0, change, 0.0])
    for name, arm in (("glass", np.zeros(3)), ("palm", -below)):
        speed = R.T @ np.array([0.0, 0.0, climb]) + np.cross(w, arm)
        gravity_free = R.T @ np.array([0.0, 0.0, lift])
        classical = gravity_free + np.cross(wd, arm) + np.cross(w, np.cross(w, arm))
        own = model.slice(name, of="v")
        v[own], vd[own] = [*w, *speed], [*wd, *(classical - np.cross(w, speed))]
    return q, v, vd, tilt


# -- walker with four legs -------------------------------------------------------------------------


def _walker_programs() -> ForcePrograms:
    """Return the walker whose center of mass moves ahead at 0.3 m/s; foot 1 touches at 0.5 s."""
    q = np.array([walker_pose(0.45 + 0.3 * 0.01 * k) for k in range(101)])
    touching = np.ones((101, 4))
    touching[:50, 0] = 0.0
    problem = walker_plan().problem(q, touching=touching)
    # W = 1 as in the source, also for the foot in the air
    W, c = np.tile(np.eye(12), (101, 1, 1)), np.zeros((101, 12))
    return ForcePrograms(W, c, problem.A1, problem.b1, problem.A2, problem.b2)


def _norms(x: Array) -> Array:
    return np.asarray(np.linalg.norm(np.reshape(x, (-1, 3)), axis=-1))


def _static(x: float, touching: Sequence[int]) -> tuple[Array, int]:
    """Return forces of touching feet over the weight, and active limits of these."""
    taking_part = [float(k in touching) for k in range(4)]
    share = walker_plan().share(walker_pose(x), touching=taking_part)
    force = share.x.reshape(4, 3)[list(touching)].ravel() / 1000.0
    return np.asarray(force), int(np.count_nonzero(share.multipliers > 1e-9 * 1000.0))


@cell_table("E13", "walker on four legs, foot 1 lands")
def _walker() -> Cells:
    three, four = (1, 2, 3), (0, 1, 2, 3)
    model, q = walker_plan().model, walker_pose(0.6)
    for k, foot in enumerate(feet_of_walker(0.6), start=1):
        R, origin = forward_kinematics(model, q, f"leg_{k}_shank")
        place = origin + R @ np.array([0.0, 0.0, -0.6]) - (0.6, 0.0, 0.0)
        quantity = f"x = 0.6, foot {k} relative to the center of mass (6.65) [m]"
        yield number(quantity, foot, place, 5e-10, DERIVED)
    x, rows = _static(0.6, three)
    expected = (0.01923, -0.01282, 0.39744, 0.01923, 0.02564, 0.49359, -0.03846, -0.01282, 0.10897)
    yield number("x = 0.6, feet 2-4, forces", expected, x, 5e-6, DERIVED)
    yield number("its active rows", 0, rows, 0, DERIVED)
    for at, norms in (
        (0.6, (0.20113, 0.20273, 0.29789, 0.29896)),
        (0.5, (0.16859, 0.17204, 0.32991, 0.33165)),
    ):
        x, _ = _static(at, four)
        yield number(f"x = {at:g}, four feet, norms", norms, _norms(x), 5e-6, DERIVED)
        feet, force = feet_of_walker(at), x.reshape(4, 3)
        between = max(
            abs(float((force[i] - force[j]) @ (feet[i] - feet[j])))
            for i in range(4)
            for j in range(i)
        )
        yield claim(f"x = {at:g}, interaction force", "0", f"{between:.1e}", between < 1e-12)
    x, rows = _static(0.7, three)
    yield number("x = 0.7, feet 2-4, norms", (0.46438, 0.49720, 0.04803), _norms(x), 5e-6, DERIVED)
    yield number("force on foot 4", (-0.01961, -0.01961, 0.03922), x[6:], 5e-6, DERIVED)
    yield number("its active rows", 2, rows, 0, DERIVED)
    programs = _walker_programs()
    options: dict[str, Any] = {"dt": 0.01, "changes": (50,)}
    plain = smoothed_forces(programs, **options)
    limited = smoothed_forces(programs, StepBound(20.0), **options)
    ramped = smoothed_forces(programs, SmoothingPenalty(10.0, 0.5), **options)
    yield number("(a) jump at 0.5 s [N]", 201.10, plain.steps[50], 5e-3, SURROGATE)
    yield number("(b) 20 N a step: step at 0.5 s [N]", 20.0, limited.steps[50], 5e-3, SURROGATE)
    yield number(
        "(b) norms at 0.55 s [N]",
        (121.17, 289.64, 373.65, 217.69),
        _norms(limited.x[55]),
        5e-3,
        SURROGATE,
    )
    yield number("(c) rho = 10: step at 0.5 s [N]", 19.17, ramped.steps[50], 5e-3, SURROGATE)
    yield number(
        "(c) norms at 0.55 s [N]",
        (96.30, 313.63, 400.30, 191.47),
        _norms(ramped.x[55]),
        5e-3,
        SURROGATE,
    )
    yield number(
        "smallest feasible step [N]", 1.8208, smallest_step(programs, **options), 5e-5, SURROGATE
    )
    yield number(
        "from touch-down only [N]",
        0.9284,
        smallest_step(programs, start=50, **options),
        5e-5,
        SURROGATE,
    )
    yield lost(
        "weight, x_cm(t), friction pyramid (Fig. 6.15)", "1000 N, 0.45 + 0.3 t, circumscribed"
    )
    yield "through LoadSharing of the zoo's four_legged_walker, legs without weight"


# -- four-bar --------------------------------------------------------------------------------------


class _Balanced(NamedTuple):
    """Derived values at one time."""

    time: float
    one: tuple[float, ...]
    """Norms of f1 and f4 [N] and tau1 [N m] with one motor."""
    three: tuple[float, ...]
    """Torques with three motors [N m]."""
    four: tuple[float, ...]
    """Torques with four motors [N m]."""
    moment: float
    power: float


BALANCED = (
    _Balanced(
        0.0125, (2.4067, 2.4067, 1.9513), (-3.8432, -3.8915, -2.8342),
        (-1.2010, -1.2493, -0.1920, 2.6422), 3.8432, 8.9774,
    ),
    _Balanced(
        0.025, (1.3545, 1.3545, 1.1181), (-2.2903, -2.3887, -1.3288),
        (-0.7884, -0.8868, 0.1732, 1.5019), 2.2903, 17.5636,
    ),
    _Balanced(
        0.05, (3.8351, 3.8350, 0.8115), (7.3902, 7.2528, 5.7478),
        (2.2925, 2.1551, 0.6501, -5.0977), -7.3902, 25.4948,
    ),
    _Balanced(
        0.075, (1.8419, 1.8418, -1.5883), (-3.8383, -3.8085, -3.5043),
        (-1.0505, -1.0207, -0.7165, 2.7878), 3.8382, -24.9484,
    ),
    _Balanced(
        0.0875, (1.5032, 1.5031, -1.3848), (-3.3344, -3.2920, -2.8859),
        (-0.9563, -0.9139, -0.5078, 2.3781), 3.3344, -6.3713,
    ),
)  # fmt: skip
"""Values of the balanced linkage."""


@cell_table("E14, table 7.1", "four-bar linkage balanced by motors")
def _four_bar() -> Cells:
    model = load("balanced_four_bar")
    four = drive_cut_joint(model, "joint_4")
    yield from _table_7_1(model)
    worst = {"force": 0.0, "moment": 0.0, "power": 0.0}
    for t, one_motor, three_motors, four_motors, moment, power in BALANCED:
        motion = four_bar_motion(model, t)
        moved = driven_cut_state(model, four, *motion)
        one = balance_frame(model, *motion, driven=["joint_1"], world=FREE)
        three = balance_frame(model, *motion, world=FREE)
        all_four = balance_frame(four, *moved, world=FREE)
        norms = np.linalg.norm(one.forces, axis=-1)
        yield number(
            f"t = {t:g} s, one motor: |f1|, |f4| [N], tau1 [N m]",
            one_motor,
            (*norms, one.tau[0]),
            6e-5,
            DERIVED,
        )
        yield number("three motors: torques [N m]", three_motors, three.tau, 1e-4, DERIVED)
        # the fourth torque of the source acts on the frame
        yield number(
            "four motors: torques [N m]", four_motors, all_four.tau * (1, 1, 1, -1), 1e-4, DERIVED
        )
        yield number("net frame moment [N m]", moment, -one.net_moment[1], 1e-4, DERIVED)
        yield number("power [W]", power, one.power, 6e-5, DERIVED)
        worst["force"] = max(worst["force"], _largest(three), _largest(all_four))
        for other in (three, all_four):
            gap = float(np.abs(other.net_moment - one.net_moment).max())
            worst["moment"] = max(worst["moment"], gap)
            worst["power"] = max(worst["power"], abs(float(other.power - one.power)))
    yield claim(
        "f1 = f4 = 0 with three or four motors [N]",
        "0",
        f"{worst['force']:.1e}",
        worst["force"] < 1e-4,
    )
    yield claim(
        "net frame moment is the same in all cases [N m]",
        "same",
        f"{worst['moment']:.1e}",
        worst["moment"] < 1e-12,
    )
    yield claim(
        "power is the same in all cases [W]",
        "same",
        f"{worst['power']:.1e}",
        worst["power"] < 1e-11,
    )
    exact = exactly_balanced(model)
    rest = max(
        _largest(balance_frame(exact, *four_bar_motion(exact, t), world=FREE)) for t, *_ in BALANCED
    )
    yield claim("with (7.1) imposed exactly [N]", "0", f"{rest:.1e}", rest < 1e-12)
    two = max(
        _largest(
            balance_frame(
                exact, *four_bar_motion(exact, t), world=FREE, driven=["joint_1", "joint_2"]
            )
        )
        for t, *_ in BALANCED
    )
    yield claim("two motors do not suffice [N]", "more than 0", f"{two:.3f}", two > 0.1)


def unbalanced_four_bar() -> Model:
    """Return the linkage of Angeles and Lee: centers of mass in the middle of the links.

    Its column of table 7.1 is damaged. The text says that the balanced linkage has "the same
    dimensions but ... the location of its link centres of mass altered", so that masses and
    moments of inertia are those of the balanced column: 0.75e-4, 4.16e-4 and 5e-4 kg m^2.
    """
    model = load("balanced_four_bar")
    inertias = {}
    for body, length in zip(model.bodies, LENGTHS, strict=True):
        middle = (0.5 * length, 0.0, 0.0)
        inertias[body.name] = Inertia(body.inertia.mass, middle, body.inertia.tensor)
    return with_inertias(model, inertias)


@cell_table("E14, figures 7.3 and 7.4", "four-bar linkage that is not balanced")
def _unbalanced() -> Cells:
    model = unbalanced_four_bar()
    four = drive_cut_joint(model, "joint_4")
    centers = [float(np.hypot(*body.inertia.com[:2])) for body in model.bodies[:2]]
    yield number("|c11|, |c21| [m]", (0.5, 1.414), centers, 5e-4)
    largest: dict[str, list[float]] = {"one": [], "four": []}
    worst, apart, turned = 0.0, 0.0, np.inf
    for t in np.linspace(0.005, 0.095, 19):
        motion = four_bar_motion(model, float(t))
        moved = driven_cut_state(model, four, *motion)
        one = balance_frame(model, *motion, driven=["joint_1"], world=FREE)
        all_four = balance_frame(four, *moved, world=FREE)
        first, last = all_four.forces
        largest["one"].append(_largest(one))
        largest["four"].append(_largest(all_four))
        sizes = float(np.linalg.norm(first)), float(np.linalg.norm(last))
        worst = max(worst, abs(sizes[0] - sizes[1]) / max(sizes))
        net = np.sum(one.forces, axis=0)
        apart = max(apart, float(np.abs(np.sum(all_four.forces, axis=0) - net).max()))
        turned = min(turned, float(np.linalg.norm(net)))
    yield claim(
        "four motors: |f1| and |f4| are equal, relative", "equal", f"{worst:.1e}", worst < 1e-9
    )
    yield claim(
        "net force on the frame as with one motor [N]", "identical", f"{apart:.1e}", apart < 1e-10
    )
    yield claim(
        "it is not zero: least over the motion [N]", "not zero", f"{turned:.3f}", turned > 0
    )
    peaks = {key: max(values) for key, values in largest.items()}
    yield claim(
        "largest force on the frame, one motor to four [N]",
        "reduced, not to zero",
        f"{peaks['one']:.3f} to {peaks['four']:.3f}",
        0.0 < peaks["four"] < peaks["one"],
    )
    yield "masses and moments of inertia are those of the balanced column, as the text says"


def _table_7_1(model: Model) -> list[Cell]:
    """Return checks of the printed data: they satisfy (7.1) to their digits."""
    m1, m2, m3 = (body.inertia.mass for body in model.bodies)
    c11, c22, c21, c32 = 0.656, 0.856, 3.487, 3.205
    l2 = 2.0 * float(np.sqrt(2.0))
    one, three = (np.array(model.body(name).inertia.com) for name in ("link_1", "link_3"))
    return [
        number("masses [kg]", (3e-4, 6.5e-4, 5e-4), (m1, m2, m3), 1e-12),
        number(
            "|c11|, |c31| [m]", (0.656, 5.186), (np.hypot(*one[:2]), np.hypot(*three[:2])), 5e-4
        ),
        print_check(
            "(7.1a): m1 |c11| and m2 |c22| l1/l2, over 1e-4",
            m1 * c11 * 1e4,
            m2 * c22 / l2 * 1e4,
            5e-3,
        ),
        print_check(
            "(7.1b): m3 |c32| and m2 |c21| l3/l2, over 1e-3",
            m3 * c32 * 1e3,
            m2 * c21 * 2.0 / l2 * 1e3,
            5e-3,
        ),
    ]


def _largest(balance: FrameBalance) -> float:
    return float(np.linalg.norm(balance.forces, axis=-1).max())


# -- shock -----------------------------------------------------------------------------------------


def _struck(model: Model) -> tuple[ForcePrograms, int]:
    """Return the turn of the bar around 1 s, where 100 N strike it, and the step of the blow."""
    times = np.arange(0.9, 1.3, 0.01)
    q, v, vd = pumas_motion(model, np.concatenate([np.linspace(0.0, 0.89, 60), times]))
    q, v, vd = q[60:], v[60:], vd[60:]
    # W = 1 as in the source
    plan = LoadSharing.of(model, world=FREE, objective=InternalForce(length=1.0))
    calm = plan.problem(q, v, vd, formulation="superposition")
    n, driven = len(plan.names), list(plan.layout.driven)
    # a force along x of the world at the center of the bar, in its axes
    hit = int(np.argmin(np.abs(times - 1.0)))
    axes = np.array([forward_kinematics(model, one, "bar")[0] for one in q])
    force = np.einsum("kji,j->ki", axes, np.array([100.0, 0.0, 0.0]))
    shock = Shock(model.slice("bar", of="v").start, force, np.zeros(3), hit)
    b1, undriven = struck(calm.b1, shock), list(plan.layout.undriven)
    return torque_programs(calm.A1, b1, calm.A2, calm.b2, n, driven, undriven), hit


@cell_table("E16", "two PUMA 560, a shock of 100 N")
def _shock() -> Cells:
    """Return the task of E11 with a force of 100 N on the bar from 1 s on."""
    programs, hit = _struck(two_pumas())
    options: dict[str, Any] = {"dt": 0.01, "changes": (hit,)}
    plain = smoothed_forces(programs, **options)
    least = smallest_step(programs, start=hit, **options)
    limited = smoothed_forces(programs, StepBound(11.0, on="torques"), start=hit, **options)
    ramped = smoothed_forces(programs, SmoothingPenalty(10.0, 1.0, on="torques"), **options)
    hard = smoothed_forces(programs, SmoothingPenalty(100.0, 1.0, on="torques"), **options)
    jumps = [float(run.steps[hit]) for run in (plain, limited, ramped, hard)]
    yield from _jumps_of_motors(
        *(np.abs(run.kept[hit] - run.kept[hit - 1]) for run in (plain, limited, ramped))
    )
    yield _smallest_step(least)
    yield claim(
        "(b) step limits reduce the jump [N m]",
        "less",
        f"{jumps[0]:.2f} to {jumps[1]:.2f}",
        jumps[1] < jumps[0],
        SURROGATE,
    )
    yield claim(
        "(c) rho = 10 reduces the jump [N m]",
        "less",
        f"{jumps[0]:.2f} to {jumps[2]:.2f}",
        jumps[2] < jumps[0],
        SURROGATE,
    )
    yield claim(
        "the penalty always has a solution",
        "yes",
        f"{ramped.failed is None}",
        ramped.failed is None,
        SURROGATE,
    )
    yield claim(
        "a step below the smallest has none",
        "infeasible",
        "infeasible" if _fails(programs, 0.9 * least, hit) else "feasible",
        _fails(programs, 0.9 * least, hit),
        SURROGATE,
    )
    yield claim(
        "larger rho smooths no further: jump with rho = 100 over that with 10",
        "no further",
        f"{jumps[3] / jumps[2]:.3f}",
        abs(jumps[3] / jumps[2] - 1.0) < 0.05,
        SURROGATE,
    )
    yield lost("arm bases and grips (Fig. 6.10)", "as for E11")


def _jumps_of_motors(plain: Array, limited: Array, ramped: Array) -> Cells:
    """Yield what the text says of single motors (7.2.2), for both arms.

    Args:
        plain: Jumps of all motors without smoothing (a), six of each arm [N m].
        limited: With step limits (b).
        ramped: With a penalty (c).
    """
    idle = (4, 6)
    for case, after, less, more in (
        ("b", limited, (3,), (2, 5)),
        ("c", ramped, (1, 3), (2, 4, 5, 6)),
    ):
        for arm, first in (("left", 0), ("right", 6)):
            for motor in sorted((*less, *more)):
                before, now = plain[first + motor - 1], after[first + motor - 1]
                yield claim(
                    f"({case}) jump of motor {motor}, {arm} arm [N m]",
                    "reduced" if motor in less else "increased",
                    f"{before:.2f} to {now:.2f}",
                    now < before if motor in less else now > before,
                    SURROGATE,
                )
    for case, jumps in (("a", plain), ("b", limited)):
        largest = max(float(jumps[first + motor - 1]) for first in (0, 6) for motor in idle)
        yield claim(
            f"({case}) motors 4 and 6 of both arms are not active, largest jump [N m]",
            "not active",
            f"{largest:.1e}",
            largest < 1e-6,
            SURROGATE,
        )


def _fails(programs: ForcePrograms, bound: float, hit: int) -> bool:
    run = smoothed_forces(
        programs, StepBound(bound, on="torques"), dt=0.01, changes=(hit,), start=hit
    )
    return run.failed is not None


TASKS = {
    "E11": (_motors, _two_arms, _fitted_arms),
    "E12": (_finger, _pick_and_pour),
    "E13": _walker,
    "E14": (_four_bar, _unbalanced),
    "E16": _shock,
}
"""Tables of chapters 6.2 and 7 by example."""
