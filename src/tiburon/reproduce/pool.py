"""Validation on measured runs: a BlueROV2 in a pool reacts to its Reach Alpha 5 arm.

The runs are those of Kolano et al., repository hkolano/UVMS-SysID-with-EAs (MIT), cleaned and
resampled to 50 Hz. The arm follows its measured joint angles, the vehicle is predicted from its
measured start. Errors are root mean squares of roll and pitch, and of their rates averaged over
0.5 s, each run with the same weight, relative to those of a vehicle that stays as it starts.

Predictions:
    quasi-static    equilibrium of weight and buoyancy at every instant
    published       parameters of the zoo's bluerov2_alpha
    identified      fitted on other trajectories than those it is judged on
    trimmed         with one constant moment per run, which makes the mean attitude of the first
                    2.4 s an equilibrium: ballast and tether differ between runs
    without height  without the change of pitch with height: in all runs, also while the arm rests,
                    the vehicle pitches up as it rises, by about a degree per meter (a tether that
                    is lifted, or air that expands; the cause is not modeled). Identified
                    predictions include it, in proportion to their own rise, by one coefficient of
                    the fitted runs; without it the parameters are the same
    as coded        drag of the vehicle as the source's program applies it: coefficients are in the
                    order of translations, velocities in that of rotations first
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import RunFileError
from tiburon.formats.load import load
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.hydro.coefficients import ellipsoid_added_mass
from tiburon.identification.identify import Identification, identify, student_t
from tiburon.identification.measured import MeasuredRun, load_measured
from tiburon.identification.sensitivity import RunPredictor
from tiburon.model import CapsuleShape, Model, Shape, Water, World
from tiburon.record import record
from tiburon.reproduce.pool_causes import Cause, find_causes
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.spatial.rotations import (
    quaternion_rotate,
    quaternion_to_roll_pitch_yaw,
    roll_pitch_yaw_to_quaternion,
)

TRIM = 2.4
"""Time over which the mean measured attitude is made an equilibrium [s]."""

RATE_WINDOW = 0.5
"""Time over which rates are averaged [s]."""

WATER_DENSITY = 1000.0
"""Density of the pool's water [kg/m^3]."""

DT = 0.02
"""Interval of the samples, and step of the predictions [s]."""

FIT_DT = 0.04
"""Step of the predictions of a fit [s]."""

BASE_ZERO = 3.11
"""Zero of the arm's base joint [rad]: 3.07 in the source, 3.09 to 3.12 in fits."""

JOINTS: dict[str, str | tuple[str, float]] = {
    "joint_5": ("e_base", -BASE_ZERO),
    "joint_4": "d_shoulder",
    "joint_3": "c_elbow",
    "joint_2": ("b_wrist", -2.879),
}
"""Joints of the robot by measured column and offset [rad]."""

FREE = (
    "vehicle.center_of_buoyancy.x",
    "vehicle.center_of_buoyancy.y",
    "vehicle.center_of_buoyancy.z",
    "upper_arm.center_of_buoyancy.x",
    "wrist.center_of_buoyancy.z",
    "vehicle.added_mass.wx",
    "vehicle.added_mass.wy",
    "vehicle.linear_damping.wx",
    "vehicle.linear_damping.wy",
    "vehicle.quadratic_damping.wx",
    "vehicle.quadratic_damping.wy",
    "vehicle.volume",
)
"""Identified parameters. Masses and volumes of the arm stay as published: in slow motion the
weights of the arm in water and the righting moment scale together, so that one must be known."""

FIT = {"roll": 1.0, "pitch": 1.0, "roll_rate": 2.0, "pitch_rate": 2.0, "z": 0.03}
"""Weights of the fitted channels. The rise determines the volume of the vehicle and little else:
its weight makes 0.1 m count as 0.2 degrees."""

FOLDS = 4
"""Parts of the trajectories that are left out in turn."""

BOUNDS: dict[str, tuple[float, float, float]] = {
    "identified": (0.10, 0.10, 0.32),
    "identified, trimmed": (0.08, 0.10, 0.22),
}
"""Largest ratios of roll, pitch and rates by prediction."""

RINGING = {"run_005-1": 0.32, "run_006-2": 0.37}
"""Measured pitch frequency of runs that ring [Hz]."""

RINGING_BOUND = 0.15
"""Largest relative error of these frequencies."""

DRAG = {"linear": (4.03, 6.22, 5.18, 0.07), "quadratic": (18.18, 21.66, 36.99, 1.55)}
"""Coefficients of the vehicle's drag along x, y and z, and about all axes, Kolano et al."""

AS_CODED: dict[str, float] = {
    f"vehicle.{kind}_damping.{part}{axis}": value
    for kind, (*along, about) in DRAG.items()
    for part, values in (("w", along), ("v", [about] * 3))
    for axis, value in zip("xyz", values, strict=True)
}
"""Drag as the source's program applies it: that of translation to rotation, and vice versa."""


@record(eq=False)
class PoolRow:
    """Errors of one prediction, as ratios to a vehicle that stays as it starts."""

    name: str
    roll: float
    pitch: float
    roll_rate: float
    pitch_rate: float

    @property
    def bound(self) -> tuple[float, float, float] | None:
        """Bounds of roll, pitch and rates; None if it is only reported."""
        return BOUNDS.get(self.name)

    @property
    def met(self) -> bool | None:
        """Whether all bounds are met; None without bounds."""
        if self.bound is None:
            return None
        roll, pitch, rates = self.bound
        return (
            self.roll <= roll
            and self.pitch <= pitch
            and max(self.roll_rate, self.pitch_rate) <= rates
        )


class Ringing(NamedTuple):
    """Pitch frequency of a run that rings."""

    run: str
    measured: float
    """Highest peak of the spectrum [Hz]."""
    predicted: float
    """The same of the prediction [Hz]."""

    @property
    def reference(self) -> float:
        """Frequency read from oscillations of the measured run [Hz]."""
        return RINGING[self.run]

    @property
    def met(self) -> bool:
        """Whether the prediction agrees with both."""
        known = (self.measured, self.reference)
        return all(abs(self.predicted / x - 1.0) <= RINGING_BOUND for x in known)


class OtherMotion(NamedTuple):
    """Error of motion that the fits do not use: root mean square of a run, median over runs."""

    name: str
    unit: str
    predicted: float
    """Of the prediction "identified"."""

    simple: float
    """Of a vehicle that keeps its heading, or its velocity."""

    pooled: tuple[float, float]
    """Both, root mean square over runs instead of the median."""


class Fold(NamedTuple):
    """Runs that a fit did not know, and the fit."""

    places: list[int]
    """Which of the judged runs."""

    parameters: dict[str, float]
    lift: "Lift"


@record(eq=False)
class PoolTable:
    """Result of the validation."""

    rows: tuple[PoolRow, ...]
    constant: tuple[float, float, float, float]
    """Errors of a vehicle that stays as it starts: roll, pitch [rad] and rates [rad/s]."""

    ringing: tuple[Ringing, ...]
    fits: Mapping[str, Identification]
    """Fits of all runs, by name of the prediction."""

    runs: tuple[MeasuredRun, ...]
    predictions: Mapping[str, list[Array]]
    """Predicted roll and pitch of each run [rad], by name of the prediction."""

    causes: tuple[Cause, ...]
    """What the remaining error is made of."""

    others: tuple[OtherMotion, ...]
    """Heading and displacements; empty without measured positions."""

    drag: Identification | None
    """Fit of drag to horizontal motion, which is not to be taken for drag; None without it."""

    height: float
    """Change of pitch with height, of all fitted runs [rad/m]."""

    judged_on: str
    """How fitted and judged runs are divided."""

    @property
    def met(self) -> bool:
        """Whether all bounds are met."""
        return all(row.met is not False for row in self.rows) and all(r.met for r in self.ringing)


def load_pool(folder: str | Path) -> tuple[MeasuredRun, ...]:
    """Return the runs of a folder in which the arm moves, with the joints of the robot.

    Raises:
        RunFileError: If there is none.
    """
    files = sorted(Path(folder).glob("run_*.npz"))
    if not files:
        raise RunFileError(
            folder, "expected measured runs run_*.npz, got none; name their folder by --data"
        )
    return tuple(load_measured(file).with_joints(JOINTS).resample(DT) for file in files)


def trajectory_of(run: MeasuredRun) -> str:
    """Return the name of the trajectory that a run repeats: run_005-1 is one of 005."""
    found = re.fullmatch(r"run_(.+)-\d+", run.name)
    return run.name if found is None else found[1]


def surroundings() -> World:
    """Return the pool: fresh water at rest."""
    return World(fluid=Water(density=WATER_DENSITY))


# predictions


def _predictor(
    model: Model, runs: Sequence[MeasuredRun], parameters: Mapping[str, float], trim: float | None
) -> RunPredictor:
    return RunPredictor(
        model,
        runs,
        tuple(parameters),
        world=surroundings(),
        method=RK4(dt=DT),
        smoothing=1.0,
        trim=trim,
        execution=Execution(threads=None),
    )


def predicted(
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    *,
    trim: float | None,
) -> list[Array]:
    """Return predicted roll, pitch, yaw [rad] and position [m] of each run, shape (n, 6) each."""
    predictor = _predictor(model, runs, parameters, trim)
    values = np.array(list(parameters.values()))
    found = predictor.predict(values, np.ones(len(values)), derivatives=False)
    bases = [found.q[: len(run.time), k] for k, run in enumerate(runs)]
    return [
        np.concatenate([quaternion_to_roll_pitch_yaw(q[:, :4]), q[:, 4:7]], axis=1) for q in bases
    ]


class Lift(NamedTuple):
    """How pitch changes with height."""

    slope: float
    """[rad/m]"""

    level: float | None
    """Height at which nothing changes, as cameras count it; None for that of each start [m]."""

    def change(self, run: MeasuredRun, rise: Array) -> Array:
        """Return the change of pitch [rad] at heights above the start of a run [m]."""
        if self.level is None or not run.valid.any():
            return self.slope * rise
        return np.asarray(self.slope * (rise + height_of(run)[0] - self.level))

    def added(self, runs: Sequence[MeasuredRun], predictions: Sequence[Array]) -> list[Array]:
        """Return predictions with the change by their own rise."""
        changed = [found.copy() for found in predictions]
        for run, found in zip(runs, changed, strict=True):
            found[:, 1] += self.change(run, found[:, 5] - found[0, 5])
        return changed

    def removed(self, run: MeasuredRun) -> MeasuredRun:
        """Return a measured run without the change by its measured rise."""
        if not self.slope or not run.valid.any():
            return run
        angles = run.attitude.copy()
        height = height_of(run)
        angles[:, 1] -= self.change(run, height - height[0])
        return replace(run, quaternion=quaternion_of(angles))


def lifted(
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    lift: Lift,
    *,
    trim: float | None,
) -> list[Array]:
    """Return `predicted` with the change of pitch by their own rise.

    The change at the start is taken off the measured attitude first: predictions then start as
    measured. Otherwise they would start off by it, and ring.
    """
    flat = [lift.removed(run) for run in runs]
    return lift.added(flat, predicted(model, flat, parameters, trim=trim))


def height_of(run: MeasuredRun) -> Array:
    """Return the measured height [m], interpolated where it is not valid."""
    assert run.position is not None
    valid = run.valid
    return np.asarray(np.interp(run.time, run.time[valid], run.position[valid, 2]))


def find_lift(
    model: Model, runs: Sequence[MeasuredRun], parameters: Mapping[str, float], trim: float | None
) -> Lift:
    """Return how measured pitch, less the predicted one, changes with measured height.

    Least squares about the mean of each run, runs weighted equally; none without positions, or
    where the 95 % interval over runs includes zero.
    """
    terms: list[tuple[float, float]] = []
    levels = []
    for run, found in zip(runs, predicted(model, runs, parameters, trim=TRIM), strict=True):
        valid = run.valid
        if run.position is None or valid.sum() < 2:
            continue
        levels.append(run.position[valid, 2].mean())
        z = run.position[valid, 2] - levels[-1]
        off = (run.attitude[:, 1] - found[:, 1])[valid]
        terms.append((float(z @ (off - off.mean())) / len(z), float(z @ z) / len(z)))
    level = float(np.mean(levels)) if levels and trim is None else None
    if len(terms) < 2:
        return Lift(0.0, level)
    along, square = np.array(terms).T
    slope = along.sum() / square.sum()
    spread = np.linalg.norm(along - slope * square) / square.sum()
    spread *= math.sqrt(len(terms) / (len(terms) - 1))
    return Lift(float(slope) if abs(slope) > student_t(len(terms) - 1) * spread else 0.0, level)


def quasi_static(
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    *,
    trim: float | None,
) -> list[Array]:
    """Return the equilibrium attitude at every sample, with the measured yaw."""
    # all samples of all runs at once
    lengths = [len(run.time) for run in runs]
    moment = np.repeat(_trimming(model, runs, parameters, trim), lengths, axis=0)
    q = np.tile(np.array(model.neutral(), dtype=np.float64), (sum(lengths), 1))
    paths = [run.joint_path() for run in runs]
    samples = [path.at(run.time).position for path, run in zip(paths, runs, strict=True)]
    q[:, model.indices(paths[0].joints, of="q")] = np.concatenate(samples)
    measured = np.concatenate([run.attitude for run in runs])
    zero = np.zeros((len(q), model.nv))

    def moment_at(tilt: Array) -> Array:
        q[:, :4] = quaternion_of(np.column_stack([tilt, measured[:, 2]]))
        force = inverse_dynamics(model, q, zero, zero, world=surroundings(), parameters=parameters)
        return np.asarray(force[:, :2] - moment)

    angles = np.column_stack([_balanced(moment_at, measured[:, :2]), measured[:, 2]])
    return list(np.split(angles, np.cumsum(lengths)[:-1]))


def _balanced(moment_at: Callable[[Array], Array], start: Array) -> Array:
    """Return roll and pitch at which the moments about both axes vanish, by Newton's method."""
    tilt, h = start.copy(), 1e-5
    for _ in range(8):
        now = moment_at(tilt)
        J = np.stack(
            [
                (moment_at(tilt + h * axis) - moment_at(tilt - h * axis)) / (2 * h)
                for axis in np.eye(2)
            ],
            axis=-1,
        )
        step = np.linalg.solve(J, now[..., None])[..., 0]
        tilt = tilt - np.clip(step, -0.3, 0.3)
        if np.abs(step).max() < 1e-10:
            break
    return tilt


def _trimming(
    model: Model, runs: Sequence[MeasuredRun], parameters: Mapping[str, float], trim: float | None
) -> Array:
    if trim is None:
        return np.zeros((len(runs), 2))
    predictor = _predictor(model, runs, parameters, trim)
    return predictor.moments(np.array(list(parameters.values())))[:, :2]


def quaternion_of(angles: Array) -> Array:
    """Return quaternions (w, x, y, z) of roll, pitch and yaw, shape (n, 3)."""
    return np.stack(roll_pitch_yaw_to_quaternion(*angles.T), axis=-1)


# errors


def errors_of(runs: Sequence[MeasuredRun], predictions: Sequence[Array]) -> list[Array]:
    """Return mean squares of roll, pitch and their rates averaged over 0.5 s, for each run."""
    width = round(RATE_WINDOW / DT)
    found = []
    for run, angles in zip(runs, predictions, strict=True):
        off = angles[:, :2] - run.attitude[:, :2]
        slow = (off[width:] - off[:-width]) / RATE_WINDOW
        found.append(np.concatenate([np.mean(off**2, axis=0), np.mean(slow**2, axis=0)]))
    return found


def staying(runs: Sequence[MeasuredRun]) -> list[Array]:
    """Return the prediction that the vehicle stays as it starts."""
    return [np.tile(run.attitude[0], (len(run.time), 1)) for run in runs]


def pitch_frequency(time: Array, pitch: Array) -> float:
    """Return the frequency at which pitch rings [Hz]: the highest peak of its spectrum.

    Motion slower than 0.2 Hz, which the arm causes, is removed by a moving average of 4 s.
    """
    width = round(4.0 / DT)
    if len(pitch) <= 2 * width:
        width = len(pitch) // 3
    slow = np.convolve(np.pad(pitch, width // 2, mode="edge"), np.ones(width) / width, "same")
    slow = slow[width // 2 : width // 2 + len(pitch)]
    ringing = (pitch - slow) * np.hanning(len(pitch))
    count = 1 << 16
    power = np.abs(np.fft.rfft(ringing, count)) ** 2
    frequency = np.fft.rfftfreq(count, float(time[1] - time[0]))
    power[(frequency < 0.2) | (frequency > 1.0)] = 0.0
    return float(frequency[int(power.argmax())])


# the table


def validate_pool(
    folder: str | Path,
    *,
    fit: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> PoolTable:
    """Predict all runs of a folder and compare.

    Args:
        folder: Folder of the runs, ``run_*.npz``.
        fit: Folder of other runs: parameters are fitted on all of these. By default they are
            cross-validated: fitted on some trajectories of the folder, judged on the others.
        progress: Called with what is being done.

    Raises:
        RunFileError: If a folder has no run, or a judged run is one of those of the fit.
    """
    say = progress or (lambda _: None)
    runs = load_pool(folder)
    fitted = runs if fit is None else load_pool(fit)
    if fit is not None:
        _refuse_common(runs, fitted, fit)
    model = load("bluerov2_alpha")
    published = _published(model)
    base = np.mean(errors_of(runs, staying(runs)), axis=0)
    results: dict[str, list[Array]] = {}
    for trim, mark in TRIMS:
        say(f"published parameters{mark}")
        results[f"quasi-static, published{mark}"] = quasi_static(model, runs, published, trim=trim)
        for name, robot, parameters in (
            ("scalar added mass", model, published),
            ("full added mass", full_added_mass(model), published),
            ("drag as coded", model, AS_CODED),
        ):
            found = predicted(robot, runs, parameters, trim=trim)
            results[f"published, {name}{mark}"] = found
    fits: dict[str, Identification] = {}
    lift = Lift(0.0, None)
    for trim, mark in TRIMS:
        say(f"fit of all runs{mark}")
        lift = find_lift(model, fitted, published, trim)
        whole = fits[f"identified{mark}"] = _fitted(model, fitted, trim, lift, None)
        if fit is None:
            folds = _cross_validated(model, runs, trim, whole, say)
        else:
            folds = [Fold(list(range(len(runs))), whole.parameters, lift)]
        still, level, moving = _judged(model, runs, folds, trim)
        results[f"quasi-static, identified{mark}"] = still
        results[f"identified{mark}, without height"] = level
        results[f"identified{mark}"] = moving
    rows = []
    for name, prediction in results.items():
        error = np.mean(errors_of(runs, prediction), axis=0)
        rows.append(PoolRow(name, *np.sqrt(error / base).tolist()))
    best = results["identified, trimmed"]
    ringing = [
        Ringing(
            run.name,
            pitch_frequency(run.time, run.attitude[:, 1]),
            pitch_frequency(run.time, best[k][:, 1]),
        )
        for k, run in enumerate(runs)
        if run.name in RINGING
    ]
    say("causes of the remaining error")
    trimmed = fits["identified, trimmed"].parameters
    causes = find_causes(
        Path(folder),
        runs,
        results["identified"],
        best,
        results["identified, trimmed, without height"],
        lambda some: lifted(model, some, trimmed, lift, trim=TRIM),
        lambda changes: predicted(model, runs, {**published, **changes}, trim=TRIM),
        BASE_ZERO,
    )
    angles = {name: [x[:, :2] for x in found] for name, found in results.items()}
    constant = tuple(np.sqrt(base).tolist())
    if fit is None:
        judged_on = "trajectories that their fit left out"
    else:
        judged_on = f"runs that the fit of all {len(fitted)} runs of {Path(fit).name} did not know"
    return PoolTable(
        tuple(rows),
        constant,
        tuple(ringing),
        fits,
        runs,
        angles,
        causes,
        tuple(_other_motion(model, runs, results["identified"])),
        _drag_fit(model, fitted),
        lift.slope,
        judged_on,
    )


TRIMS: tuple[tuple[float | None, str], ...] = ((None, ""), (TRIM, ", trimmed"))
"""Predictions without and with a trimming moment, and their marks."""


def _refuse_common(
    runs: Sequence[MeasuredRun], fitted: Sequence[MeasuredRun], fit: str | Path
) -> None:
    """Refuse to judge runs that a fit knows."""
    known = {run.attitude.tobytes(): run.name for run in fitted}
    for run in runs:
        if run.attitude.tobytes() in known:
            raise RunFileError(
                fit,
                f"run {known[run.attitude.tobytes()]!r} is also judged, as {run.name!r}; leave it "
                "out of one of the folders, or leave --fit out to cross-validate",
            )


def _drag_fit(model: Model, runs: Sequence[MeasuredRun]) -> Identification | None:
    """Return a fit of horizontal drag to horizontal motion; None without measured positions."""
    placed = [run for run in runs if run.valid.sum() > 1]
    if not placed:
        return None
    drag = [f"vehicle.{kind}_damping.v{axis}" for kind in DRAG for axis in "xy"]
    fit = {"x": 1.0, "y": 1.0}
    return identify(model, placed, drag, world=surroundings(), fit=fit, method=RK4(dt=FIT_DT))


def _other_motion(
    model: Model, runs: Sequence[MeasuredRun], predictions: Sequence[Array]
) -> list[OtherMotion]:
    """Return errors of heading and displacements."""
    if not all(run.valid.sum() > 1 for run in runs):
        return []
    squares = []
    for run, found in zip(runs, predictions, strict=True):
        q, v = run.start(model)
        time = (run.time - run.time[0])[:, None]
        velocity = np.array(quaternion_rotate(q[:4].tolist(), v[3:6].tolist()))
        heading = np.unwrap(found[:, 2]) - run.attitude[:, 2]
        heading -= 2.0 * np.pi * np.round(heading[0] / (2.0 * np.pi))
        staying_off = run.attitude[:1, 2] - run.attitude[:, 2]
        moved = [run.displacement(x) for x in (found[:, 3:6], time * velocity)]
        squares.append(
            [
                [np.mean(heading**2), *np.nanmean(moved[0] ** 2, axis=0)],
                [np.mean(staying_off**2), *np.nanmean(moved[1] ** 2, axis=0)],
            ]
        )
    errors = np.sqrt(squares)
    errors[:, :, 0] = np.degrees(errors[:, :, 0])
    median, pooled = np.median(errors, axis=0), np.sqrt(np.mean(errors**2, axis=0))
    units = {"yaw": "deg", "x": "m", "y": "m", "z": "m"}
    return [
        OtherMotion(
            name,
            unit,
            float(median[0, k]),
            float(median[1, k]),
            (float(pooled[0, k]), float(pooled[1, k])),
        )
        for k, (name, unit) in enumerate(units.items())
    ]


VEHICLE_SIZE = (0.4571, 0.3381, 0.254)
"""Length, width and height of the vehicle [m], Kolano et al."""


def _published(model: Model) -> dict[str, float]:
    """Return one parameter at its published value: predictions take at least one."""
    fluid = model.body("wrist").fluid
    assert fluid is not None
    return {"wrist.volume": float(fluid.volume)}


def full_added_mass(model: Model) -> Model:
    """Return the robot with 6 x 6 added mass of every link, instead of scalars from the source.

    Arm links: slender cylinders, strip by strip, none along their axes. The vehicle keeps its
    published translational entries; those in rotation are of an ellipsoid of its size.
    """
    fluids = {}
    for body in model.bodies:
        fluid = body.fluid
        if fluid is None:
            continue
        if body.name == "vehicle":
            matrix = np.array(fluid.added_mass, dtype=np.float64)
            radii = (0.5 * VEHICLE_SIZE[0], 0.5 * VEHICLE_SIZE[1], 0.5 * VEHICLE_SIZE[2])
            matrix[range(3), range(3)] = ellipsoid_added_mass(radii, WATER_DENSITY)[0]
            fluids[body.name] = replace(fluid, added_mass=_nested(matrix))
        for shape in body.shapes:
            if isinstance(shape.geometry, CapsuleShape) and body.name != "vehicle":
                fluids[body.name] = replace(fluid, added_mass=_nested(_of_capsule(shape)))
    return model.with_fluids(fluids)


def _of_capsule(shape: Shape) -> Array:
    """Return the added mass of a slender capsule about its body's origin, angular part first."""
    geometry = shape.geometry
    assert isinstance(geometry, CapsuleShape)
    # hemispheres count as cylinders of the same volume
    length = geometry.length + 4.0 / 3.0 * geometry.radius
    across = WATER_DENSITY * math.pi * geometry.radius**2 * length
    own = np.diag([across * length**2 / 12.0] * 2 + [0.0] + [across, across, 0.0])
    R, p = np.array(shape.pose.rotation), np.array(shape.pose.translation)
    cross = np.array([[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]])
    # velocity of the capsule's center, capsule axes, from that of the body
    X = np.block([[R.T, np.zeros((3, 3))], [-R.T @ cross, R.T]])
    return np.asarray(X.T @ own @ X)


def _nested(matrix: Array) -> Any:
    symmetric = 0.5 * (matrix + matrix.T)
    return tuple(tuple(row) for row in symmetric.tolist())


def _fitted(
    model: Model,
    runs: Sequence[MeasuredRun],
    trim: float | None,
    lift: "Lift",
    start: Mapping[str, float] | None,
) -> Identification:
    """Return a fit of runs whose pitch does not change with height any more."""
    runs = [lift.removed(run) for run in runs]
    free: Sequence[str] = FREE
    fit: Mapping[str, float] = FIT
    if not all(run.valid.sum() > 1 for run in runs):
        # without positions nothing shows the volume
        free, fit = FREE[:-1], {name: x for name, x in FIT.items() if name != "z"}
    return identify(
        model,
        runs,
        free,
        world=surroundings(),
        fit=fit,
        trim=trim,
        start=start,
        method=RK4(dt=FIT_DT),
    )


def _cross_validated(
    model: Model,
    runs: Sequence[MeasuredRun],
    trim: float | None,
    whole: Identification,
    say: Callable[[str], None],
) -> list[Fold]:
    """Return fits, each without some trajectories."""
    names = sorted({trajectory_of(run) for run in runs})
    found = []
    for fold in range(min(FOLDS, len(names))):
        held = set(names[fold::FOLDS])
        out = [k for k, run in enumerate(runs) if trajectory_of(run) in held]
        rest = [run for k, run in enumerate(runs) if k not in out]
        say(f"fit without trajectories {', '.join(sorted(held))}")
        lift = find_lift(model, rest, _published(model), trim)
        found.append(Fold(out, _fitted(model, rest, trim, lift, whole.parameters).parameters, lift))
    return found


def _judged(
    model: Model, runs: Sequence[MeasuredRun], folds: Sequence[Fold], trim: float | None
) -> tuple[list[Array], list[Array], list[Array]]:
    """Return predictions of all runs, each by the fit that excluded it.

    They are quasi-static, dynamic without height, and dynamic.
    """
    found: tuple[list[Any], ...] = tuple([None] * len(runs) for _ in range(3))
    for fold in folds:
        lift, judged = fold.lift, [runs[k] for k in fold.places]
        level = predicted(model, judged, fold.parameters, trim=trim)
        moving = lifted(model, judged, fold.parameters, lift, trim=trim)
        flat = [lift.removed(run) for run in judged]
        still = quasi_static(model, flat, fold.parameters, trim=trim)
        for place, k in enumerate(fold.places):
            rise = moving[place][:, 5] - moving[place][0, 5]
            still[place][:, 1] += lift.change(runs[k], rise)
            for target, part in zip(found, (still, level, moving), strict=True):
                target[k] = part[place]
    resting, without, dynamic = found
    return resting, without, dynamic
