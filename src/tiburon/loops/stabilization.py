"""How loops are held in a run, by one object each: `simulate(loops=)`.

Projection
    Every step is projected onto the loops, by the smallest change in the metric of the mass matrix;
    the default. The other methods are those that closed mechanisms have been simulated with
    otherwise; the residual that they leave is decided by gains.

Penalty (Khan 2002, eqs. 2.7 and 4.1)
    Springs and dampers across the loops, one stiffness and damping for all constraints:

        H vd = tau - C - J^T (k c + d cd),      d = 2 sqrt(k) unless given

    The residual is the constraint force over k. Stiff, with rates s of s^2 + d a s + k a = 0 and a
    the largest acceleration across constraints per unit of their force, the largest eigenvalue of
    J H^-1 J^T: equal steps of one-step methods that do not resolve them take them implicitly, at
    their end; those of others must stay below about 1 / |s|.

Baumgarte (1972)
    Accelerations satisfy cdd + 2 alpha cd + beta^2 c = 0 instead of cdd = 0, so that a residual
    decays; alpha = beta is critical damping.

Embedding (Khan 2002, method II)
    The states are the configuration and independent velocities z = W v, with constant rows W; a
    residual decays as exp(-decay t). See `complement`.

DeNOC (Khan 2002, method III)
    A platform on legs by the decoupled natural orthogonal complement; see `denoc`.

Constraints on velocities have no c: they get d cd, cdd + 2 alpha cd = 0, A v = 0; DeNOC refuses
them.

Symbols: c, cd, cdd constraint residual and its rates, J constraint Jacobian, H, C mass matrix and
bias force.
"""

import math
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, OptionError, shown
from tiburon.loops.complement_basis import BASES
from tiburon.loops.constraints import Constraints
from tiburon.loops.metric import checked_tolerance
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars


@public
class LoopMethod:
    """How loops are held in a run; for `simulate(loops=)` and functions like it."""

    __slots__ = ()

    @property
    def starts_closed(self) -> bool:
        """Whether loops must be closed at the start."""
        return False

    def corrected(self, terms: Constraints) -> Constraints:
        """Return the constraints on accelerations whose solution lets residuals decay."""
        return terms

    @property
    def redundancy_tolerance(self) -> float:
        """Relative singular value below which constraints are redundant; 0 for exactly those."""
        return 0.0


@public
@record
class Projection(LoopMethod):
    """Project every step onto the loops, without gains: the default of `simulate(loops=)`.

    Example:
        ``tb.simulate(linkage, 1.0, loops=tb.Projection(redundancy_tolerance=1e-5))``
    """

    redundancy_tolerance: float = field(default=0.0, kw_only=True)
    """Singular value of the constraints, relative to the largest, below which they are treated as
    redundant, and the loop-closure error [m or rad] that the run may leave where they disagree: for
    linkages with rounded lengths and axes. By default only exactly redundant constraints are
    (docs/numbers.md)."""

    @property
    def starts_closed(self) -> bool:
        """True: gaps of rounding are closed, others refused."""
        return True

    def __post_init__(self) -> None:
        tolerance = checked_tolerance(self.redundancy_tolerance)
        object.__setattr__(self, "redundancy_tolerance", tolerance)


PROJECTION = Projection()
"""The default."""


@public
@record
class Penalty(LoopMethod):
    """Hold loops by springs and dampers (Khan 2002, method I); for `simulate(loops=)`.

    Example:
        ``tb.simulate(linkage, 0.1, method=tb.RK4(dt=1e-4), loops=tb.Penalty(1e5))``
    """

    stiffness: float
    """k of every constraint [N/m or N m/rad]."""

    damping: float | None = None
    """d of every constraint [N s/m or N m s/rad]; 2 sqrt(k) by default."""

    implicit: bool = True
    """Whether equal steps that do not resolve its rates take it at their end; False to evaluate it
    at the stages of every method, as the source does."""

    def __post_init__(self) -> None:
        _check(self, stiffness=self.stiffness)
        if self.damping is not None:
            _check(self, damping=self.damping)
        if self.implicit not in (True, False):
            raise OptionError("Penalty.implicit", (True, False), self.implicit)

    @property
    def own_damping(self) -> float:
        """D of every constraint [N s/m or N m s/rad], given or not."""
        return 2.0 * math.sqrt(self.stiffness) if self.damping is None else self.damping

    def roots(self, g: float) -> NDArray[np.complex128]:
        """Return its rates [1/s], the roots of s^2 + d g s + k g = 0.

        Args:
            g: Acceleration across the constraint per unit of its force [1/kg].
        """
        found = np.roots([1.0, self.own_damping * g, self.stiffness * g])
        return np.asarray(found, dtype=np.complex128)

    def rate(self, g: float) -> float:
        """Return the absolute value of the fastest one [1/s]."""
        return float(np.abs(self.roots(g)).max())

    def forces(self, terms: Constraints) -> list[Scalar]:
        """Return the constraint forces [N or N m], one per constraint."""
        k, d = self.stiffness, self.own_damping
        return [-(k * c + d * rate) for c, rate in zip(terms.value, terms.rate, strict=True)]

    def joint_forces(self, terms: Constraints, force: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Return joint forces with those of the constraints added, and the constraint forces."""
        pushes, total = self.forces(terms), list(force)
        for row, push in zip(terms.jacobian, pushes, strict=True):
            for i, entry in row.items():
                total[i] = total[i] + entry * push
        return total, pushes


@public
@record
class Baumgarte(LoopMethod):
    """Let loop-closure errors decay: cdd + 2 alpha cd + beta^2 c = 0; for `simulate(loops=)`."""

    alpha: float
    """Decay rate of velocity errors [1/s]."""

    beta: float
    """Natural frequency of position errors [rad/s]; equal to alpha for critical damping."""

    def __post_init__(self) -> None:
        _check(self, alpha=self.alpha, beta=self.beta)

    def corrected(self, terms: Constraints) -> Constraints:
        """Return constraints whose bias has the correction."""
        bias = tuple(
            b + (2.0 * self.alpha) * rate + (self.beta * self.beta) * c
            for c, rate, b in zip(terms.value, terms.rate, terms.bias, strict=True)
        )
        return terms._replace(bias=bias)


@public
@record
class Embedding(LoopMethod):
    """Integrate independent velocities (Khan 2002, method II); for `simulate(loops=)`.

    Where these cease to determine all others well, others are selected: an event named
    "loop coordinates" in `run.events`.
    """

    basis: str = "gauss"
    """How they are selected: "gauss" for velocities of joints, by elimination with total pivoting;
    "qr" or "svd" for an orthonormal basis of the permitted velocities at one configuration."""

    decay: float = 10.0
    """Rate sigma at which loop-closure errors decay [1/s]; 0 to leave them."""

    independent: tuple[str, ...] = ()
    """Names of the joints whose velocities are independent at the start, with "gauss"; selected
    by default."""

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise OptionError("Embedding.basis", list(BASES), self.basis)
        _check_decay(self, self.decay)
        given: Any = self.independent
        names = (given,) if isinstance(given, str) else given
        if not isinstance(names, (tuple, list)) or not all(isinstance(x, str) for x in names):
            raise DomainError("Embedding.independent", "names of joints", shown(given))
        if names and self.basis != "gauss":
            raise OptionError("Embedding.basis with independent joints", ["gauss"], self.basis)
        object.__setattr__(self, "independent", tuple(names))


STATES = ("minimal", "extended")
"""States of runs by `DeNOC`."""


@public
@record
class DeNOC(LoopMethod):
    """Simulate a platform on legs recursively (Khan 2002, method III); for `simulate(loops=)`."""

    state: str = "minimal"
    """"minimal": positions and velocities of independent joints determine all others, loops stay
    closed; "extended": all positions are integrated, and loop-closure errors decay. The motors are
    independent at first; where they cease to determine all others well, other joints are selected:
    an event named "loop coordinates" in `run.events`."""

    decay: float = 10.0
    """Rate at which loop-closure errors of the extended state decay [1/s]; 0 to leave them."""

    platform: str | None = None
    """Name of the platform; found by default."""

    @property
    def starts_closed(self) -> bool:
        """Whether the state is minimal: loops stay closed."""
        return self.state == "minimal"

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise OptionError("DeNOC.state", list(STATES), self.state)
        _check_decay(self, self.decay)
        if not (self.platform is None or isinstance(self.platform, str)):
            raise DomainError("DeNOC.platform", "the name of a body", shown(self.platform))


def _check(method: Any, **values: Any) -> None:
    """Refuse gains that are not positive numbers."""
    for name, value in values.items():
        number = math.nan if isinstance(value, (str, bool)) else _float(value)
        if not 0.0 < number < math.inf:
            raise DomainError(
                f"{type(method).__name__}.{name}",
                "a positive number",
                f"{value!r}",
                advice="write loops=tb.Projection() for loops without gains",
            )


def _check_decay(method: Any, value: Any) -> None:
    """Refuse decay rates that are negative or no numbers."""
    if isinstance(value, (str, bool)) or not 0.0 <= _float(value) < math.inf:
        raise DomainError(
            f"{type(method).__name__}.decay", "a number that is not negative [1/s]", shown(value)
        )


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


_EXAMPLES = {
    "projection": "tb.Projection()",
    "penalty": "tb.Penalty(1e5)",
    "baumgarte": "tb.Baumgarte(20.0, 20.0)",
    "embedding": "tb.Embedding()",
    "denoc": "tb.DeNOC()",
}


def checked_loops(loops: Any) -> LoopMethod:
    """Return a loop method.

    Raises:
        ModelError: If it is something else; the message has the object to write.
    """
    if isinstance(loops, LoopMethod):
        return loops
    named = loops.lower() if isinstance(loops, str) else ""
    write = _EXAMPLES.get(named, "tb.Projection(), tb.Penalty(1e5) or tb.Baumgarte(20.0, 20.0)")
    raise ModelError(f"loops: expected a loop method, got {shown(loops)}; write loops={write}")
