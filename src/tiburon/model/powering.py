"""Which joints their actuators can move, and what their bearings carry.

Actuators of a joint exert wrenches in a sub-space F of their own, which need not lie along the
joint's freedoms S: a hydraulic cylinder beside a hinge pushes along its own line. What counts is
the work S^T F that they can do (Featherstone 1987, section 7.4.2).

Symbols: S motion sub-space, F force sub-space of the actuators, Qa their forces, f the force a
joint transmits, all in body coordinates.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import refuse_unusable, vector
from tiburon.arguments import public
from tiburon.errors import DomainError, ShapeError
from tiburon.model.joints import Joint
from tiburon.record import record
from tiburon.spatial import subspace_matrix

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]

UNPOWERED, UNDERPOWERED, PROPER, OVERPOWERED = "un", "under", "properly", "over"

DEPENDENT = 1e-10
"""Singular value, relative to the largest possible, below which a direction gets no power."""


@record(slots=False, eq=False)
class Powering:
    """How the actuators of one joint work on its freedoms, at one position."""

    joint: str
    """Name of the joint."""

    S: Array
    """Motion sub-space in body coordinates, shape (6, nv)."""

    F: Array
    """Force sub-space of the actuators, [n; f] of unit force each, shape (6, actuators)."""

    @property
    def work(self) -> Array:
        """S^T F: joint forces per actuator force, shape (nv, actuators)."""
        return self.S.T @ self.F

    @property
    def rank(self) -> int:
        """Number of independent freedoms that actuators can work on."""
        if 0 in self.work.shape:
            return 0
        lengths = [np.linalg.norm(part, axis=0) for part in (self.S, self.F)]
        # units of S and F are the caller's: only directions decide
        scale = np.outer(*(np.where(length > 0.0, length, 1.0) for length in lengths))
        return int(np.sum(np.linalg.svd(self.work / scale, compute_uv=False) > DEPENDENT))

    @property
    def powered(self) -> str:
        """One word: "un", "under", "properly" or "over" powered.

        Properly powered joints have S^T F square and non-singular (section 7.4.2); in over-powered
        ones every freedom is powered and actuators can work against each other.
        """
        nv, actuators = self.work.shape
        if self.rank == 0 and nv > 0:
            return UNPOWERED
        if self.rank < nv:
            return UNDERPOWERED
        return PROPER if actuators == nv else OVERPOWERED

    def joint_force(self, actuator_force: ArrayLike) -> Array:
        """Return the joint forces S^T F Qa (eq. 7.13).

        Args:
            actuator_force: One number per actuator, shape (..., actuators).
        """
        given = self._checked("actuator_force", actuator_force, self.F.shape[1])
        return given @ self.work.T

    def actuator_force(self, tau: ArrayLike) -> Array:
        """Return the actuator forces Qa that make given joint forces (eq. 7.14).

        Where actuators are more than freedoms, those of least sum of squares.

        Args:
            tau: Joint force [N or N m], shape (..., nv).

        Raises:
            DomainError: If not every freedom is powered: some joint forces cannot be made.
        """
        given = self._checked("tau", tau, self.S.shape[1])
        if self.rank < self.S.shape[1]:
            raise DomainError(
                f"joint {self.joint!r}",
                f"actuators that work on all {self.S.shape[1]} freedoms",
                f"{self.rank}: it is {self.powered}-powered",
                advice="add actuators, or leave the joint force out",
            )
        found: Array = given @ np.linalg.pinv(self.work).T
        return found

    def bearing_projector(self) -> Array:
        """Return 1 - F (S^T F)^-1 S^T, which takes from f what the bearing carries (eq. 7.15).

        Returns:
            Idempotent matrix, shape (6, 6); what it leaves does no work on the joint.

        Raises:
            DomainError: If the joint is not properly powered, and the split is not unique.
        """
        if self.powered != PROPER:
            raise DomainError(
                f"joint {self.joint!r}",
                "a properly powered joint",
                f"an {self.powered}-powered one",
                advice="name as many independent actuators as the joint has freedoms",
            )
        return np.eye(6) - self.F @ np.linalg.solve(self.work, self.S.T)

    def _checked(self, argument: str, value: ArrayLike, size: int) -> Array:
        refuse_unusable(argument, value)
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ShapeError(argument, f"(..., {size}) at joint {self.joint!r}", array.shape)
        return array


@public
def powering(
    joint: Joint, actuators: ArrayLike | None = None, q: ArrayLike | None = None
) -> Powering:
    """Find how actuators work on a joint.

    Args:
        joint: The joint.
        actuators: Wrench [n; f] of a unit force of each actuator on the body, body axes about the
            body origin, shape (actuators, 6). By default one that acts along each freedom.
        q: Position of the joint, shape (nq,); unmoved by default.

    Returns:
        The work they do, how well the joint is powered, and what the bearing carries.

    Example:
        A cylinder that pushes along x, 0.1 m above a hinge about y::

            cylinder = powering(Revolute("hinge", (0, 1, 0)), [(0, 0.1, 0, 1, 0, 0)])
            cylinder.powered       # "properly"
    """
    position = joint.neutral() if q is None else vector("q", q, joint.nq).tolist()
    S = subspace_matrix(joint.subspace(position)).astype(np.float64)
    if actuators is None:
        # couples where the freedom turns, forces where it slides: the dual basis in their span
        return Powering(joint.name, S, np.linalg.pinv(S).T.astype(np.float64))
    refuse_unusable("actuators", actuators)
    rows = np.asarray(actuators, dtype=np.float64)
    F = rows.reshape(0, 6).T if rows.size == 0 else rows.T
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 6):
        raise ShapeError("actuators", "(actuators, 6)", rows.shape, advice="one row [n; f] each")
    return Powering(joint.name, S, F)


@public
def powering_report(
    model: "Model", actuators: dict[str, ArrayLike] | None = None, q: ArrayLike | None = None
) -> dict[str, Powering]:
    """Find how every joint of a robot that has freedoms is powered.

    Args:
        model: The robot.
        actuators: By joint name, wrenches as `powering` takes them; an empty list for none. Joints
            left out have an actuator along each freedom, floating bases have none.
        q: Position of the robot, shape (nq,); unmoved by default.

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
        found[joint.name] = powering(joint, wrenches, position[model.slice(joint.name)])
    return found
