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
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import RunFileError
from tiburon.formats.load import load
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.hydro.coefficients import ellipsoid_added_mass
from tiburon.identification.identify import Identification, identify
from tiburon.identification.measured import (
    MeasuredRun,
    load_measured,
    roll_pitch_yaw,
)
from tiburon.identification.sensitivity import RunPredictor
from tiburon.model import CapsuleShape, Model, Shape, Water, World
from tiburon.record import record
from tiburon.spatial.rotations import roll_pitch_yaw_to_quaternion

__all__ = ["BOUNDS", "FREE", "PoolRow", "PoolTable", "load_pool", "predicted", "validate_pool"]

Array = NDArray[np.float64]

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
    "wrist.volume",
    "wrist.center_of_buoyancy.z",
    "upper_arm.volume",
    "vehicle.added_mass.wx",
    "vehicle.added_mass.wy",
    "vehicle.linear_damping.wx",
    "vehicle.linear_damping.wy",
    "vehicle.quadratic_damping.wx",
    "vehicle.quadratic_damping.wy",
)
"""Identified parameters. Masses stay as weighed: in slow motion the weights of the arm in water and
the righting moment scale together, so that one of them must be known."""

FIT = {"roll": 1.0, "pitch": 1.0, "roll_rate": 2.0, "pitch_rate": 2.0}
"""Weights of the fitted channels."""

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
    """[Hz]"""
    predicted: float
    """[Hz]"""

    @property
    def met(self) -> bool:
        """Whether they agree."""
        return abs(self.predicted / self.measured - 1.0) <= RINGING_BOUND


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
    return tuple(load_measured(file).with_joints(JOINTS) for file in files)


def trajectory_of(run: MeasuredRun) -> str:
    """Return the name of the trajectory that a run repeats: run_005-1 is one of 005."""
    found = re.fullmatch(r"run_(.+)-\d+", run.name)
    return run.name if found is None else found[1]


def surroundings() -> World:
    """Return the pool: fresh water at rest."""
    return World(fluid=Water(density=WATER_DENSITY))


# predictions


def _predictor(
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    trim: float | None,
) -> RunPredictor:
    return RunPredictor(
        model,
        runs,
        tuple(parameters),
        world=surroundings(),
        dt=DT,
        method="rk4",
        smoothing=1.0,
        trim=trim,
        threads=None,
    )


def predicted(
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    *,
    trim: float | None,
) -> list[Array]:
    """Return predicted roll, pitch and yaw of each run [rad], shape (n, 3) each."""
    predictor = _predictor(model, runs, parameters, trim)
    values = np.array(list(parameters.values()))
    found = predictor.predict(values, np.ones(len(values)), derivatives=False)
    return [roll_pitch_yaw(found.q[: len(run.time), k, :4]) for k, run in enumerate(runs)]


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
    model: Model,
    runs: Sequence[MeasuredRun],
    parameters: Mapping[str, float],
    trim: float | None,
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
    folder: str | Path, *, progress: Callable[[str], None] | None = None
) -> PoolTable:
    """Predict all runs of a folder and compare.

    Args:
        folder: Folder of the runs, ``run_*.npz``.
        progress: Called with what is being done.
    """
    say = progress or (lambda _: None)
    runs = tuple(run.resample(DT) for run in load_pool(folder))
    model = load("bluerov2_alpha")
    published = _published(model)
    base = np.mean(errors_of(runs, staying(runs)), axis=0)
    results: dict[str, list[Array]] = {}
    for trimmed in (False, True):
        trim, mark = (TRIM, ", trimmed") if trimmed else (None, "")
        say(f"published parameters{mark}")
        results[f"quasi-static, published{mark}"] = quasi_static(model, runs, published, trim=trim)
        results[f"published, scalar added mass{mark}"] = predicted(
            model, runs, published, trim=trim
        )
        results[f"published, full added mass{mark}"] = predicted(
            full_added_mass(model), runs, published, trim=trim
        )
    fits: dict[str, Identification] = {}
    for trimmed in (False, True):
        trim, mark = (TRIM, ", trimmed") if trimmed else (None, "")
        say(f"fit of all runs{mark}")
        whole = fits[f"identified{mark}"] = _fitted(model, runs, trim, None)
        left_out = _cross_validated(model, runs, trim, whole, say)
        results[f"quasi-static, identified{mark}"] = _joined(
            runs, left_out, partial(quasi_static, model, trim=trim)
        )
        results[f"identified{mark}"] = _joined(runs, left_out, partial(predicted, model, trim=trim))
    rows = []
    for name, prediction in results.items():
        error = np.mean(errors_of(runs, prediction), axis=0)
        rows.append(PoolRow(name, *np.sqrt(error / base).tolist()))
    ringing = []
    for k, run in enumerate(runs):
        if run.name in RINGING:
            pitch = results["identified, trimmed"][k][:, 1]
            ringing.append(
                Ringing(
                    run.name,
                    pitch_frequency(run.time, run.attitude[:, 1]),
                    pitch_frequency(run.time, pitch),
                )
            )
    angles = {name: [x[:, :2] for x in found] for name, found in results.items()}
    constant = tuple(np.sqrt(base).tolist())
    return PoolTable(tuple(rows), constant, tuple(ringing), fits, runs, angles)


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
    start: Mapping[str, float] | None,
) -> Identification:
    return identify(
        model, runs, FREE, world=surroundings(), fit=FIT, trim=trim, start=start, dt=FIT_DT
    )


def _cross_validated(
    model: Model,
    runs: Sequence[MeasuredRun],
    trim: float | None,
    whole: Identification,
    say: Callable[[str], None],
) -> list[tuple[list[int], dict[str, float]]]:
    """Return which runs were left out of a fit, and the fit."""
    names = sorted({trajectory_of(run) for run in runs})
    found = []
    for fold in range(min(FOLDS, len(names))):
        held = set(names[fold::FOLDS])
        out = [k for k, run in enumerate(runs) if trajectory_of(run) in held]
        rest = [run for k, run in enumerate(runs) if k not in out]
        say(f"fit without trajectories {', '.join(sorted(held))}")
        found.append((out, _fitted(model, rest, trim, whole.parameters).parameters))
    return found


def _joined(
    runs: Sequence[MeasuredRun],
    folds: Sequence[tuple[list[int], dict[str, float]]],
    predict: Callable[[list[MeasuredRun], dict[str, float]], list[Array]],
) -> list[Array]:
    """Return predictions of all runs, each by the fit that excluded it."""
    found: list[Any] = [None] * len(runs)
    for out, parameters in folds:
        for k, one in zip(out, predict([runs[k] for k in out], parameters), strict=True):
            found[k] = one
    return found
