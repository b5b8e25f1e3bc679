"""Driven joints, and the motions they follow: functions of time.

Such joints are rheonomic (Featherstone 1987, section 7.4.4): the velocity is S(q, t) v + xi(q, t),
xi being the prescribed part. Here the joint frame is driven, and may carry a joint:

    parent --drive at x(t)--> driven frame --carried joint at q--> body

so that xi = X xi', with X the map of the carried joint and xi' the velocity of the drive.

A check compares velocity and acceleration of a motion with the exact derivatives of its traced
position and velocity. Steps, which have no derivative, are found as changes between two times that
the rates do not explain, however close the times.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError, shown
from tiburon.model.joints.joint import Fixed, Joint, refuse_own_data
from tiburon.model.pose import Pose
from tiburon.model.value_checks import convert, number
from tiburon.record import field, record
from tiburon.spatial import Motion, Scalar, Scalars, Transform
from tiburon.trace.derivative import evaluate_nodes, rate_program


@public
class Path(ABC):
    """A position as a function of time, with its rates; immutable, compares by value.

    Derive a frozen dataclass for your own paths: `at` uses `+ - * /` and NumPy functions only, so
    that it can be traced. Code is keyed by its graph; a model raises an error if its path has
    changed since it was built.
    """

    @abstractmethod
    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s]."""


@public
@record(slots=False)
class Harmonic(Path):
    """Harmonic motion: mean + amplitude sin(2 pi frequency t + phase).

    Example:
        ``Harmonic(amplitude=0.1, frequency=2.0)``
    """

    amplitude: float
    """Amplitude [m or rad]."""

    frequency: float
    """Frequency [Hz]."""

    phase: float = 0.0
    """Phase at time zero [rad]."""

    mean: float = 0.0
    """Mean position [m or rad]."""

    def __post_init__(self) -> None:
        quantities = ("amplitude", "frequency", "phase", "mean")
        convert(self, number, "harmonic path", *quantities)

    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s]."""
        rate = 2.0 * np.pi * self.frequency
        angle = rate * time + self.phase
        swing = self.amplitude * np.sin(angle)
        return self.mean + swing, self.amplitude * rate * np.cos(angle), -rate * rate * swing


@public
@record(slots=False)
class Polynomial(Path):
    """A polynomial in time: c[0] + c[1] t + c[2] t^2 + ...

    Example:
        Constant speed of 3 rad/s: ``Polynomial((0.0, 3.0))``
    """

    coefficients: tuple[float, ...]
    """Coefficients in ascending order [m/s^k or rad/s^k]."""

    def __post_init__(self) -> None:
        refuse_unusable("polynomial path: coefficients", self.coefficients)
        given = np.asarray(self.coefficients, dtype=np.float64)
        if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
            raise ModelError(
                "polynomial path: coefficients must be a sequence of finite numbers, got "
                f"{self.coefficients!r}; write (start, speed, ...)"
            )
        object.__setattr__(self, "coefficients", tuple(given.tolist()))

    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s], by Horner's rule."""
        x: Scalar = 0.0
        xd: Scalar = 0.0
        half_xdd: Scalar = 0.0
        for c in reversed(self.coefficients):
            half_xdd = half_xdd * time + xd
            xd = xd * time + x
            x = x * time + c
        return x, xd, 2.0 * half_xdd


SAMPLE_TIMES = tuple(np.concatenate([np.linspace(0.0, 10.0, 41), np.geomspace(1e-3, 1e3, 13)]))
"""Times at which paths are checked when a joint is built [s]."""

RATE_TOLERANCE = 1e-8
"""Largest relative difference of two rates that is attributed to rounding."""

BISECTIONS = 48
"""Bisections of an interval around a step."""

BUILT_IN = (Harmonic.at, Polynomial.at)
"""Built-in formulas, whose rates are exact."""


def check_path(path: Path, joint: str, times: Sequence[float]) -> None:
    """Raise an error if the rates of a path are inconsistent at one of some times.

    Args:
        path: The path.
        joint: Name of the joint that it drives.
        times: Times to check [s], in any order.

    Raises:
        ModelError: If velocity is not the derivative of position, or acceleration that of
            velocity, or if one of them steps.
    """
    if type(path).at in BUILT_IN:
        return
    given: object = path.at(0.5)
    if not isinstance(given, tuple) or len(given) != 3:
        raise ModelError(
            f"joint {joint!r}: {type(path).__name__}.at must return position, velocity and "
            f"acceleration, got {type(given).__name__}",
            name=joint,
        )
    program = rate_program(lambda time: path.at(time), 1, "path")
    values, tangents = program.outputs
    when = np.unique(np.asarray(times, dtype=np.float64))
    with np.errstate(all="ignore"):
        stated = np.array([evaluate_nodes(program, values.nodes, (t,), ()) for t in when])
        exact = np.array([evaluate_nodes(program, tangents.nodes, (t,), (1.0,)) for t in when])
    known = np.isfinite(stated).all(axis=1) & np.isfinite(exact).all(axis=1)
    when, stated, exact = when[known], stated[known], exact[known]
    for order, (rate, of) in enumerate((("velocity", "position"), ("acceleration", "velocity"))):
        if not len(when):
            return
        off = np.abs(stated[:, order + 1] - exact[:, order])
        size = max(np.abs(exact[:, order]).max(), np.abs(stated[:, order + 1]).max())
        bad = np.flatnonzero(off > RATE_TOLERANCE * size)
        if len(bad):
            k = int(bad[0])
            raise ModelError(
                f"joint {joint!r}: {rate} of its path {type(path).__name__} must be the time "
                f"derivative of its {of}, got {stated[k, order + 1]:.6g} where that is "
                f"{exact[k, order]:.6g} at {when[k]:.6g} s; correct `at`",
                name=joint,
            )
        step = _step(path, when, stated, order)
        if step is not None:
            raise ModelError(
                f"joint {joint!r}: {of} of its path {type(path).__name__} must be consistent "
                f"with its {rate}, got a step by {step[1]:.6g} at {step[0]:.6g} s; blend it "
                "over some time",
                name=joint,
            )


def _step(
    path: Path, times: NDArray[np.float64], stated: NDArray[np.float64], order: int
) -> tuple[float, float] | None:
    """Return time and size of a step of a value; None if there is none."""

    def missing(a: float, fa: Sequence[float], b: float, fb: Sequence[float]) -> float:
        """Return the change beyond the mean rate."""
        mean = 0.5 * (fa[order + 1] + fb[order + 1])
        return float(fb[order] - fa[order] - (b - a) * mean)

    def at(time: float) -> list[float]:
        with np.errstate(all="ignore"):
            return [float(x) for x in path.at(time)]

    size = np.abs(stated[:, order]).max()
    for k in range(len(times) - 1):
        a, b = float(times[k]), float(times[k + 1])
        fa, fb = stated[k].tolist(), stated[k + 1].tolist()
        if abs(missing(a, fa, b, fb)) <= RATE_TOLERANCE * size:
            continue
        # the change of a continuous value vanishes with the interval, a step does not
        for _ in range(BISECTIONS):
            middle = 0.5 * (a + b)
            f = at(middle)
            if abs(missing(a, fa, middle, f)) >= abs(missing(middle, f, b, fb)):
                b, fb = middle, f
            else:
                a, fa = middle, f
        left = missing(a, fa, b, fb)
        if abs(left) > RATE_TOLERANCE * size:
            return b, left
    return None


@public
@record(slots=False)
class Driven(Joint):
    """A joint frame with prescribed motion.

    q, v and joint forces are those of the carried joint: none if there is none. Functions of a
    model with driven joints take `time=`.

    Example:
        A shaker table along x, and a pendulum on a crank at constant speed::

            Driven("shaker", Prismatic("shake", (1, 0, 0)), Harmonic(0.01, frequency=30))
            Driven("crank", Revolute("turn"), Polynomial((0, 20)), carried=Revolute("pin", ...))
    """

    drive: Joint = field(default_factory=lambda: Fixed("still"))
    """Motion of the frame: a joint whose velocities are the rates of its positions."""

    path: Path | tuple[Path, ...] = ()
    """The drive's position variables as functions of time: one path each."""

    carried: Joint = field(default_factory=lambda: Fixed("mount"), kw_only=True)
    """The joint between driven frame and body; rigid by default."""

    kind: ClassVar[str] = "driven"
    _time: ClassVar[Any] = 0.0

    def __post_init__(self) -> None:
        parts: tuple[object, ...] = (self.drive, self.carried)
        for part in parts:
            if not isinstance(part, Joint) or part.depends_on_time:
                raise ModelError(
                    f"joint {self.name!r}: drive and carried must not be driven joints, got "
                    f"{shown(part)}; drive a body on a driven body instead",
                    name=self.name,
                )
        refuse_own_data(self, self.drive, self.carried)
        if self.drive.pose != Pose():
            raise ModelError(
                f"joint {self.name!r}: the drive {self.drive.name!r} must have no pose; give "
                "the pose to the driven joint",
                name=self.name,
            )
        if self.drive.nq != self.drive.nv:
            raise ModelError(
                f"joint {self.name!r}: the velocities of a drive must be the rates of its "
                f"positions, got a {self.drive.kind} joint; use a chain of revolute, prismatic, "
                "cylindrical, universal or planar joints",
                name=self.name,
            )
        paths = tuple(self.path) if isinstance(self.path, (tuple, list)) else (self.path,)
        if len(paths) != self.drive.nq or not all(isinstance(path, Path) for path in paths):
            raise ModelError(
                f"joint {self.name!r}: path must be one Path for each of {self.drive.nq} "
                f"position variables of {self.drive.name!r}, got {shown(self.path)}; "
                "write Harmonic(...) or Polynomial(...)",
                name=self.name,
            )
        object.__setattr__(self, "path", paths)
        self.check_paths(SAMPLE_TIMES)
        # last, because it needs the degrees of freedom of the carried joint
        super().__post_init__()

    def check_paths(self, times: Sequence[float]) -> None:
        """Raise `ModelError` if the rates of a path are inconsistent at some times [s]."""
        for path in self._paths:
            check_path(path, self.name, times)

    @property
    def nq(self) -> int:  # type: ignore[override]
        """Number of position variables: those of the carried joint."""
        return self.carried.nq

    @property
    def nv(self) -> int:  # type: ignore[override]
        """Number of velocity variables: those of the carried joint."""
        return self.carried.nv

    @property
    def depends_on_time(self) -> bool:
        """True: the joint depends on time."""
        return True

    def at(self, time: Scalar) -> Self:
        """Return the joint at a time [s]; joints are constructed at time zero."""
        joint = copy.copy(self)
        object.__setattr__(joint, "_time", time)
        return joint

    def locked(self, q: Sequence[float]) -> Joint:
        """Return the driven joint with its carried joint locked at q."""
        joint = copy.copy(self)
        object.__setattr__(joint, "carried", self.carried.locked(q))
        return joint

    def q_names(self) -> tuple[str, ...]:
        """Return the names of the carried joint's position variables."""
        return self.carried.q_names()

    def v_names(self) -> tuple[str, ...]:
        """Return the names of the carried joint's velocity variables."""
        return self.carried.v_names()

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the parts and the paths, but not the time."""
        parts = (self.drive.structure(), self.carried.structure(), self.carried.pose)
        return (self.kind, *parts, *self._paths)

    def neutral(self) -> tuple[float, ...]:
        """Return the carried joint's neutral position."""
        return self.carried.neutral()

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a random position of the carried joint."""
        return self.carried.random(rng)

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame, at the joint's time."""
        x, _, _ = self._driven()
        return self.drive.transform(x).then(self._carry(q))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the columns of the carried joint."""
        return self.carried.subspace(q)

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the columns of Sdot of the carried joint."""
        return self.carried.subspace_rate(q, v)

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return S v of the carried joint."""
        return self.carried.motion(q, v)

    def velocity(self, q: Scalars, v: Scalars) -> Motion:
        """Return S v + xi, the velocity of the body relative to its parent."""
        return self.carried.velocity(q, v) + self._drift(q)

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return Sdot v + dxi/dt as seen from the body.

        xi = X xi' changes with the drive's acceleration, and with the motion of the body relative
        to the driven frame: dX/dt = -(S v) x X.
        """
        x, xd, xdd = self._driven()
        own = self.drive.motion(x, xdd) + self.drive.bias(x, xd)
        seen = self._drift(q).cross(self.carried.velocity(q, v))
        return self._carry(q).motion(own) + seen + self.carried.bias(q, v)

    def bias_derivative(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v of the carried joint; the drive does not affect it."""
        return self.carried.bias_derivative(q, v)

    def position_rate(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return dq/dt of the carried joint."""
        return self.carried.position_rate(q, v)

    def velocity_of_rate(self, q: Scalars, qd: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's velocity at a rate of its position."""
        return self.carried.velocity_of_rate(q, qd)

    def integrate(self, q: Scalars, dv: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's position after a step."""
        return self.carried.integrate(q, dv)

    def step(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's rate of position."""
        return self.carried.step(q, v)

    def move(self, q: Scalars, step: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's position after a step."""
        return self.carried.move(q, step)

    def bracket(self, a: Scalars, b: Scalars) -> tuple[Scalar, ...]:
        """Return the commutator of two steps of the carried joint."""
        return self.carried.bracket(a, b)

    def difference(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's step from q0 to q1."""
        return self.carried.difference(q0, q1)

    def displacement(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's displacement from q0 to q1."""
        return self.carried.displacement(q0, q1)

    def normalize(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the carried joint's position with any redundant scale removed."""
        return self.carried.normalize(q)

    @property
    def _paths(self) -> tuple[Path, ...]:
        return (self.path,) if isinstance(self.path, Path) else self.path

    def _driven(self) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...], tuple[Scalar, ...]]:
        """Return position, velocity and acceleration of the drive."""
        found = [path.at(self._time) for path in self._paths]
        x, xd, xdd = (tuple(part[k] for part in found) for k in range(3))
        return x, xd, xdd

    def _carry(self, q: Scalars) -> Transform:
        """Return the map of motion from the driven frame to the body frame."""
        return self.carried.pose.transform.then(self.carried.transform(q))

    def _drift(self, q: Scalars) -> Motion:
        """Return xi, the velocity of the driven frame in body coordinates."""
        x, xd, _ = self._driven()
        return self._carry(q).motion(self.drive.motion(x, xd))
