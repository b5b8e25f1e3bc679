"""Kinematic calibration: geometry of a robot estimated from measured poses of its frames.

Least squares of predicted minus measured positions and orientations, by the solver of `identify`,
with exact derivatives. Joints of a tree are all measured. Of a robot with loops some are, usually
those with motors; Newton's method closes the loops with these held, and all other joints follow
from the geometry (the implicit function rule):

    c(q, g) = 0,    dq/dg = -J_free^+ dc/dg

Not all numbers of a geometry matter to poses: of two parallel axes the distance along them, of the
base and the first joint a common shift. Such directions are reported, and the estimate stays at its
start along them.

Symbols:
    g       free parameters
    c       residuals of loops, J their derivatives by joint velocities
    E       R R_measured^T; its antisymmetric part is the error of orientation
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.argument_checks import at_least, check_finite, positive
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, ShapeError, TiburonError, UnknownNameError
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.compilation import compile, tuple_of
from tiburon.functions.kinematics import forward_kinematics, frame_jacobian
from tiburon.functions.library import check_places, depends_on_time
from tiburon.functions.parameter_derivatives import parameter_derivatives
from tiburon.functions.parameters import dynamics_parameters
from tiburon.identification.identify import (
    ORIENTATION,
    POSITION,
    Fit,
    Identification,
    LeastSquares,
    initial_values,
    parameter_bounds,
    parameter_scales,
    sample_times,
)
from tiburon.model import Model
from tiburon.model.configuration import as_batch
from tiburon.model.parameters import PLACEMENT, Parameter, component_places
from tiburon.spatial.rotations import quaternion_to_matrix

UNIDENTIFIED = 1e-6
"""Singular value of scaled sensitivities, relative to the largest, below which poses do not
determine a direction."""

CLOSED_RESIDUAL = 1e-11
"""Residual of loops that counts as closed [m or rad]."""

MOST_NEWTON_STEPS = 50

RANK_TOLERANCE = 1e-9
"""Singular value of J, relative to the largest, that counts as zero."""

UNIT_TOLERANCE = 1e-3
"""Error of the length of a measured quaternion that counts as rounding or noise."""


class _Measured(NamedTuple):
    """Measured poses of a frame."""

    p: Array
    """Positions, world axes [m], shape (poses, 3)."""

    R: Array | None
    """Orientations, shape (poses, 3, 3); None if not measured."""


@public
def calibrate(
    model: Model,
    q: ArrayLike,
    measured: Mapping[str, ArrayLike],
    free: Sequence[str],
    *,
    joints: str | Iterable[str] | None = None,
    time: ArrayLike | None = None,
    weights: Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    max_iterations: int = 50,
    tolerance: float = 1e-8,
) -> Identification:
    """Estimate the geometry of a robot from measured joint positions and poses of its frames.

    Directions that the poses do not determine are reported in `undetermined`; along them the
    estimate stays at its start. `with_parameters` makes the calibrated robot.

    Args:
        model: The robot.
        q: Measured positions of the joints [m or rad], shape (poses, nq). With loops those of
            `joints` are measured, and others close to where loops are closed.
        measured: Measured poses by name of a body or frame: positions in world axes [m], shape
            (poses, 3), or quaternions (w, x, y, z) and positions, shape (poses, 7).
        free: Parameters to estimate: geometry such as "elbow.translation" with all its components,
            or single ones such as "elbow.rotation.z". The zero of a joint is a rotation about its
            axis.
        joints: With loops, the joints whose positions are measured; by default those with motors.
        time: Times of the poses [s], shape (poses,) or one for all: where driven joints are; 0 by
            default.
        weights: Of "<frame>.position" [1/m] and "<frame>.orientation" [1/rad]; 1 by default.
        start: Values at the start by name of a component; those of the model by default.
        bounds: Lower and upper bound by name of a component.
        max_iterations: Most steps.
        tolerance: Step at which to end, in units of 10 mm or 10 mrad.

    Raises:
        UnknownNameError: If there is no such parameter, frame or joint.
        ShapeError: If arrays do not fit, or no parameter is free.
        ModelError: If a parameter is none of the geometry.
        DomainError: If a measured orientation is farther than a right angle from the predicted one,
            or loops cannot be closed at the start.

    Example:
        ``tb.calibrate(arm, q, {"tool": poses}, ["joint_2.translation", "joint_2.rotation"])``
    """
    check_places(model, None)
    position = as_batch(q, model.nq, "q", model.describe_q())
    if position.ndim != 2 or not len(position):
        raise ShapeError("q", f"shape (poses, {model.nq})", f"shape {position.shape}")
    at = sample_times(time, position.shape[:-1], depends_on_time(model, DEFAULT_WORLD))
    poses = {name: _measured(model, name, x, len(position)) for name, x in measured.items()}
    if not poses:
        raise ShapeError("measured", "poses of one frame or more", "none")
    known = {
        name: item
        for name, item in dynamics_parameters(model, DEFAULT_WORLD).items()
        if item.part == PLACEMENT
    }
    names = tuple(part for name in tuple_of(free) for part in _components(name, known))
    if not names:
        raise ShapeError("free", "names of parameters", "none", advice="list tb.parameters(model)")
    x0 = initial_values(known, names, start or {}, bounds or {})
    low, high = parameter_bounds(names, x0, bounds or {})
    channels: dict[str, float] = {}
    for name, pose in poses.items():
        for kind in (POSITION, ORIENTATION)[: 1 + (pose.R is not None)]:
            channels[name + kind] = 1.0
    for name, weight in (weights or {}).items():
        if name not in channels:
            raise UnknownNameError("measured channel", name, channels, where="weights")
        channels[name] = positive(f"weights[{name!r}]", weight)
    problem = _Poses(
        model, position, at, poses, channels, names, _held(model, joints),
        parameter_scales(names, x0, known), low, high,
    )  # fmt: skip
    problem.check_start(x0)
    most = at_least("max_iterations", max_iterations, 1)
    return problem.solve(x0, most, positive("tolerance", tolerance))


def _measured(model: Model, name: str, given: ArrayLike, count: int) -> _Measured:
    """Return measured poses of a frame, checked."""
    model.plan.frame(name)
    argument = f"measured[{name!r}]"
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] not in (3, 7) or len(array) != count:
        raise ShapeError(
            argument,
            f"shape ({count}, 3) of positions, or ({count}, 7) with quaternions before them",
            f"shape {array.shape}",
        )
    check_finite(argument, array)
    if array.shape[1] == 3:
        return _Measured(array, None)
    lengths = np.linalg.norm(array[:, :4], axis=1)
    worst = int(np.abs(lengths - 1.0).argmax())
    if abs(lengths[worst] - 1.0) > UNIT_TOLERANCE:
        raise DomainError(
            argument,
            "unit quaternions (w, x, y, z)",
            f"length {lengths[worst]:.4g} in pose {worst}",
        )
    turns = [
        quaternion_to_matrix(row / size) for row, size in zip(array[:, :4], lengths, strict=True)
    ]
    return _Measured(array[:, 4:], np.array(turns, dtype=np.float64))


def _components(name: str, known: Mapping[str, Parameter]) -> list[str]:
    """Return the components of a parameter of the geometry."""
    if name in known:
        return [f"{name}.{axis}" for axis in "xyz"]
    if not component_places(name, known)[1]:
        raise UnknownNameError(
            "parameter of the geometry", name, known, where="free",
            listing="tb.parameters(model, ...)",
        )  # fmt: skip
    return [name]


def _held(model: Model, joints: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the joints whose positions are measured."""
    if not model.loops:
        if joints is not None:
            raise ModelError(
                f"joints: model {model.name!r} has no loops that would determine other joints: "
                "expected all of them measured, in q; leave joints= out"
            )
        return ()
    names = model.actuated_joint_names if joints is None else tuple_of(joints)
    for name in names:
        model.joint(name)
    return tuple(names)


class _Poses(LeastSquares):
    """Predicted against measured poses."""

    def __init__(
        self,
        model: Model,
        q: Array,
        at: Mapping[str, Array],
        measured: Mapping[str, _Measured],
        channels: Mapping[str, float],
        names: Sequence[str],
        held: Sequence[str],
        scale: Array,
        low: Array,
        high: Array,
    ) -> None:
        listed = [f"pose {k}" for k in range(len(q))]
        super().__init__(names, listed, scale, low, high, unit="pose")
        self._model, self._q, self._at = model, np.array(model.normalize(q)), dict(at)
        self._measured, self._channels = dict(measured), dict(channels)
        whole = tuple(dict.fromkeys(name.rpartition(".")[0] for name in names))
        functions: list[Callable[..., Any]] = [forward_kinematics]
        if model.loops:
            functions = [constraint_residual, forward_kinematics]
        self._kernel = compile(functions, model, frames=list(measured), parameters=whole)
        fixed = {i for name in held for i in model.indices(name, of="v")}
        self._free = [i for i in range(model.nv) if i not in fixed]

    def _named(self, x: Array) -> dict[str, float]:
        return dict(zip(self.names, x.tolist(), strict=True))

    def _closed(self, x: Array) -> Array:
        """Return configurations with closed loops, measured joints held.

        Raises:
            DomainError: If loops stay open.
        """
        model, q, named = self._model, self._q, self._named(x)
        at: Any = self._at
        if not model.loops:
            return q
        for _ in range(MOST_NEWTON_STEPS):
            c = constraint_residual(model, q, parameters=named, **at)
            worst = np.abs(c).max(axis=1)
            if worst.max() <= CLOSED_RESIDUAL:
                self._q = q
                return q
            J = loop_jacobian(model, q, parameters=named, **at)[..., self._free]
            step = np.zeros((len(q), model.nv))
            inverse = np.linalg.pinv(J, rcond=RANK_TOLERANCE)
            step[:, self._free] = -np.einsum("nij,nj->ni", inverse, c)
            step /= np.maximum(1.0, np.abs(step).max(axis=1))[:, None]
            q = model.normalize(model.integrate(q, step))
        raise DomainError(
            "q",
            "configurations near which loops close with the measured joints held",
            f"loops open by {worst.max():.3g} m or rad in pose {int(worst.argmax())}",
            advice="check the measured positions, or start from tb.assemble(model, q, hold=...)",
        )

    def check_start(self, x: Array) -> None:
        """Refuse orientations that are measured in other axes, and loops that are open.

        Raises:
            DomainError: If there are any.
        """
        R, _ = self._kernel(self._closed(x), parameters=self._named(x), **self._at)[-2:]
        for k, (name, pose) in enumerate(self._measured.items()):
            if pose.R is None:
                continue
            turned = R[:, k] @ np.swapaxes(pose.R, -1, -2)
            cosine = 0.5 * (np.trace(turned, axis1=-2, axis2=-1) - 1.0)
            worst = int(cosine.argmin())
            if cosine[worst] < 0.0:
                angle = np.degrees(np.arccos(np.clip(cosine[worst], -1.0, 1.0)))
                raise DomainError(
                    f"measured[{name!r}]",
                    "orientations within a right angle of the predicted ones, from frame to world",
                    f"{angle:.0f} degrees in pose {worst}",
                    advice="quaternions are (w, x, y, z); check the frame",
                )
        A = sum(J.T @ J for J in self.evaluate(x).derivatives)
        self.least = UNIDENTIFIED**2 * float(np.linalg.eigvalsh(np.asarray(A))[-1])

    def feasible(self, x: Array) -> bool:
        """Return whether loops can be closed."""
        try:
            self._closed(x)
        except TiburonError:
            return False
        return True

    def evaluate(self, x: Array, *, derivatives: bool = True) -> Fit:
        """Predict all poses and compare them."""
        model, named, q = self._model, self._named(x), self._closed(x)
        at: Any = self._at
        R, p = self._kernel(q, parameters=named, **at)[-2:]
        dR, dp = np.empty((*R.shape, 0)), np.empty((*p.shape, 0))
        if derivatives:
            changes = parameter_derivatives(self._kernel, q, parameters=named, by=self.names, **at)
            *dc, dR, dp = (
                np.stack([changes[name][k] for name in self.names], axis=-1)
                for k in range(2 + bool(model.loops))
            )
            if dc:
                J = loop_jacobian(model, q, parameters=named, **at)[..., self._free]
                inverse = np.linalg.pinv(J, rcond=RANK_TOLERANCE)
                dq = -np.einsum("nij,njg->nig", inverse, dc[0])
                for k, name in enumerate(self._measured):
                    J = frame_jacobian(model, q, name, parameters=named, **at)[..., self._free]
                    twist = J @ dq
                    dp[:, k] += twist[:, 3:]
                    # R changes by w x R
                    w = twist[:, :3]
                    for i in range(3):
                        a, b = (i + 1) % 3, (i + 2) % 3
                        dR[:, k, i] += (
                            w[:, None, a] * R[:, k, b, :, None]
                            - w[:, None, b] * R[:, k, a, :, None]
                        )
        rows, columns, errors = [], [], {}
        share = 1.0 / np.sqrt(len(q))
        for k, (name, pose) in enumerate(self._measured.items()):
            parts = [(POSITION, p[:, k] - pose.p, dp[:, k])]
            if pose.R is not None:
                E, dE = (np.einsum("nij...,nkj->nik...", part[:, k], pose.R) for part in (R, dR))
                parts.append((ORIENTATION, _antisymmetric(E), _antisymmetric(dE)))
            for kind, off, change in parts:
                weight = self._channels[name + kind]
                errors[name + kind] = float(np.sqrt((off**2).sum(axis=1).mean()))
                rows.append(weight * share * off)
                columns.append(weight * share * change * self.scale if derivatives else change)
        residuals = list(np.concatenate(rows, axis=1))
        found = list(np.concatenate(columns, axis=1)) if derivatives else []
        return Fit(residuals, found, errors)


def _antisymmetric(E: Array) -> Array:
    """Return the vector of the antisymmetric part, shape (poses, 3, ...), of (poses, 3, 3, ...)."""
    pairs = ((2, 1), (0, 2), (1, 0))
    return 0.5 * np.stack([E[:, i, j] - E[:, j, i] for i, j in pairs], axis=1)
