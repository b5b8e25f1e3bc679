"""What integrators that users choose have in common: `RK4(dt=1e-3)`, `DormandPrince(1e-9)`, ...

Each is a record in the file of its method, with the options of that method alone. Loops find the
method by its `scheme`, the name in `methods.METHODS`; a method of users is its own `step`.
"""

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any, ClassVar, Self

from tiburon.argument_checks import at_least, is_number
from tiburon.arguments import public
from tiburon.errors import DomainError, ModelError, shown

DEFAULT_DT = 1e-3
"""Step, or spacing of recorded times, by default [s]."""

DEFAULT_RTOL, DEFAULT_ATOL = 1e-6, 1e-8
"""Tolerances of adaptive steps by default: relative, and in the units of the states."""

EXACT_RTOL, EXACT_ATOL = 1e-12, 1e-13
"""Those of the integrator that runs with exact contact by default."""


class Integrator:
    """How a motion is integrated; for `simulate(method=)` and functions like it."""

    __slots__ = ()

    dt: float
    """Step [s]; of adaptive methods the spacing of the times that can be recorded and
    controlled."""

    name: ClassVar[str]
    """Name of the method in `METHODS`."""

    rtol: float | None
    atol: float | None

    @property
    def scheme(self) -> str:
        """Name of the method that loops run."""
        return self.name

    @property
    def is_adaptive(self) -> bool:
        """Whether steps adapt to a tolerance."""
        return False

    @property
    def tolerances(self) -> tuple[float, float]:
        """Relative and absolute tolerance; the defaults where steps are equal."""
        return DEFAULT_RTOL, DEFAULT_ATOL

    def _check_dt(self) -> None:
        """Refuse a step that is no number above zero; store it as a float.

        Raises:
            DomainError: If it is not.
        """
        kind = type(self).__name__
        dt: Any = getattr(self, "dt", None)
        if not is_number(dt) or not 0.0 < float(dt) < float("inf"):
            raise DomainError(
                f"{kind}: dt",
                "a number above 0 [s]",
                shown(dt),
                advice=f"write tb.{kind}(dt=1e-3)",
            )
        object.__setattr__(self, "dt", float(dt))


@public
class FixedIntegrator(Integrator):
    """An integrator with equal steps.

    One of your own is a class derived from this one, a frozen dataclass with the field `dt`, that
    defines `step`. Contacts, loops, events, batches and machine code are those of all methods.

    Example:
        Heun's method::

            @dataclass(frozen=True)
            class Heun(tb.FixedIntegrator):
                dt: float = 1e-3
                order = 2

                def step(self, manifold, acceleration, q, w, h, *time):
                    end = [t + h for t in time]
                    rate, a = manifold.rate(q, w), acceleration(q, w, *time)
                    there = manifold.move(q, [[h * x for x in k] for k in rate])
                    ahead = [x + h * y for x, y in zip(w, a)]
                    last, b = manifold.rate(there, ahead), acceleration(there, ahead, *end)
                    half = [[0.5 * h * (x + y) for x, y in zip(*k)] for k in zip(rate, last)]
                    w = [x + 0.5 * h * (y + z) for x, y, z in zip(w, a, b)]
                    return manifold.normalize(manifold.move(q, half)), w
    """

    __slots__ = ()

    name: ClassVar[str] = ""

    order: ClassVar[int] = 1
    """How the error falls with the step, of a method of users."""

    def step(
        self, manifold: Any, acceleration: Any, q: Any, w: Any, h: Any, time: Any = None
    ) -> tuple[Any, Any]:
        """Take one step, of a method of users.

        Args:
            manifold: Positions: `rate(q, w)` as steps of each joint per second, `move(q, steps)`,
                `normalize(q)`, `bracket`.
            acceleration: Returns the rates of w for q, w and, where it is given, the time.
            q: Configuration [m or rad].
            w: Joint velocity and continuous states.
            h: Step [s].
            time: Time at the start of the step [s], where the motion depends on it.

        Returns:
            Configuration, and joint velocity with continuous states, one step later.
        """
        raise ModelError(
            f"{type(self).__name__}: expected a step of its own, got none; write def step(self, "
            "manifold, acceleration, q, w, h, *time): ..., which returns q and w after h"
        )

    def __post_init__(self) -> None:
        """Check the options."""
        self._check_dt()
        kept = getattr(self, "keep_inertia", None)
        if kept is not None:
            what = f"{type(self).__name__}: keep_inertia"
            object.__setattr__(self, "keep_inertia", at_least(what, kept, 1))

    @property
    def scheme(self) -> str:
        """Name of the method that loops run, with the steps that share a mass matrix."""
        if not self.name:
            return _own_name(self)
        kept = getattr(self, "keep_inertia", None)
        return self.name if kept is None else f"{self.name}_keeping_{kept}"


OWN: dict[str, FixedIntegrator] = {}
"""Integrators of users by name; one stands for all that differ in dt alone."""


def _own_name(integrator: FixedIntegrator) -> str:
    """Return the name of an integrator of users; others of the same class name have numbers."""
    key, kind = _without_dt(integrator), type(integrator).__name__
    for number in count(1):
        name = kind if number == 1 else f"{kind} {number}"
        if _without_dt(OWN.setdefault(name, integrator)) == key:
            break
    return name


def _without_dt(integrator: Any) -> Hashable:
    """Return all that determines the steps of an integrator of users but their length."""
    if not is_dataclass(integrator):
        return id(integrator)
    options = [(x.name, getattr(integrator, x.name)) for x in fields(integrator)]
    return (type(integrator), *(pair for pair in options if pair[0] != "dt"))


@public
class AdaptiveIntegrator(Integrator):
    """An integrator whose steps adapt to a tolerance, or are equal: `fixed`."""

    __slots__ = ()

    @classmethod
    def fixed(cls, dt: float = DEFAULT_DT) -> Self:
        """Return the method with equal steps, without an error estimate."""
        make: Any = cls
        found: Self = make(rtol=None, atol=None, dt=dt)
        return found

    def __post_init__(self) -> None:
        """Check the options."""
        self._check_dt()
        kind = type(self).__name__
        if self.rtol is None and self.atol is None:
            return
        for option in ("rtol", "atol"):
            value = getattr(self, option)
            if not is_number(value) or not 0.0 < float(value) <= 1.0:
                raise DomainError(
                    f"{kind}: {option}",
                    "a number above 0 and at most 1",
                    shown(value),
                    advice=f"write tb.{kind}(rtol=1e-6, atol=1e-8), or tb.{kind}.fixed(dt=1e-3) "
                    "for equal steps",
                )
            object.__setattr__(self, option, float(value))

    @property
    def is_adaptive(self) -> bool:
        """Whether steps adapt to a tolerance."""
        return self.rtol is not None

    @property
    def tolerances(self) -> tuple[float, float]:
        """Relative and absolute tolerance; the defaults where steps are equal."""
        if self.rtol is None or self.atol is None:
            return DEFAULT_RTOL, DEFAULT_ATOL
        return self.rtol, self.atol


def checked_integrator(given: Any) -> Integrator:
    """Return an integrator.

    Raises:
        DomainError: If it is none; the message has the object to write.
    """
    if isinstance(given, Integrator):
        if given.scheme in OWN:
            # its constructor may have checked nothing
            given._check_dt()
        return given
    write = f"tb.{CLASSES.get(given, 'RK4')}" if isinstance(given, str) else "tb.RK4"
    if isinstance(given, type) and issubclass(given, Integrator):
        write = f"tb.{given.__name__}"
    one = "one integrator" if isinstance(given, (list, tuple)) else "an integrator"
    options = "points=1, dt=1e-3" if write.endswith("Corrector") else "dt=1e-3"
    raise DomainError("method", one, shown(given), advice=f"write method={write}({options})")


CLASSES = {
    "euler": "Euler",
    "semi_implicit_euler": "SemiImplicitEuler",
    "rk4": "RK4",
    "dopri5": "DormandPrince",
    "dop853": "Dop853",
    "rosenbrock": "Rosenbrock",
    **dict.fromkeys(("b1pc5", "b2pc5", "b4pc5"), "PredictorCorrector"),
}
"""Classes of integrators by the names of their methods, which the command line takes."""
