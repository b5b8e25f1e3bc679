"""Actuation of single joints: which motions actuators drive, and what bearings carry.

The wrenches of a joint's actuators span a force subspace F, which need not align with the motion
subspace S: a hydraulic cylinder beside a hinge pushes along its own line of action. The work matrix
S^T F decides which motions are actuated (Featherstone 1987, section 7.4.2).

Symbols: S motion subspace, F force subspace of the actuators, Qa their forces, f the force a
joint transmits, all in body coordinates.
"""

from typing import TYPE_CHECKING

import numpy as np

from tiburon.argument_checks import refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ShapeError
from tiburon.model.joints import Joint
from tiburon.record import record
from tiburon.spatial import subspace_matrix

if TYPE_CHECKING:
    from tiburon.model.model import Model

UNACTUATED = "unactuated"
UNDERACTUATED = "underactuated"
FULLY_ACTUATED = "fully actuated"
REDUNDANTLY_ACTUATED = "redundantly actuated"

RANK_TOLERANCE = 1e-10
"""Singular value of the normalized work matrix below which a direction is unactuated."""


@public
@record(slots=False, eq=False)
class JointActuation:
    """Actuation of one joint at one position: work matrix, rank and bearing loads."""

    joint: str
    """Name of the joint."""

    S: Array
    """Motion subspace in body coordinates, shape (6, nv)."""

    F: Array
    """Force subspace of the actuators, [n; f] of unit force each, shape (6, actuators)."""

    @property
    def work(self) -> Array:
        """S^T F: joint forces per actuator force, shape (nv, actuators)."""
        return self.S.T @ self.F

    @property
    def rank(self) -> int:
        """Number of independent degrees of freedom that the actuators drive."""
        if 0 in self.work.shape:
            return 0
        lengths = [np.linalg.norm(part, axis=0) for part in (self.S, self.F)]
        # the rank must not depend on the units of S and F
        scale = np.outer(*(np.where(length > 0.0, length, 1.0) for length in lengths))
        return int(np.sum(np.linalg.svd(self.work / scale, compute_uv=False) > RANK_TOLERANCE))

    @property
    def status(self) -> str:
        """Status: "unactuated", "underactuated", "fully actuated" or "redundantly actuated".

        S^T F of fully actuated ("properly powered", section 7.4.2) joints is square and
        non-singular; redundantly actuated joints have more actuators than degrees of freedom.
        """
        nv, actuators = self.work.shape
        if self.rank == 0 and nv > 0:
            return UNACTUATED
        if self.rank < nv:
            return UNDERACTUATED
        return FULLY_ACTUATED if actuators == nv else REDUNDANTLY_ACTUATED

    def joint_force(self, actuator_force: ArrayLike) -> Array:
        """Return the joint forces S^T F Qa (eq. 7.13).

        Args:
            actuator_force: One force per actuator [N or N m], shape (..., actuators).
        """
        given = self._checked("actuator_force", actuator_force, self.F.shape[1])
        return given @ self.work.T

    def actuator_force(self, tau: ArrayLike) -> Array:
        """Return the actuator forces Qa that produce given joint forces (eq. 7.14).

        For redundantly actuated joints, the solution with the least sum of squares.

        Args:
            tau: Joint force [N or N m], shape (..., nv).

        Raises:
            DomainError: If the joint is not fully actuated.
        """
        given = self._checked("tau", tau, self.S.shape[1])
        if self.rank < self.S.shape[1]:
            raise DomainError(
                f"joint {self.joint!r}",
                f"actuators that drive all {self.S.shape[1]} degrees of freedom",
                f"{self.rank}: it is {self.status}",
                advice="add actuators, or leave the joint force out",
            )
        found: Array = given @ np.linalg.pinv(self.work).T
        return found

    def bearing_projector(self) -> Array:
        """Return 1 - F (S^T F)^-1 S^T, which projects f onto the bearing load (eq. 7.15).

        Returns:
            Idempotent matrix, shape (6, 6); the bearing load does no work on the joint.

        Raises:
            DomainError: If the joint is not fully actuated with as many actuators as degrees of
                freedom, so that the split is not unique.
        """
        if self.status != FULLY_ACTUATED:
            raise DomainError(
                f"joint {self.joint!r}",
                "a fully actuated joint",
                f"a joint that is {self.status}",
                advice="give as many independent actuators as the joint has degrees of freedom",
            )
        return np.eye(6) - self.F @ np.linalg.solve(self.work, self.S.T)

    def _checked(self, argument: str, value: ArrayLike, size: int) -> Array:
        refuse_unusable(argument, value)
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ShapeError(argument, f"(..., {size}) at joint {self.joint!r}", array.shape)
        return array


@public
def joint_actuation(
    joint: Joint, actuators: ArrayLike | None = None, q: ArrayLike | None = None
) -> JointActuation:
    """Analyze the actuation of a joint.

    Args:
        joint: The joint.
        actuators: Wrench [n; f] of a unit force of each actuator on the body, body axes about the
            body origin, shape (actuators, 6). By default one along each degree of freedom.
        q: Position of the joint, shape (nq,); neutral by default.

    Returns:
        Work matrix, status and bearing projector.

    Example:
        A cylinder that pushes along x, 0.1 m above a hinge about y::

            cylinder = joint_actuation(Revolute("hinge", (0, 1, 0)), [(0, 0.1, 0, 1, 0, 0)])
            cylinder.status  # "fully actuated"
    """
    position = joint.neutral() if q is None else vector("q", q, joint.nq).tolist()
    S = subspace_matrix(joint.subspace(position)).astype(np.float64)
    if actuators is None:
        # couples for rotations, forces for translations: the dual basis in their span
        return JointActuation(joint.name, S, np.linalg.pinv(S).T.astype(np.float64))
    refuse_unusable("actuators", actuators)
    rows = np.asarray(actuators, dtype=np.float64)
    F = rows.reshape(0, 6).T if rows.size == 0 else rows.T
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 6):
        raise ShapeError("actuators", "(actuators, 6)", rows.shape, advice="one row [n; f] each")
    return JointActuation(joint.name, S, F)


@public
def actuation_report(
    model: "Model", actuators: dict[str, ArrayLike] | None = None, q: ArrayLike | None = None
) -> dict[str, JointActuation]:
    """Analyze the actuation of every moving joint of a robot.

    Args:
        model: The robot.
        actuators: By joint name, wrenches as for `joint_actuation`; an empty list for none. Other
            joints have an actuator along each degree of freedom, floating bases have none.
        q: Configuration of the robot, shape (nq,); neutral by default.

    Returns:
        One entry per joint name.
    """
    given = dict(actuators or {})
    position = model.neutral() if q is None else vector("q", q, model.nq)
    for name in given:
        model.joint(name)
    found = {}
    for joint in model.joints:
        if joint.nv == 0:
            continue
        floating = joint.kind == "free" and joint.name not in given
        wrenches = np.zeros((0, 6)) if floating else given.get(joint.name)
        found[joint.name] = joint_actuation(joint, wrenches, position[model.slice(joint.name)])
    return found
