"""Paths whose rates are not the derivatives of their positions are refused."""

from dataclasses import dataclass

import numpy as np
import pytest

import tiburon as tb
from tiburon.actuation.piecewise import Piecewise
from tiburon.errors import DomainError, ModelError
from tiburon.model.joints.driven import SAMPLE_TIMES, check_path


@dataclass(frozen=True)
class Wave(tb.Path):
    """A decaying wave, with the given errors in its rates."""

    velocity: float = 1.0
    acceleration: float = 1.0

    def at(self, time):
        """Return position, velocity and acceleration."""
        decay, s, c = np.exp(-0.3 * time), np.sin(7.0 * time), np.cos(7.0 * time)
        x = decay * s
        xd = decay * (7.0 * c - 0.3 * s)
        xdd = decay * (-49.0 * s - 4.2 * c + 0.09 * s)
        return x, self.velocity * xd, self.acceleration * xdd


@dataclass(frozen=True)
class Late(tb.Path):
    """A path that goes wrong at a time: by a step of one of its values."""

    start: float
    place: float = 0.0
    speed: float = 0.0

    def at(self, time):
        """Return position, velocity and acceleration."""
        on = np.where(time > self.start, 1.0, 0.0)
        since = time - self.start
        x = np.sin(time) + on * (self.place + self.speed * since)
        return x, np.cos(time) + on * self.speed, -np.sin(time)


@dataclass(frozen=True)
class Soft(tb.Path):
    """A start at a time, whose position and velocity do not step."""

    start: float = 0.43

    def at(self, time):
        """Return position, velocity and acceleration."""
        since = np.maximum(time - self.start, 0.0)
        return 0.5 * since * since, since, np.where(time > self.start, 1.0, 0.0)


def driven(path):
    """Return a robot whose only joint follows a path."""
    pin = tb.Revolute("pin", (0, 1, 0))
    joint = tb.Driven("table", tb.Prismatic("shake", (1, 0, 0)), path, carried=pin)
    return tb.Model("shaker", [tb.Body("top", joint=joint, inertia=tb.Inertia.sphere(1.0, 0.1))])


def test_consistent_paths_are_accepted():
    """Waves, starts with a step of acceleration, and the kinds of the package."""
    for path in (Wave(), Soft(), tb.Harmonic(0.1, 30.0, 0.2), tb.Polynomial((1.0, 2.0, 3.0, -1.0))):
        driven(path)
    # the formulas that need no looking at
    for path in (tb.Harmonic(0.1, 3.0, 0.2, 0.4), tb.Polynomial((1.0, 2.0, 3.0, -1.0, 0.5))):

        class Copy(tb.Path):
            at = staticmethod(lambda time, path=path: path.at(time))

        check_path(Copy(), "copy", SAMPLE_TIMES)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            Wave(velocity=1.01),
            "joint 'table': velocity of its path Wave must be the time derivative",
        ),
        (Wave(velocity=-1.0), "velocity of its path Wave"),
        (
            Wave(acceleration=0.0),
            "acceleration of its path Wave must be the time derivative of its",
        ),
        (Wave(acceleration=1.0 + 1e-6), "acceleration of its path Wave"),
    ],
)
def test_inconsistent_path_rates_are_refused(path, said):
    """The message names joint, path, both numbers and the time."""
    with pytest.raises(ModelError, match=said) as caught:
        driven(path)
    assert " s; correct `at`" in str(caught.value)


@pytest.mark.parametrize("start", [0.43, 3.21, 9.7])
def test_discontinuous_paths_are_refused(start):
    """They have no derivative that a formula could contradict; the time is found."""
    with pytest.raises(
        ModelError, match=rf"joint 'table': position of its path.*by 0.2 at {start}"
    ):
        driven(Late(start, place=0.2))
    with pytest.raises(
        ModelError, match=rf"joint 'table': velocity of its path.*by 0.1 at {start}"
    ):
        driven(Late(start, speed=0.1))


def test_paths_are_checked_over_the_interval_of_the_run():
    """A path that is wrong in one second of a later hour is refused where that second is run."""

    @dataclass(frozen=True)
    class Glitch(tb.Path):
        def at(self, time):
            wrong = np.where((time > 3600.0) & (time < 3601.0), 0.5, 0.0)
            return 0.0 * time, wrong, 0.0 * time

    model = driven(Glitch())
    assert tb.simulate(model, 1.0).status == "finished"
    with pytest.raises(ModelError, match=r"velocity of its path Glitch.*at 3600\.\d+ s"):
        tb.simulate(model, 2.0, time=3599.5)


def test_path_that_does_not_return_three_values_is_refused():
    """Position and velocity alone do not tell the forces."""

    class Short(tb.Path):
        def at(self, time):
            return time, 1.0

    with pytest.raises(ModelError, match=r"Short\.at must return position, velocity and accel"):
        driven(Short())


def test_reference_paths_of_controllers_are_continuous():
    """Pieces that do not follow each other, by place or by speed; those of the package do."""
    rng = np.random.default_rng(1)
    points = rng.standard_normal((5, 2))
    for kind in ("cubic", "quintic"):
        tb.JointPath.through([0.0, 0.1, 2.0, 2.5, 40.0], points, kind=kind)
    tb.JointPath.trapezoidal(points, speed=1.0, acceleration=3.0)
    steps = Piecewise((0.0, 1.0, 2.0), (((0.0, 0.0), (1.0, 0.0)), ((1.0, 0.5), (1.0, 0.0))))
    with pytest.raises(DomainError, match=r"path of joint 'b'.*a position without steps.*at 1 s"):
        tb.JointPath(steps, ("a", "b"))
    turns = Piecewise((0.0, 1.0, 2.0), (((0.0,), (1.0,)), ((1.0,), (-1.0,))))
    with pytest.raises(DomainError, match=r"path of joint 0.*a velocity without steps"):
        tb.JointPath(turns)
