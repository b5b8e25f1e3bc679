"""Mobility of walkers and hands while some contacts touch, and after motors have failed.

A contact point that sticks is a ball joint between its body and the ground: with these the robot is
a closed mechanism, whose mobility M(t) and redundancy r(t) change as feet land and lift (Nahon
1991, sections 2.2 and 2.4). Which motors may be left passive, or have to be, follows from the
condition number kappa(J_u) of the others (section 3.5): an actuator that is feathered does not work
against the rest.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import DomainError, ModelError, ShapeError, UnknownNameError, shown
from tiburon.functions.contact import contacts
from tiburon.functions.kinematics import forward_kinematics
from tiburon.functions.mobility import (
    Mobility,
    MotorSet,
    driven_joints,
    mobility,
    motor_sets,
    position_of,
)
from tiburon.model import Ground, LoopClosure, Model, Pose, World
from tiburon.model.joints import Spherical
from tiburon.record import record


def standing_model(
    model: Model, q: ArrayLike, touching: Sequence[str], world: World | None = None
) -> Model:
    """Return a robot whose feet are held by ball joints where they touch the ground.

    `contact_closure` lets them roll, and has no joint whose rates are columns of J_u.

    Args:
        model: The robot.
        q: Configuration [m or rad], shape (nq,).
        touching: Names of contact points that stick.
        world: Surroundings with the ground; level ground by default. Feet are held where they are
            nearest to it.

    Raises:
        UnknownNameError: If there is no such contact point.
    """
    at = np.asarray(q, dtype=np.float64)
    if at.shape != (model.nq,):
        raise ShapeError("q", (model.nq,), at.shape)
    known = [point.name for point in model.contacts]
    for name in touching:
        if name not in known:
            raise UnknownNameError("contact point", name, known)
    around = World(ground=Ground()) if world is None else world
    if not touching:
        return model
    loops = []
    here = contacts(model, at, world=around)
    bodies = {point.name: point.body for point in model.contacts}
    for name in touching:
        p = np.asarray(here.point)[list(here.names).index(name)]
        R, origin = forward_kinematics(model, at, bodies[name])
        local = np.asarray(R).T @ (p - np.asarray(origin))
        ball = Spherical(f"{name} ball", pose=Pose(translation=tuple(p.tolist())))
        held = Pose(translation=tuple(local.tolist()))
        loops.append(LoopClosure(name, "world", bodies[name], ball, held))
    return model.with_loops(*loops)


@record
class PhaseMobility:
    """Mobility of one phase of a gait."""

    touching: tuple[str, ...]
    """Contact points that stick."""

    mobility: Mobility
    """Of the robot on these: M, r, joints that no actuator drives, kappa(J_u)."""

    @property
    def summary(self) -> str:
        """One line: feet, M, r."""
        found = self.mobility
        feet = ", ".join(self.touching) or "no foot"
        line = f"{feet}: mobility {found.mobility}, redundancy {found.redundancy}"
        if found.loose_mobility:
            line += (
                f", {found.loose_mobility} DoF that no actuator drives ({', '.join(found.loose)})"
            )
        return line


@public
def gait_mobility(
    model: Model,
    q: ArrayLike,
    phases: Sequence[Sequence[str]],
    *,
    driven: Iterable[str] | None = None,
    world: World | None = None,
) -> tuple[PhaseMobility, ...]:
    """Return mobility M and redundancy r of a walker in each phase of a gait.

    Args:
        model: The robot.
        q: Configuration [m or rad], shape (nq,), or one per phase, shape (phases, nq).
        phases: Names of the contact points that stick, phase by phase.
        driven: Names of driven joints; those of actuators and cylinders by default.
        world: Surroundings with the ground; level ground by default.

    Example:
        ``[p.mobility.redundancy for p in tb.gait_mobility(dog, q, [["front_left_foot"], []])]``
    """
    if not isinstance(phases, (tuple, list)) or any(isinstance(phase, str) for phase in phases):
        raise ModelError(
            f"phases: expected names of contact points phase by phase, got {shown(phases)}; write "
            "[['foot_1', 'foot_2'], ['foot_3']]"
        )
    given = np.asarray(q, dtype=np.float64)
    at = np.tile(given, (len(phases), 1)) if given.ndim == 1 else given
    if at.shape != (len(phases), model.nq):
        raise ShapeError("q", f"({model.nq},) or ({len(phases)}, {model.nq})", given.shape)
    names = driven_joints(model) if driven is None else tuple(driven)
    found = []
    for pose, feet in zip(at, phases, strict=True):
        standing = standing_model(model, pose, tuple(feet), world)
        found.append(PhaseMobility(tuple(feet), mobility(standing, pose, driven=names)))
    return tuple(found)


@record
class Feathering:
    """Which motors to use when some have failed."""

    failed: tuple[str, ...]
    """Joints whose motors have failed."""

    remaining: tuple[str, ...]
    """Joints whose motors are left."""

    condition_before: float
    """kappa(J_u) with all motors."""

    condition: float
    """kappa(J_u) with all that are left; infinite if they do not hold the robot. Never smaller than
    with all (section 3.5)."""

    mobility: int
    """Degrees of freedom M of the robot."""

    redundancy: int
    """Motors left beyond the mobility; negative if there are too few."""

    ranked: tuple[MotorSet, ...]
    """Sets of M motors among those left, the best first; empty if they do not suffice."""

    lost: tuple[str, ...]
    """Joints that can move though all motors that are left hold still."""

    lost_mobility: int
    """Degrees of freedom that no remaining actuator can hold."""

    @property
    def best(self) -> MotorSet | None:
        """The best set without redundancy: the others may be left passive."""
        return self.ranked[0] if self.ranked else None

    @property
    def summary(self) -> str:
        """The remaining mobility and motors, in a sentence or two."""
        all_of = len(self.failed) + len(self.remaining)
        lead = f"{len(self.failed)} of {all_of} motors failed" if self.failed else "no motor failed"
        if self.lost_mobility:
            return (
                f"{lead}: {self.lost_mobility} of {self.mobility} degrees of freedom cannot be "
                f"held any more ({', '.join(self.lost)})"
            )
        best = self.best
        assert best is not None
        return (
            f"{lead}; the others hold all {self.mobility} degrees of freedom with kappa "
            f"{self.condition:.4g} (before {self.condition_before:.4g}), redundancy "
            f"{self.redundancy}; the best {self.mobility} alone are {', '.join(best.joints)} with "
            f"kappa {best.condition:.4g}"
        )


@public
def feathering(
    model: Model,
    q: ArrayLike | None = None,
    *,
    failed: Sequence[str] = (),
    driven: Iterable[str] | None = None,
    touching: Sequence[str] | None = None,
    world: World | None = None,
    length: float = 1.0,
) -> Feathering:
    """Name the best remaining set of motors when some have failed, and what is lost.

    Sets are ranked by the condition number kappa(J_u) of the passive joints (Nahon 1991, eqs. 3.45
    to 3.53), as `motor_sets` does.

    Args:
        model: The robot: a closed mechanism, or a walker whose feet stick.
        q: Configuration [m or rad], shape (nq,); as in `mobility`.
        failed: Names of joints whose motors have failed.
        driven: Names of all joints with motors; those of actuators and cylinders by default.
        touching: Names of contact points that stick, held as by ball joints; none by default.
        world: Surroundings with the ground; level ground by default.
        length: Unit of length [m]: kappa depends on it.

    Raises:
        UnknownNameError: If a failed joint has no motor.
        DomainError: If all motors together do not hold the robot.

    Example:
        ``print(tb.feathering(tb.load("planar_walker"), failed=["joint_2"]).summary)``
    """
    at = position_of(model, q)
    if touching:
        model = standing_model(model, at, touching, world)
    names = driven_joints(model) if driven is None else tuple(driven)
    gone = (failed,) if isinstance(failed, str) else tuple(failed)
    for name in gone:
        if name not in names:
            raise UnknownNameError("driven joint", name, names, where="failed")
    left = tuple(name for name in names if name not in gone)
    whole = mobility(model, at, driven=names, length=length)
    if whole.loose_mobility:
        raise DomainError(
            "driven",
            f"motors that hold all {whole.mobility} degrees of freedom before some fail",
            f"{whole.loose_mobility} left to {', '.join(whole.loose)}",
            advice="name more joints, or contact points that touch",
        )
    found = mobility(model, at, driven=left, length=length)
    ranked: tuple[MotorSet, ...] = ()
    if not found.loose_mobility and found.mobility:
        ranked = motor_sets(model, at, driven=left, length=length)
    return Feathering(
        failed=gone,
        remaining=left,
        condition_before=whole.condition,
        condition=found.condition if not found.loose_mobility else math.inf,
        mobility=found.mobility,
        redundancy=found.redundancy,
        ranked=ranked,
        lost=found.loose,
        lost_mobility=found.loose_mobility,
    )
