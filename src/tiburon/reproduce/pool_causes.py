"""What the errors of predicted pool runs are made of: causes with their sizes.

Sizes are root mean squares of roll and pitch over all runs. Three kinds:
    part        of the error itself: its constant part per run, its part that follows height
    change      of the prediction, when a value that is not known well is changed
    measured    differences of sensors, and motion without any cause in the model
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.kinematics import forward_kinematics
from tiburon.identification.measured import MeasuredRun, load_measured
from tiburon.spatial.rotations import quaternion_to_roll_pitch_yaw

PUBLISHED_BASE_ZERO = 3.07
"""Zero of the arm's base joint in the source [rad]."""

CLOCK_OFFSET = 0.1
"""How far clocks of arm and inertial unit may differ [s]."""

MARKER_OFFSET = 0.05
"""How far the markers may be from the origin of the vehicle [m]."""

SURFACE_HEIGHT = 1.40
"""Height above which the tip of the arm leaves the water, as the cameras count it [m]: no other
run than 019-2 comes within 20 mm, and only this one falls out of line there."""

JAW_MASS, JAW_VOLUME, JAW_PLACE = 0.05, 2e-5, -0.19
"""The jaw of the source: mass [kg], volume [m^3], place along z of the wrist [m]."""

CENTERS_OF_MASS = {
    "shoulder": (0.005, -0.001, 0.016),
    "upper_arm": (0.073, 0.0, 0.0),
    "forearm": (0.017, -0.026, -0.002),
}
"""Centers of mass of the links, where buoyancy would act if a link were of one density [m]."""


class Cause(NamedTuple):
    """A cause of errors, and its size."""

    name: str
    roll: float
    """[rad]"""

    pitch: float
    """[rad]"""

    kind: str
    """"part", "change" or "measured"; see the top of the file."""

    how: str
    """How it was found."""


def find_causes(
    folder: Path,
    runs: Sequence[MeasuredRun],
    plain: Sequence[Array],
    trimmed: Sequence[Array],
    level: Sequence[Array],
    identified: Callable[[Sequence[MeasuredRun]], list[Array]],
    published: Callable[[Mapping[str, float]], list[Array]],
    zero: float,
) -> tuple[Cause, ...]:
    """Return the causes of errors.

    Args:
        folder: Folder of the runs.
        runs: The runs.
        plain: Identified predictions, with roll and pitch first.
        trimmed: The same, trimmed.
        level: The same, without the change of pitch with height.
        identified: Trimmed predictions of changed runs by the parameters of the fit of all runs.
        published: Trimmed predictions of the runs by published and changed parameters.
        zero: Zero of the arm's base joint in these runs [rad].
    """
    found = [*_constant(runs, plain), *_by_height(runs, level), *_out_of_the_water(runs, trimmed)]
    same, usual = identified(runs), published({})

    def changed(name: str, how: str, other: Sequence[Array], reference: Sequence[Array]) -> Cause:
        off = [a[:, :2] - b[:, :2] for a, b in zip(other, reference, strict=True)]
        return Cause(name, *_size(off), "change", f"{how}; {_verdict(runs, other, reference)}")

    later = identified([_moved(run, delay=CLOCK_OFFSET) for run in runs])
    turned = identified([_moved(run, offset=zero - PUBLISHED_BASE_ZERO) for run in runs])
    found += [
        changed(
            "zero of the base joint",
            f"{PUBLISHED_BASE_ZERO} rad, published, in place of {zero}",
            turned,
            same,
        ),
        changed("clock of the arm", f"joints {CLOCK_OFFSET:g} s later", later, same),
        changed(
            "jaw",
            f"the source's {JAW_MASS * 1e3:g} g and {JAW_VOLUME * 1e6:g} ml, published parameters",
            published(_with_jaw()),
            usual,
        ),
        changed(
            "centers of buoyancy of the links",
            "at their centers of mass, published parameters",
            published(
                {
                    f"{link}.center_of_buoyancy.{axis}": value
                    for link, center in CENTERS_OF_MASS.items()
                    for axis, value in zip("xyz", center, strict=True)
                }
            ),
            usual,
        ),
    ]
    return (*found, *_cameras(folder, runs), *_at_rest(folder))


def _size(parts: Sequence[Array]) -> tuple[float, float]:
    """Return root mean squares of roll and pitch, runs weighted equally."""
    roll, pitch = np.sqrt(np.mean([np.mean(x**2, axis=0) for x in parts], axis=0)).tolist()
    return roll, pitch


def _off(runs: Sequence[MeasuredRun], predictions: Sequence[Array]) -> list[Array]:
    return [
        found[:, :2] - run.attitude[:, :2] for run, found in zip(runs, predictions, strict=True)
    ]


def _verdict(runs: Sequence[MeasuredRun], changed: Sequence[Array], usual: Sequence[Array]) -> str:
    """Return how errors change."""
    after, before = (np.array(_size(_off(runs, x))) for x in (changed, usual))
    return "errors change by factors of {:.2f} and {:.2f}".format(*(after / before))


def _constant(runs: Sequence[MeasuredRun], plain: Sequence[Array]) -> list[Cause]:
    """Return what is constant in each run, and how much of it days explain."""
    off = _off(runs, plain)
    means = np.array([x.mean(axis=0) for x in off])
    found = [
        Cause(
            "constant moment of a run",
            *_size(list(means[:, None])),
            "part",
            "mean error of each run: ballast, tether, thrusters that idle, mounting of the "
            "inertial unit; trimming removes it",
        )
    ]
    late = np.array(["alt" in run.name for run in runs])
    if late.any() and not late.all():
        difference = means[late].mean(axis=0) - means[~late].mean(axis=0)
        spread = np.sqrt(late.mean() * (1.0 - late.mean())) * np.abs(difference)
        found.append(
            Cause(
                "ballast between test days",
                float(spread[0]),
                float(spread[1]),
                "part",
                "of the constant part: later runs (alt) less the others, {:+.2f} and {:+.2f} "
                "deg".format(*np.degrees(difference)),
            )
        )
    return found


def _by_height(runs: Sequence[MeasuredRun], level: Sequence[Array]) -> list[Cause]:
    """Return the part of the error that follows measured height."""
    if not all(run.valid.sum() > 1 for run in runs):
        return []
    parts, squares, products = [], 0.0, np.zeros(2)
    rises = []
    for run, off in zip(runs, _off(runs, level), strict=True):
        assert run.position is not None
        z = run.position[run.valid, 2] - run.position[run.valid, 2].mean()
        inside = off[run.valid] - off[run.valid].mean(axis=0)
        products += z @ inside / len(z)
        squares += float(z @ z) / len(z)
        rises.append(z)
    slope = products / squares
    parts = [z[:, None] * slope for z in rises]
    return [
        Cause(
            "height",
            *_size(parts),
            "part",
            "measured less predicted changes by {:+.2f} and {:+.2f} deg per meter of rise: a "
            "tether that is lifted, or air that expands".format(*np.degrees(-slope)),
        )
    ]


def _out_of_the_water(runs: Sequence[MeasuredRun], trimmed: Sequence[Array]) -> list[Cause]:
    """Return what runs add in which the tip of the arm leaves the water."""
    if not all(run.valid.sum() > 1 for run in runs):
        return []
    model = load("bluerov2_alpha")
    off, dry = _off(runs, trimmed), []
    for run in runs:
        path = run.joint_path()
        q = np.tile(np.array(model.neutral(), dtype=np.float64), (len(run.time), 1))
        q[:, model.indices(path.joints, of="q")] = path.at(run.time).position
        assert run.quaternion is not None
        assert run.position is not None
        q[:, :4], q[:, 4:7] = run.quaternion, np.where(run.valid[:, None], run.position, 0.0)
        tip = forward_kinematics(model, q, "tool")[1][run.valid, 2]
        dry.append(bool(tip.max() > SURFACE_HEIGHT))
    if not any(dry) or all(dry):
        return []
    squares = np.array([np.mean(x**2, axis=0) for x in off])
    rest = squares[~np.array(dry)].mean(axis=0)
    added = np.sqrt(np.maximum(squares.mean(axis=0) - rest, 0.0))
    names = ", ".join(run.name for run, out in zip(runs, dry, strict=True) if out)
    return [
        Cause(
            "arm above the surface",
            float(added[0]),
            float(added[1]),
            "part",
            f"{names}: the tip rises above {SURFACE_HEIGHT:g} m, the highest of all runs; errors "
            "of all other runs {:.3f} and {:.3f} deg".format(*np.degrees(np.sqrt(rest))),
        )
    ]


def _moved(run: MeasuredRun, *, offset: float = 0.0, delay: float = 0.0) -> MeasuredRun:
    """Return a run with another zero of the base joint, or another clock of the arm."""
    joints = dict(run.joints or {})
    joints["joint_5"] = joints["joint_5"] + offset
    if delay:
        joints = {k: np.interp(run.time - delay, run.time, x) for k, x in joints.items()}
    return replace(run, joints=joints)


def _with_jaw() -> dict[str, float]:
    """Return parameters of the wrist with a jaw."""
    wrist = load("bluerov2_alpha").body("wrist")
    assert wrist.fluid is not None
    found = {}
    for mass, center, added, words in (
        (wrist.inertia.mass, wrist.inertia.com[2], JAW_MASS, ("mass", "center_of_mass")),
        (
            wrist.fluid.volume,
            wrist.fluid.center_of_buoyancy[2],
            JAW_VOLUME,
            ("volume", "center_of_buoyancy"),
        ),
    ):
        whole = mass + added
        found[f"wrist.{words[0]}"] = whole
        found[f"wrist.{words[1]}.z"] = (mass * center + added * JAW_PLACE) / whole
    return found


def _cameras(folder: Path, runs: Sequence[MeasuredRun]) -> list[Cause]:
    """Return how cameras and inertial unit differ, and what unknown markers cost."""
    parts, jumps = [], []
    for run in runs:
        with np.load(folder / f"{run.name}.npz") as file:
            if "quaternion_mocap" not in file.files:
                return []
            camera = quaternion_to_roll_pitch_yaw(file["quaternion_mocap"])
            unit = quaternion_to_roll_pitch_yaw(file["quaternion"])
            valid = np.asarray(file["position_valid"], dtype=bool)
        off = (camera - unit)[valid, :2]
        parts.append(off)
        both = valid[1:] & valid[:-1]
        jumps.append(np.abs(np.diff(camera - unit, axis=0)[both, :2]).max())
    lever = [MARKER_OFFSET * (run.attitude[:, :2] - run.attitude[0, :2]) for run in runs]
    return [
        Cause(
            "cameras",
            *_size(parts),
            "measured",
            "cameras less inertial unit, which is the reference; largest jump between two "
            f"samples of a run: median {np.degrees(np.median(jumps)):.1f} deg",
        ),
        Cause(
            "place of the markers",
            0.0,
            0.0,
            "change",
            f"enters positions only: {MARKER_OFFSET * 1e3:g} mm off move them by "
            "{:.1f} and {:.1f} mm".format(*(1e3 * np.array(_size(lever)))),
        ),
    ]


def _at_rest(folder: Path) -> list[Cause]:
    """Return how roll and pitch wander while the arm rests."""
    files = sorted(folder.glob("still_*.npz"))
    if not files:
        return []
    runs = [load_measured(file) for file in files]
    off = [run.attitude[:, :2] - run.attitude[:, :2].mean(axis=0) for run in runs]
    slopes = []
    for run, x in zip(runs, off, strict=True):
        if run.position is not None:
            z = run.position[run.valid, 2] - run.position[run.valid, 2].mean()
            slopes.append(z @ x[run.valid] / (z @ z))
    text = "about the mean of runs in which the arm rests: tether, water, thrusters"
    if slopes:
        text += "; {:+.2f} and {:+.2f} deg per meter of rise".format(
            *np.degrees(np.mean(slopes, axis=0))
        )
    return [Cause("vehicle at rest", *_size(off), "measured", text)]
