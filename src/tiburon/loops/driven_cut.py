"""Motors in joints that close loops.

The joint that closes a loop has no variable, and so no motor. Its body is divided: one part of its
inertia stays with the body, the other is carried by the joint, which now belongs to the tree, and a
weld closes the loop. Motion and forces are those of the undivided body.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.argument_checks import vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, UnknownNameError
from tiburon.loops.constraints import constraints, loop_rows
from tiburon.loops.cut_joints import cut_joint, places_of
from tiburon.loops.recut import reversed_joint
from tiburon.model import Actuator, Body, Fixed, Inertia, LoopClosure, Model, Pose
from tiburon.model.body import WORLD
from tiburon.model.composition import changed

CLOSED_RESIDUAL = 1e-6
"""Loop-closure error up to which a state can be converted [m or rad]."""

LEAST_SHARE = 1e-6
"""Least part of the mass on either side of a divided body; below, digits of forces are lost."""


@public
def drive_cut_joint(
    model: Model, loop: str, actuator: Actuator | None = None, *, share: float = 0.5
) -> Model:
    """Return a mechanism with a motor in the joint that closes a loop.

    Args:
        model: The robot.
        loop: Name of the loop; its joint gets variables under that name, after all others.
        actuator: The motor; by default one without limits, named after the joint.
        share: Part of the body's mass that the joint carries, from 1e-6 to 1 - 1e-6. Motion and
            forces do not depend on it.

    Returns:
        The mechanism; states are converted by `driven_cut_state`.

    Raises:
        ModelError: If the loop is not closed by a joint, or that joint cannot be reversed where it
            moves the world.
        DomainError: If the share is outside its range.

    Example:
        ``tb.drive_cut_joint(tb.load("balanced_four_bar"), "joint_4")``
    """
    loops = {one.name: one for one in model.loops}
    if loop not in loops:
        raise UnknownNameError("loop", loop, list(loops))
    share = float(share)
    if not LEAST_SHARE <= share <= 1.0 - LEAST_SHARE:
        expected = f"a number from {LEAST_SHARE:g} to 1 - {LEAST_SHARE:g}"
        raise DomainError("share", expected, f"{share:g}")
    own = loops[loop]
    if not isinstance(own, LoopClosure) or own.joint.nv == 0:
        raise ModelError(
            f"loop {loop!r}: expected one that a moving joint closes, got a "
            f"{getattr(getattr(own, 'joint', own), 'kind', 'coupling')}; it has nothing to drive",
            name=loop,
        )
    own = _facing_a_body(model, own)
    mounts = {frame.name: (frame.body, frame.pose) for frame in model.frames}
    first, on_first = mounts.get(own.first, (own.first, Pose()))
    second, on_second = mounts.get(own.second, (own.second, Pose()))
    body = model.body(second)
    moving = on_second @ own.second_pose
    part, rest = (_scaled(body.inertia, factor) for factor in (share, 1.0 - share))
    if not body.inertia.mass:
        raise ModelError(
            f"loop {loop!r}: expected a body with mass at its joint, got {second!r} without; weld "
            "it to one that has mass",
            name=loop,
        )
    carried = Body(
        _free_name(model, f"{second} at {loop}"),
        first,
        joint=changed(own.joint, name=loop, pose=on_first @ own.joint.pose),
        inertia=part.moved(moving.inverse()),
    )
    weld_name = _free_name(model, f"{loop} weld")
    weld = LoopClosure(weld_name, carried.name, second, Fixed(weld_name), moving)
    bodies = tuple(
        changed(one, inertia=rest) if one.name == second else one for one in model.bodies
    )
    kept = tuple(weld if one.name == loop else one for one in model.loops)
    motor = actuator or Actuator(_free_motor(model, f"{loop} motor"), loop)
    if motor.joint != loop:
        raise ModelError(
            f"actuator {motor.name!r}: expected one of joint {loop!r}, got one of "
            f"{motor.joint!r}; name the joint of the loop",
            name=motor.name,
        )
    parts = model._parts._replace(
        bodies=(*bodies, carried), loops=kept, actuators=(*model.actuators, motor), poses=()
    )
    found = model._changed(parts, None)
    poses = {}
    for key, q in model.poses.items():
        try:
            poses[key] = driven_cut_state(model, found, q)[0]
        except DomainError:
            # open there
            continue
    return found.with_poses(poses) if poses else found


def _scaled(inertia: Inertia, factor: float) -> Inertia:
    """Return a part of a body, with the same center of mass."""
    xx, xy, xz, yy, yz, zz = (factor * x for x in inertia.tensor)
    return Inertia(factor * inertia.mass, inertia.com, (xx, xy, xz, yy, yz, zz))


def _facing_a_body(model: Model, loop: LoopClosure) -> LoopClosure:
    """Return a loop whose joint moves a body, not the world."""
    home = {frame.name: frame.body for frame in model.frames}
    if home.get(loop.second, loop.second) != WORLD:
        return loop
    turned = reversed_joint(loop.joint)
    if turned is None:
        raise ModelError(
            f"loop {loop.name!r}: expected a joint that moves a body, got one that moves the world "
            "and cannot be reversed; exchange first and second",
            name=loop.name,
        )
    joint = changed(turned, pose=loop.second_pose)
    return LoopClosure(loop.name, loop.second, loop.first, joint, loop.joint.pose)


def _free_name(model: Model, name: str) -> str:
    names = {*model.frame_names, *(loop.name for loop in model.loops)}
    while name in names:
        name += "'"
    return name


def _free_motor(model: Model, name: str) -> str:
    names = {actuator.name for actuator in model.actuators}
    while name in names:
        name += "'"
    return name


@public
def driven_cut_state(
    model: Model,
    other: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vd: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """Convert a motion of a mechanism to that with a motor in a joint that closed a loop.

    Args:
        model: The mechanism.
        other: The one from `drive_cut_joint`.
        q: Configuration with closed loops [m or rad], shape (nq,).
        v: Joint velocity with J v = 0 [m/s or rad/s], shape (nv,); zero by default.
        vd: Joint acceleration that keeps loops closed, shape (nv,); zero by default.

    Raises:
        DomainError: If loops are open.
        ModelError: If the mechanisms differ.
    """
    at = np.asarray(model.normalize(q))
    rate = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    change = np.zeros(model.nv) if vd is None else vector("vd", vd, model.nv)
    added = [joint.name for joint in other.joints if joint.name not in model.joint_names]
    loops = {loop.name: loop for loop in model.loops}
    if len(added) != 1 or added[0] not in loops or other.nq != model.nq + other.joint(added[0]).nq:
        raise ModelError(
            f"model {other.name!r}: expected {model.name!r} with a motor in one joint more, got "
            "another; pass the result of drive_cut_joint"
        )
    own = loops[added[0]]
    assert isinstance(own, LoopClosure)
    found = cut_joint(_facing_a_body(model, own), places_of(model, at))
    if found.error > CLOSED_RESIDUAL:
        raise DomainError(
            "q",
            f"a configuration in which loop {added[0]!r} is closed",
            f"a loop-closure error of {found.error:.3g}",
            advice="close the loops first (assemble)",
        )
    q_other = np.concatenate([at, found.q])
    weld = next(loop for loop in other.loops if loop.name not in loops)
    rows = loop_rows(other, weld.name)
    nv = model.nv

    def held(velocity: Sequence[float]) -> tuple[Array, Array]:
        terms = constraints(other, other.plan, q_other.tolist(), list(velocity))
        J = np.zeros((len(rows), other.nv))
        for k, row in enumerate(rows):
            for i, x in terms.jacobian[row].items():
                J[k, i] = x
        return J, np.array([terms.bias[row] for row in rows], dtype=np.float64)

    J, _ = held([0.0] * other.nv)
    v_other = np.concatenate([rate, np.linalg.lstsq(J[:, nv:], -J[:, :nv] @ rate, rcond=None)[0]])
    _, bias = held(v_other.tolist())
    right = -J[:, :nv] @ change - (bias if v is not None else 0.0)
    vd_other = np.concatenate([change, np.linalg.lstsq(J[:, nv:], right, rcond=None)[0]])
    return q_other, v_other, vd_other
