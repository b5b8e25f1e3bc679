"""What smoothing makes of a trot: changes of force per sample, torques and energy, per scheme.

`python -m benchmarks.landing_table` prints the table of docs/load_sharing.md: a quadruped trots ten
seconds on rigid ground under `LoadSharingControl` at 1 kHz, with each scheme. Then it prints what a
sample of the controller takes.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tiburon as tb

DURATION = 10.0
SPEED = 0.3
GROUND_FRICTION, PLANNED_FRICTION = 0.8, 0.6
AFTER = 5
"""Samples after a landing that belong to it."""

SCHEMES: dict[str, dict[str, Any]] = {
    "none": {"smoothing": None, "transfers": False},
    "penalty": {"smoothing": tb.SmoothingPenalty(10.0, 0.1), "transfers": False},
    "step bound of 5 N": {"smoothing": tb.StepBound(5.0), "transfers": False},
    "transfer of load": {"smoothing": None},
    "penalty and transfer (default)": {},
    "step bound of 2 N and transfer": {"smoothing": tb.StepBound(2.0)},
}


class Row(NamedTuple):
    """One scheme."""

    scheme: str
    landing: float
    """Largest change of a force per sample within `AFTER` samples of a landing [N]."""
    change: float
    """Largest change of a force per sample at all [N]."""
    torque_change: float
    """Largest change of a joint torque per sample [N m]."""
    torque: float
    """Largest joint torque [N m]."""
    energy: float
    """Mechanical energy of all motors, positive and negative work counted alike [J]."""
    heat: float
    """Time integral of the squares of all torques [N^2 m^2 s]."""
    error: float
    """Largest difference of measured and shared normal forces [N]."""
    lean: float
    """Largest roll or pitch [deg]."""

    def __str__(self) -> str:
        numbers = [f"{x:.3g}" for x in self[1:]]
        return f"| {self.scheme} | {' | '.join(numbers)} |"


def rows(duration: float = DURATION) -> Iterator[Row]:
    """Run all schemes."""
    dog = tb.load("quadruped")
    floor = tb.World(ground=tb.Ground(static_friction=GROUND_FRICTION, kinetic_friction=0.7))
    plan = tb.LoadSharing.of(dog, world=floor, friction=PLANNED_FRICTION)
    path = tb.GaitPath.trot(dog, speed=SPEED)
    for name, options in SCHEMES.items():
        run = tb.simulate(
            dog,
            duration,
            q=dog.poses["stand"],
            world=floor,
            control=tb.LoadSharingControl(plan, path, **options),
            record=tb.Record(every=1),
            execution=tb.Execution(progress=False),
        )
        if run.outcome.status != "finished":
            raise SystemExit(f"{name}: {run.outcome.message}")
        yield _row(name, run)


def _row(name: str, run: tb.Trajectory) -> Row:
    labels = list(run.header.column("z").labels)
    feet = [point.name for point in run.model.contacts]

    def held(part: str) -> Any:
        return np.stack([run.z[:, labels.index(f"share.{foot}.{part}")] for foot in feet], axis=-1)

    if run.z[:, labels.index("share.status")].any():
        raise SystemExit(f"{name}: some samples have no solution")
    forces = np.stack([held(part) for part in ("t1", "t2", "n")], axis=-1)
    changes = np.abs(np.diff(forces, axis=0)).max(axis=(1, 2))
    landings = np.flatnonzero((np.diff(held("touching"), axis=0) > 0.5).any(axis=1))
    near = np.unique(np.clip(landings[:, None] + np.arange(AFTER), 0, len(changes) - 1))
    tau, v = run.u[:, 6:18], run.v[:, 6:]
    dt = float(run.time[1] - run.time[0])
    w, x, y, z = run.q[:, :4].T
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    measured = run.get("contact_force").values[1:, :, 2]
    return Row(
        name,
        float(changes[near].max()),
        float(changes.max()),
        float(np.abs(np.diff(tau, axis=0)).max()),
        float(np.abs(tau).max()),
        float(np.abs(tau * v).sum() * dt),
        float((tau**2).sum() * dt),
        float(np.abs(measured - forces[:-1, :, 2]).max()),
        float(np.degrees(np.maximum(np.abs(roll), np.abs(pitch)).max())),
    )


def sample_time(repeats: int = 8) -> float:
    """Return the time of one sample of the controller [s]: a run with it less one with PD."""
    dog = tb.load("quadruped")
    stand = dog.poses["stand"]
    floor = tb.World(ground=tb.Ground(static_friction=GROUND_FRICTION, kinetic_friction=0.7))
    plan = tb.LoadSharing.of(dog, world=floor, friction=PLANNED_FRICTION)
    joints = tuple(joint.name for joint in dog.joints if joint.nv == 1)
    controls = (
        tb.LoadSharingControl(plan, tb.GaitPath.trot(dog, speed=SPEED)),
        tb.PD(tuple(stand[7:]), 300.0, 5.0, joints=joints),
    )
    best = [np.inf, np.inf]
    for _ in range(repeats):
        for k, control in enumerate(controls):
            begin = time.perf_counter()
            tb.simulate(
                dog,
                1.0,
                q=stand,
                world=floor,
                control=tb.Sampled(control, dt=1e-3),
                execution=tb.Execution(progress=False),
            )
            best[k] = min(best[k], time.perf_counter() - begin)
    return (best[0] - best[1]) / 1000.0


def main() -> None:
    """Print the table."""
    print("| scheme | at landings [N] | at all [N] | torque [N m] | peak torque [N m] | energy [J] "
          "| squares of torques [N^2 m^2 s] | measured less shared [N] | lean [deg] |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else DURATION):
        print(row, flush=True)
    print(f"\none sample of the controller: {1e6 * sample_time():.0f} us")


if __name__ == "__main__":
    main()
