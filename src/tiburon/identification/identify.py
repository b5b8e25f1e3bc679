"""Identification: parameters of a robot estimated from whole measured runs.

Least squares of predicted minus measured attitude and rates over all runs, by Gauss and Newton with
the damping of Levenberg and Marquardt and exact sensitivities. Bounds and the robot's own checks
keep estimates physical: no mass, volume or drag below zero, inertia and added mass that are inertia
matrices.

Symbols:
    r       residuals of all runs, each run with the same total weight
    J       their derivatives by the parameters, scaled
    A       J^T J

Confidence
    Errors within a run depend on each other: tether, ballast and currents stay. The unit is a run:
    the covariance is that of the jackknife over runs, one Newton step each,

        theta_(k) - theta = (A - J_k^T J_k)^-1 J_k^T r_k,

    and intervals take Student's t with as many degrees of freedom as runs, less one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import at_least, check_finite, positive, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, ShapeError, UnknownNameError
from tiburon.identification.measured import (
    ANGLES,
    PLACES,
    RATES,
    MeasuredRun,
    moving_average,
    require_runs,
)
from tiburon.identification.sensitivity import Prediction, RunPredictor, parameter_value
from tiburon.loops.complement_basis import reduced_rows
from tiburon.model import Model, Water, World
from tiburon.record import record
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.integrator import Integrator, checked_integrator
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.run_parameters import parameters as named_parameters

ANGLE_RATES = tuple(f"{angle}_rate" for angle in ANGLES)
"""Rates of the attitude angles, averaged: differences of angles over a window."""

CHANNELS = (*ANGLES, *ANGLE_RATES, *RATES, *PLACES)
"""What can be fitted: attitude angles [rad], their rates, rates in body axes [rad/s], and
displacements in world axes [m]."""

RATE_WINDOW = 0.5
"""Time over which measured and predicted rates are averaged before they are compared [s]."""

POSITION, ORIENTATION = ".position", ".orientation"
"""Ends of the names of channels of calibrations, after that of a frame."""

POSITIVE = ("mass", "volume")
"""Last words of parameters that are positive."""

DRAG = ("linear_damping", "quadratic_damping")
"""Words of parameters whose diagonal entries are not negative."""

UNDETERMINED = 1e-3
"""Singular value of scaled sensitivities, relative to the measured motion, below which data do not
determine a direction: a change by the scale of the parameters moves predictions by less than a
thousandth of what moved in the runs."""

DAMPING = 1e-3
"""Initial damping of Levenberg and Marquardt, relative to the diagonal of A."""

MAX_DAMPING = 1e9
"""Damping at which a search ends."""


@record(eq=False)
class Identification:
    """Estimated parameters; what `identify`, `identify_dynamics` and `calibrate` return."""

    names: tuple[str, ...]
    """The parameters."""

    start: Array
    """Values at the start, shape (parameters,)."""

    estimate: Array
    """Estimates, shape (parameters,)."""

    lower: Array
    """Lower end of the 95 % confidence interval, a run being the unit; NaN with one run."""

    upper: Array
    """Its upper end."""

    at_bound: tuple[str, ...]
    """Parameters that ended at a bound."""

    undetermined: tuple[str, ...]
    """Directions that the data do not determine, largest parts first; the estimate stays at the
    start along them."""

    converged: bool
    """Whether steps became negligible."""

    iterations: int
    """Steps taken."""

    errors: Mapping[str, float]
    """Root mean square error of each fitted channel [m, rad or rad/s; N or N m of joint forces],
    runs weighted equally."""

    before: Mapping[str, float]
    """The same at the start."""

    runs: tuple[str, ...]
    """Names of the runs, or of the poses of a calibration."""

    unit: str = "run"
    """What is independent of each other: "run", "part" of a run, or "pose"."""

    force_units: tuple[str, ...] = ()
    """Unit of each error where they are those of joint forces: "N" or "N m"."""

    @property
    def parameters(self) -> dict[str, float]:
        """Estimates by name, as ``parameters=`` of `simulate` and of dynamics functions takes."""
        return dict(zip(self.names, map(float, self.estimate), strict=True))

    @property
    def summary(self) -> str:
        """Table of the estimates, and notes on them."""
        rows = [("parameter", "start", "estimate", "95 % interval")]
        for k, name in enumerate(self.names):
            ends = f"{self.lower[k]:.4g} .. {self.upper[k]:.4g}"
            if len(self.runs) < 2:
                ends = f"takes two {self.unit}s"
            mark = "  at its bound" if name in self.at_bound else ""
            rows.append((name, f"{self.start[k]:.4g}", f"{self.estimate[k]:.4g}", ends + mark))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [
            "  ".join([*(x.ljust(w) for x, w in zip(row[:3], widths, strict=True)), row[3]])
            for row in rows
        ]
        for k, (channel, error) in enumerate(self.errors.items()):
            was, now, unit = self.before[channel], error, "m"
            if self.force_units:
                unit = self.force_units[k]
            elif channel not in PLACES and not channel.endswith(POSITION):
                was, now = math.degrees(was), math.degrees(now)
                unit = "deg" if channel in ANGLES or channel.endswith(ORIENTATION) else "deg/s"
            lines.append(f"{channel}: RMS error {was:.3g} -> {now:.3g} {unit}")
        ended = "converged" if self.converged else "did NOT converge"
        lines.append(f"{len(self.runs)} {self.unit}s, {ended} in {self.iterations} steps")
        lines += [f"not determined by these {self.unit}s: {line}" for line in self.undetermined]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary


@public
def identify(
    model: Model,
    runs: Sequence[MeasuredRun],
    free: Sequence[str],
    *,
    world: World | None = None,
    fluid: Water | None = None,
    elements: Sequence[Any] = (),
    fit: Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    trim: float | None = None,
    smoothing: float = 1.0,
    method: Integrator | None = None,
    max_iterations: int = 30,
    tolerance: float = 1e-3,
    execution: Execution | None = None,
) -> Identification:
    """Estimate parameters of a robot from measured runs.

    Each run is predicted from its measured start: measured joints follow their paths
    (`MeasuredRun.joint_path`), the base reacts. Friction, springs and limits of joints do not act.

    Args:
        model: The robot, on a free base.
        runs: Measured runs, whose joints have the names of the model (`MeasuredRun.with_joints`).
        free: Parameters to estimate: names of `parameters`, or components of vectors and matrices
            such as "hull.center_of_buoyancy.x", "hull.added_mass.wx". Zeros may be free, too.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in.
        elements: Elements beside the robot's own.
        fit: What to compare, with weights: "roll", "pitch", "yaw" [1/rad]; rates averaged over
            0.5 s [s/rad], of these angles ("roll_rate", ...) or as a gyro measures them ("wx",
            "wy", "wz"); displacements in world axes ("x", "y", "z") [1/m], where positions are
            valid; roll and pitch with weight 1 by default.
        start: Values at the start by name; those of the model by default.
        bounds: Lower and upper bound by name, in addition to physical ones.
        trim: Time at the start of a run over which the mean measured attitude is an equilibrium,
            by one constant moment per run about the x and y axes of the base [s].
        smoothing: Period of joint motion that is halved by smoothing [s].
        method: Integrator of the prediction: an explicit one-step method with equal steps;
            ``RK4(dt=0.02)`` by default.
        max_iterations: Most steps.
        tolerance: Step at which to end, relative to the sizes of the parameters.
        execution: Most threads to use, by an `Execution`.

    Raises:
        UnknownNameError: If there is no such parameter or channel.
        ShapeError: If there is no run, or a parameter is not a scalar.
        DomainError: If the start is outside the bounds, or a joint angle is in degrees.
        ModelError: If a run lacks a fitted channel, or both `trim` and `elements` are given.

    Example:
        ``tb.identify(rov, runs, ["hull.center_of_buoyancy.z", "hull.linear_damping.wx"],
        fluid=tb.Water())``
    """
    given = require_runs(runs, model)
    if trim is not None and elements:
        raise ModelError(
            "trim: the moment of a run balances weight and buoyancy, not other elements; leave "
            "one of the two out"
        )
    around = world_with(world, fluid) or DEFAULT_WORLD
    channels = _channels(fit, given)
    integrator = checked_integrator(method or RK4(dt=0.02))
    refuse_method(integrator, "identification")
    bare = model.without_passive().without_limits()
    known = named_parameters(bare, world=around, elements=elements)
    names = tuple(free)
    if not names:
        raise ShapeError("free", "names of parameters", "none", advice="list tb.parameters(model)")
    x0 = initial_values(known, names, start or {}, bounds or {})
    low, high = parameter_bounds(names, x0, bounds or {})
    step = integrator.dt
    shortest = min(run.duration for run in given)
    if step > 0.5 * shortest:
        raise DomainError(
            "dt", f"at most half of the shortest run, {0.5 * shortest:g} s", f"{step:g} s"
        )
    sampled = [run.resample(step) for run in given]
    predictor = RunPredictor(
        model,
        sampled,
        names,
        world=around,
        elements=elements,
        method=integrator,
        smoothing=smoothing,
        trim=None if trim is None else positive("trim", trim, "s"),
        execution=execution,
    )
    problem = _RunProblem(predictor, channels, parameter_scales(names, x0, known), low, high)
    return problem.solve(x0, at_least("max_iterations", max_iterations, 1), tolerance)


def _channels(fit: Mapping[str, float] | None, runs: Sequence[MeasuredRun]) -> dict[str, float]:
    found = {"roll": 1.0, "pitch": 1.0} if fit is None else dict(fit)
    for name, weight in found.items():
        if name not in CHANNELS:
            raise UnknownNameError("channel", name, dict.fromkeys(CHANNELS), where="fit")
        positive(f"fit[{name!r}]", weight)
        for run in runs:
            missing = run.angular_velocity is None if name in RATES else run.quaternion is None
            if name in PLACES:
                missing = run.valid.sum() < 2
            if missing:
                raise ModelError(
                    f"run {run.name!r}: expected measured {name}, got none; leave the run or this "
                    "channel out"
                )
    if not found:
        raise ShapeError("fit", "one channel or more", "none", advice=", ".join(CHANNELS))
    return found


def sample_times(
    time: ArrayLike | None, lead: tuple[int, ...], depends_on_time: bool
) -> dict[str, Array]:
    """Return the argument ``time`` of kernels, one per sample in a row; none if it changes nothing.

    Args:
        time: Times of the samples [s], of shape `lead` or one for all.
        lead: Shape of the samples.
        depends_on_time: Whether time moves anything.

    Raises:
        ShapeError: If there are more or fewer times than samples.
        NonFiniteError: If one is not finite.
    """
    if time is None:
        return {}
    refuse_unusable("time", time)
    array = np.asarray(time, dtype=np.float64)
    if array.shape not in ((), lead):
        listed = ", ".join(map(str, lead))
        raise ShapeError(
            "time", f"one value, or shape ({listed}) as samples", f"shape {array.shape}"
        )
    check_finite("time", array)
    return {"time": np.broadcast_to(array, lead).reshape(-1)} if depends_on_time else {}


def initial_values(
    known: Mapping[str, Any],
    names: Sequence[str],
    start: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
) -> Array:
    """Return the values at the start: those of the caller, or of the robot.

    Raises:
        UnknownNameError: If there is no such parameter, or what is given is not free.
        ShapeError: If a parameter is not a scalar.
    """
    found = np.array([_start(known, name, start) for name in names])
    unused = (set(start) | set(bounds)) - set(names)
    if unused:
        raise UnknownNameError("free parameter", min(unused), dict.fromkeys(names))
    return found


def _start(known: Mapping[str, Any], name: str, start: Mapping[str, float]) -> float:
    value = parameter_value(known, name)
    if value is None:
        if name in known:
            raise ShapeError(
                f"free parameter {name!r}",
                "a scalar",
                f"shape {known[name].shape}",
                advice=f"name components, such as {name}.x, {name}.wx or {name}.xx",
            )
        raise UnknownNameError(
            "parameter", name, known, where="free", listing="tb.parameters(model, ...)"
        )
    return float(start.get(name, value))


def parameter_bounds(
    names: Sequence[str], start: Array, bounds: Mapping[str, tuple[float, float]]
) -> tuple[Array, Array]:
    """Return lower and upper bounds: those of physics, and those of the caller.

    Raises:
        DomainError: If the start is outside.
    """
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for k, name in enumerate(names):
        words = name.split(".")
        diagonal = words[-2:-1] and words[-2] in (*DRAG, "added_mass") and "_" not in words[-1]
        if words[-1] in POSITIVE or diagonal:
            low[k] = 0.0
        if name in bounds:
            a, b = bounds[name]
            if not a < b:
                raise DomainError(f"bounds[{name!r}]", "lower below upper", f"{a:g}, {b:g}")
            low[k], high[k] = max(low[k], a), min(high[k], b)
    outside = (start < low) | (start > high)
    if outside.any():
        k = int(np.argmax(outside))
        raise DomainError(names[k], f"a start from {low[k]:g} to {high[k]:g}", f"{start[k]:g}")
    return low, high


SCALES = {
    "center_of_buoyancy": 0.01,
    "center_of_mass": 0.01,
    ".translation": 0.01,
    ".rotation": 0.01,
}
"""Sizes of changes of parameters without a size of their own [m or rad]."""


def parameter_scales(names: Sequence[str], values: Array, known: Mapping[str, Any]) -> Array:
    """Return the size of a change of each parameter.

    That of its value; where it is zero, that of the largest entry of the same kind in its matrix,
    or 0.1 in its unit.
    """
    found = np.empty(len(names))
    for k, name in enumerate(names):
        whole, _, component = name.rpartition(".")
        size = abs(values[k])
        fixed = next((x for word, x in SCALES.items() if word in name), None)
        if fixed is not None:
            size = fixed
        elif not size and whole in known:
            entries = np.abs(np.asarray(known[whole].value, dtype=np.float64))
            if entries.shape == (6, 6):
                part = slice(0, 3) if component.startswith("w") else slice(3, 6)
                entries = entries[part, part]
            size = float(entries.max())
        found[k] = size or 0.1
    return found


class Fit(NamedTuple):
    """Residuals at some parameters."""

    residuals: list[Array]
    """Of each run, weighted."""

    derivatives: list[Array]
    """By scaled parameters, shape (samples, parameters) each; empty without derivatives."""

    errors: dict[str, float]
    """Root mean square error of each channel."""

    @property
    def cost(self) -> float:
        """Sum of the squared residuals."""
        return float(sum(x @ x for x in self.residuals))


class LeastSquares(ABC):
    """A problem of least squares with bounds, in which data may leave directions undetermined."""

    def __init__(
        self,
        names: Sequence[str],
        runs: Sequence[str],
        scale: Array,
        low: Array,
        high: Array,
        unit: str = "run",
    ) -> None:
        """Set up a problem.

        Args:
            names: The parameters.
            runs: Names of what is independent of each other, one per array of residuals.
            scale: Size of a change of each parameter.
            low: Lower bounds.
            high: Upper bounds.
            unit: What is independent of each other: "run", "pose".
        """
        self.names, self.runs, self.unit = tuple(names), tuple(runs), unit
        self.scale, self.low, self.high = scale, low, high
        self.force_units: tuple[str, ...] = ()
        """Unit of each error where they are those of joint forces."""
        self.least = 0.0
        """Eigenvalue of A at and below which a direction is undetermined."""

    @abstractmethod
    def evaluate(self, x: Array, *, derivatives: bool = True) -> Fit:
        """Return residuals, and derivatives by scaled parameters."""

    @abstractmethod
    def feasible(self, x: Array) -> bool:
        """Return whether a robot may have these values."""

    def solve(self, x0: Array, most: int, tolerance: float) -> Identification:
        """Search from a start."""
        x, damping, converged, taken = x0.copy(), DAMPING, False, 0
        fit = first = self.evaluate(x)
        while taken < most and not converged:
            taken += 1
            A, g = _normal(fit)
            while True:
                trial = self._step(x, A, g, damping)
                moved = float(np.abs((trial - x) / self.scale).max())
                converged = moved < tolerance
                if converged:
                    break
                better = None
                if self.feasible(trial):
                    better = self.evaluate(trial, derivatives=False)
                if better is not None and better.cost < fit.cost:
                    x, damping = trial, max(damping / 10.0, 1e-12)
                    fit = self.evaluate(x)
                    break
                damping *= 10.0
                if damping > MAX_DAMPING:
                    # no direction descends any further
                    converged = True
                    break
        return self._result(x0, x, first, fit, converged, taken)

    def _step(self, x: Array, A: Array, g: Array, damping: float) -> Array:
        """Return the damped step within the bounds; parameters that press on a bound stay there."""
        free = np.ones(len(x), dtype=bool)
        trial = x
        for _ in range(len(x)):
            if not free.any():
                return x.copy()
            part = np.ix_(free, free)
            values, vectors = np.linalg.eigh(A[part])
            # directions that no data determine stay at the start
            seen = values > self.least
            along = vectors.T @ g[free]
            length = np.where(seen, along / np.where(seen, values * (1.0 + damping), 1.0), 0.0)
            step = np.zeros(len(x))
            step[free] = -(vectors @ length)
            trial = np.clip(x + step * self.scale, self.low, self.high)
            pressed = free & (trial != x + step * self.scale) & (trial == x)
            if not pressed.any():
                break
            free &= ~pressed
        return trial

    def _result(
        self, x0: Array, x: Array, first: Fit, fit: Fit, converged: bool, taken: int
    ) -> Identification:
        names, scale = self.names, self.scale
        at_bound = (x <= self.low) | (x >= self.high)
        A, _ = _normal(fit)
        values, vectors = np.linalg.eigh(A)
        weak = values <= self.least
        # as few parameters in each direction as elimination leaves
        directions = [_direction(names, row) for row in reduced_rows(vectors[:, weak].T)[0]]
        spread = self._jackknife(fit, ~at_bound, vectors[:, ~weak])
        runs = self.runs
        reach = student_t(len(runs) - 1) * spread * scale if len(runs) > 1 else np.nan * x
        return Identification(
            names,
            x0,
            x,
            np.maximum(x - reach, self.low),
            np.minimum(x + reach, self.high),
            tuple(name for name, bound in zip(names, at_bound, strict=True) if bound),
            tuple(directions),
            converged,
            taken,
            fit.errors,
            first.errors,
            runs,
            self.unit,
            self.force_units,
        )

    def _jackknife(self, fit: Fit, free: NDArray[np.bool_], seen: Array) -> Array:
        """Return standard errors of the scaled parameters; zero at bounds."""
        count = len(fit.residuals)
        total = np.zeros(len(free))
        if count < 2 or not free.any():
            return total
        A, _ = _normal(fit)
        # within the directions that data determine, without parameters at bounds
        basis = np.linalg.qr(seen * free[:, None])[0] if seen.size else seen
        basis = basis[:, np.abs(basis).max(axis=0) > 1e-12]
        changes = []
        for J, r in zip(fit.derivatives, fit.residuals, strict=True):
            rest = basis.T @ (A - J.T @ J) @ basis
            changes.append(basis @ np.linalg.lstsq(rest, basis.T @ (J.T @ r), rcond=1e-12)[0])
        moved = np.array(changes)
        moved -= moved.mean(axis=0)
        found: Array = np.sqrt((count - 1) / count * (moved**2).sum(axis=0))
        return np.where(free, found, 0.0)


class _RunProblem(LeastSquares):
    """Predicted against measured runs."""

    def __init__(
        self,
        predictor: RunPredictor,
        channels: Mapping[str, float],
        scale: Array,
        low: Array,
        high: Array,
    ) -> None:
        super().__init__(predictor.names, [run.name for run in predictor.runs], scale, low, high)
        self._predictor, self._channels = predictor, dict(channels)
        self.least = UNDETERMINED**2 * self._motion()

    def feasible(self, x: Array) -> bool:
        """Return whether a robot may have these values."""
        return self._predictor.feasible(x)

    def _motion(self) -> float:
        """Return the weighted square of what moved in the runs: of a robot that stays."""
        total = 0.0
        for run in self._predictor.runs:
            for name, weight in self._channels.items():
                moved = _motion_of(run, name, self._predictor.dt)
                total += weight**2 * float(moved @ moved) / len(moved)
        return total

    def evaluate(self, x: Array, *, derivatives: bool = True) -> Fit:
        """Predict all runs and compare them."""
        found = self._predictor.predict(x, self.scale, derivatives=derivatives)
        residuals, columns = [], []
        squares = dict.fromkeys(self._channels, 0.0)
        runs = self._predictor.runs
        for k, run in enumerate(runs):
            rows, parts = [], []
            for name, weight in self._channels.items():
                off, change = _compared(run, found, k, name, self._predictor.dt, derivatives)
                # each run counts the same, however long it is
                share = weight / math.sqrt(len(off))
                squares[name] += float(off @ off) / len(off)
                rows.append(share * off)
                if derivatives:
                    parts.append(share * change * self.scale)
            residuals.append(np.concatenate(rows))
            if derivatives:
                columns.append(np.concatenate(parts))
        errors = {name: math.sqrt(x / len(runs)) for name, x in squares.items()}
        return Fit(residuals, columns, errors)


def _normal(fit: Fit) -> tuple[Array, Array]:
    """Return J^T J and J^T r."""
    A = sum(J.T @ J for J in fit.derivatives)
    g = sum(J.T @ r for J, r in zip(fit.derivatives, fit.residuals, strict=True))
    return np.asarray(A), np.asarray(g)


def _direction(names: Sequence[str], vector: Array) -> str:
    """Return a direction in words: its parts in the sizes of the parameters."""
    order = np.argsort(-np.abs(vector))
    largest = vector[order[0]]
    parts = [
        f"{vector[k] / largest:+.2f} {names[k]}" for k in order if abs(vector[k] / largest) > 0.1
    ]
    return " ".join(parts)


def _motion_of(run: MeasuredRun, name: str, dt: float) -> Array:
    """Return the measured values of a channel, angles and positions less those at the start."""
    width = max(1, round(RATE_WINDOW / dt))
    if name in RATES:
        assert run.angular_velocity is not None
        place = RATES.index(name)
        return moving_average(run.angular_velocity[:, place], min(width, len(run.time)))
    if name in PLACES:
        still = run.displacement(np.zeros((len(run.time), 3)))
        return np.asarray(still[run.valid, PLACES.index(name)])
    angle = run.attitude[:, ANGLES.index(name.removesuffix("_rate"))]
    if name in ANGLE_RATES:
        width = min(width, len(angle) - 1)
        return (angle[width:] - angle[:-width]) / (width * dt)
    return np.asarray(angle - angle[0])


def _compared(
    run: MeasuredRun, found: Prediction, k: int, name: str, dt: float, derivatives: bool
) -> tuple[Array, Array]:
    """Return predicted minus measured values of a channel, and their derivatives."""
    count = len(run.time)
    if name in RATES:
        place = RATES.index(name)
        assert run.angular_velocity is not None
        width = max(1, round(RATE_WINDOW / dt))
        off = found.v[:count, k, place] - run.angular_velocity[:, place]
        change = found.dv[:count, k, :, place]
        width = min(width, count)
        return moving_average(off, width), moving_average(change, width)
    if name in ANGLE_RATES:
        off, change = _compared(run, found, k, name.removesuffix("_rate"), dt, derivatives)
        width = min(max(1, round(RATE_WINDOW / dt)), count - 1)
        return (off[width:] - off[:-width]) / (width * dt), (change[width:] - change[:-width]) / (
            width * dt
        )
    if name in PLACES:
        place = PLACES.index(name)
        valid = np.flatnonzero(run.valid)
        moved = run.displacement(found.q[:count, k, 4:7])[valid, place]
        change = found.dq[valid, k, :, 4 + place]
        return moved, change - change[:1]
    place = ANGLES.index(name)
    angle, slope = _angle(found.q[:count, k, :4], place)
    off = angle - run.attitude[:, place]
    off = (off + np.pi) % (2.0 * np.pi) - np.pi
    change = np.einsum("tpc,tc->tp", found.dq[:count, k, :, :4], slope) if derivatives else off
    return off, change


def _angle(quaternion: Array, place: int) -> tuple[Array, Array]:
    """Return roll, pitch or yaw of unit quaternions, and derivatives by their components."""
    w, x, y, z = quaternion.T
    if place == 1:
        s = np.clip(2.0 * (w * y - z * x), -1.0, 1.0)
        root = 2.0 / np.sqrt(np.maximum(1.0 - s * s, 1e-12))
        return np.arcsin(s), np.stack([y, -z, w, -x], axis=-1) * root[:, None]
    if place == 0:
        a, b = 2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)
        da = np.stack([2.0 * x, 2.0 * w, 2.0 * z, 2.0 * y], axis=-1)
        db = np.stack([0.0 * w, -4.0 * x, -4.0 * y, 0.0 * z], axis=-1)
    else:
        a, b = 2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)
        da = np.stack([2.0 * z, 2.0 * y, 2.0 * x, 2.0 * w], axis=-1)
        db = np.stack([0.0 * w, 0.0 * x, -4.0 * y, -4.0 * z], axis=-1)
    size = a * a + b * b
    return np.arctan2(a, b), (b[:, None] * da - a[:, None] * db) / size[:, None]


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t.

    Cornish and Fisher's expansion, accurate to 0.2 % from five degrees of freedom on; tabulated
    below.
    """
    table = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764}
    if freedom in table:
        return table[freedom]
    z, n = 1.959963984540054, float(freedom)
    terms = (
        z,
        (z**3 + z) / (4.0 * n),
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * n**2),
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * n**3),
    )
    return sum(terms)
