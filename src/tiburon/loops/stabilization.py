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
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tiburon.algorithms.tape_calls import JointVector
from tiburon.arguments import public
from tiburon.arrays import Array, NDArray
from tiburon.errors import DomainError, OptionError, ShapeError, shown
from tiburon.loops.complement import Complement, reduced_acceleration
from tiburon.loops.complement_basis import BASES
from tiburon.loops.constraints import Constraints, constraints
from tiburon.loops.denoc import Selected, denoc_motion
from tiburon.loops.denoc_state import denoc_velocity, displaced
from tiburon.loops.legs import PlatformOnLegs, platform_on_legs, selectable_legs
from tiburon.loops.loop_method import Guided, LoopMethod
from tiburon.loops.methods import constrained_motion
from tiburon.loops.metric import checked_tolerance, max_abs
from tiburon.loops.parts import Exchanged
from tiburon.loops.projection import projected_state
from tiburon.model import Model
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars


@public
@record
class Projection(LoopMethod):
    """Project every step onto the loops, without gains: the default of `simulate(loops=)`.

    Example:
        ``tb.simulate(linkage, 1.0, loops=tb.Projection(redundancy_tolerance=1e-5))``
    """

    projects: ClassVar[bool] = True

    redundancy_tolerance: float = field(default=0.0, kw_only=True)
    """Singular value of the constraints, relative to the largest, below which they are treated as
    redundant, and the loop-closure error [m or rad] that the run may leave where they disagree: for
    linkages with rounded lengths and axes. By default only exactly redundant constraints are
    (docs/numbers.md)."""

    @property
    def starts_closed(self) -> bool:
        """True: gaps of rounding are closed, others refused."""
        return True

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return accelerations that satisfy the constraints; see `LoopMethod.motion`."""
        return _constrained(self, loops, here, q, v, x, force)

    def project(
        self, loops: Any, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int]
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Return the nearest state with closed loops; see `LoopMethod.project`."""
        model = loops.model
        v, x = w[: model.nv], w[model.nv :]
        how: Any = {"hold": tuple(hold)} if hold else {}
        how |= {"switches": loops.switches(x), "tolerance": self.redundancy_tolerance}
        closed, v, residual = projected_state(model, loops.plan_at(q, v, time), q, v, **how)
        return closed, (*v, *x), residual

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

    opens_by_design: ClassVar[bool] = True
    has_springs: ClassVar[bool] = True
    exchanges_states: ClassVar[bool] = True

    stiffness: float | tuple[float, ...]
    """k of every constraint [N/m or N m/rad], or of each, in the order of `constraint_names`."""

    damping: float | tuple[float, ...] | None = None
    """d of every constraint or of each [N s/m or N m s/rad]; 2 sqrt(k) by default."""

    implicit: bool = True
    """Whether equal steps that do not resolve its rates take it at their end; False to evaluate it
    at the stages of every method, as the source does."""

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            given = getattr(self, name)
            if isinstance(given, (tuple, list)):
                object.__setattr__(self, name, tuple(given))
                for value in given:
                    _check(self, **{name: value})
            elif name == "stiffness" or given is not None:
                _check(self, **{name: given})
        if self.implicit not in (True, False):
            raise OptionError("Penalty.implicit", (True, False), self.implicit)

    def gains(self, count: int) -> list[tuple[float, float]]:
        """Return k and d of each of some constraints, given or not.

        Raises:
            ShapeError: If they are given for another number of constraints.
        """
        stiffness, damping = self.stiffness, self.damping
        given = stiffness if isinstance(stiffness, tuple) else (stiffness,) * count
        if damping is None:
            damped = tuple(2.0 * math.sqrt(k) for k in given)
        else:
            damped = damping if isinstance(damping, tuple) else (damping,) * count
        for name, values in (("stiffness", given), ("damping", damped)):
            if len(values) != count:
                expected = f"one number, or one per constraint ({count})"
                raise ShapeError(f"Penalty.{name}", expected, f"{len(values)} numbers")
        return list(zip(given, damped, strict=True))

    def roots(self, J: Array, L: Array) -> NDArray[np.complex128]:
        """Return its rates [1/s], the roots of det(s^2 + G D s + G K) = 0 with G = J H^-1 J^T.

        Args:
            J: Jacobian of the constraints.
            L: Cholesky factor of the mass matrix H of the tree.
        """
        A = np.linalg.solve(L, J.T)
        G, (k, d) = A.T @ A, np.array(self.gains(len(J))).T
        zero, one = np.zeros_like(G), np.eye(len(G))
        found = np.linalg.eigvals(np.block([[zero, one], [-G * k, -G * d]]))
        return np.asarray(found, dtype=np.complex128)

    def forces(self, terms: Constraints) -> list[Scalar]:
        """Return the constraint forces [N or N m], one per constraint."""
        rows = zip(self.gains(len(terms.value)), terms.value, terms.rate, strict=True)
        return [-(k * c + d * rate) for (k, d), c, rate in rows]

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return the motion of the tree under springs and dampers; see `LoopMethod.motion`."""
        held, pushes = self.joint_forces(loops.constraints(here, q, v, x), force)
        if loops.is_soft:
            # an element exerts those of the last step
            held = list(force)
        return loops.tree_motion(here, q, v, held), pushes

    def joint_forces(
        self, terms: Constraints, force: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
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

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return accelerations that let residuals decay; see `LoopMethod.motion`."""
        return _constrained(self, loops, here, q, v, x, force)

    @property
    def decay_rate(self) -> tuple[float, str]:
        """Rate of the faster one of its corrections."""
        return max(2.0 * self.alpha, self.beta), "gains"

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

    exchanges_states: ClassVar[bool] = True

    basis: str = "gauss"
    """How they are selected: "gauss" for velocities of joints, by elimination with total pivoting;
    "qr" or "svd" for an orthonormal basis of the permitted velocities at one configuration."""

    decay: float = 10.0
    """Rate sigma at which loop-closure errors decay [1/s]; 0 to leave them."""

    independent: tuple[str, ...] = ()
    """Names of the joints whose velocities are independent at the start, with "gauss"; selected
    by default."""

    max_loss: ClassVar[float] = 0.1

    @property
    def decay_rate(self) -> tuple[float, str]:
        """Rate of its correction."""
        return self.decay, "a decay"

    def select(self, model: Model, A: Array, count: int) -> Array:
        """Return the rows of its basis; see `LoopMethod.select`."""
        if self.independent:
            return np.eye(model.nv)[model.indices(list(self.independent), of="v")]
        return BASES[self.basis](A, model.nv - count)

    def after_start(self) -> LoopMethod:
        """Return the method without named joints, which are a choice for the start."""
        return Embedding(self.basis, self.decay)

    @property
    def is_guided(self) -> bool:
        """True: the states are independent velocities."""
        return True

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return the motion of the reduced equations; see `LoopMethod.motion`."""
        assert guided is not None
        reduced = reduced_acceleration(here, q, v, JointVector(force), guided.T, guided.gamma)
        terms = loops.constraints(here, q, v, x)
        basis = Complement(loops.model, terms, loops.coordinate_rows(x))
        return reduced.vd, basis.multipliers(reduced.needed)

    def project(
        self, loops: Any, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int]
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Return all velocities at the new configuration; see `LoopMethod.project`."""
        moved, v, *_ = loops.guided_state(q, w)
        return moved, (*v, *w[loops.model.nv :]), 0.0

    def guided(self, loops: Any, q: Any, v: Any, x: Scalars) -> Guided:
        """Return velocities by the rows W; see `LoopMethod.guided`."""
        model = loops.model
        plan = loops.plan
        terms = constraints(model, plan, q)
        basis = Complement(model, terms, loops.coordinate_rows(x))
        velocity = basis.velocity(terms, v, self.decay)
        moving = constraints(model, plan, q, JointVector(velocity))
        gamma = basis.gamma(moving, self.decay)
        T = tuple(tuple(column) for column in basis.T())
        return Guided(tuple(q), tuple(velocity), tuple(gamma), T)

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

    # positions of the independent joints determine all others: their errors are amplified, too
    max_loss: ClassVar[float] = 0.3

    @property
    def decay_rate(self) -> tuple[float, str]:
        """Rate of its correction."""
        return self.decay, "a decay"

    def legs(self, model: Model) -> PlatformOnLegs:
        """Return the platform and its legs; see `LoopMethod.legs`."""
        return platform_on_legs(model, self.platform)

    def select(self, model: Model, A: Array, count: int) -> Array:
        """Return the rows of joints of the legs; see `LoopMethod.select`."""
        A = A.copy()
        # joints of the base stay independent
        A[:, list(self.legs(model).moving)] = 0.0
        return BASES["gauss"](A, model.nv - count)

    def preferred(self, model: Model) -> tuple[int, ...]:
        """Return the velocities of the motors."""
        return tuple(sorted(self.legs(model).independent))

    @property
    def starts_closed(self) -> bool:
        """Whether the state is minimal: loops stay closed."""
        return self.state == "minimal"

    @property
    def is_guided(self) -> bool:
        """True: the states are those of independent joints."""
        return True

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return the motion by legs that are projected one by one; see `LoopMethod.motion`."""
        return self.motion_of_legs(loops, here, q, v, x, force, None)

    def motion_of_legs(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Sequence[Scalar],
        exchange: Exchanged | None,
    ) -> tuple[Scalars, Scalars]:
        """Return the motion where legs may be computed elsewhere; see `LoopMethod`."""
        sigma = self.decay if self.state == "extended" else 0.0
        terms = loops.constraints(here, q, v, x)
        legs, chosen = self.legs(loops.model), self._selected(loops, x)
        how: Any = {"decay": sigma, "exchange": exchange}
        found = denoc_motion(here, terms, q, v, JointVector(force), legs, chosen, **how)
        return found.vd, found.multipliers

    def project(
        self, loops: Any, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int]
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Return the state that independent joints determine; see `LoopMethod.project`."""
        moved, v, *_ = loops.guided_state(q, w)
        left: Scalar = 0.0
        if self.state == "minimal":
            left = max_abs(loops.gaps(moved, time))
        return moved, (*v, *w[loops.model.nv :]), left

    def guided(self, loops: Any, q: Any, v: Any, x: Scalars) -> Guided:
        """Return what the independent joints determine; see `LoopMethod.guided`."""
        model = loops.model
        plan = loops.plan
        legs, chosen = self.legs(model), self._selected(loops, x)
        sigma, moved = self.decay, tuple(q)
        if self.state == "minimal":
            sigma, moved = 0.0, displaced(model, plan, legs, q, chosen)[0]
        return Guided(moved, tuple(denoc_velocity(model, plan, legs, moved, v, sigma, chosen)))

    def _selected(self, loops: Any, x: Scalars) -> Selected:
        """Return the independent joints, whose rows are among the continuous states."""
        return Selected(selectable_legs(loops.model, self.platform), loops.coordinate_rows(x))

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise OptionError("DeNOC.state", list(STATES), self.state)
        _check_decay(self, self.decay)
        if not (self.platform is None or isinstance(self.platform, str)):
            raise DomainError("DeNOC.platform", "the name of a body", shown(self.platform))


def _constrained(
    method: LoopMethod, loops: Any, here: Any, q: Any, v: Any, x: Scalars, force: Scalars
) -> tuple[Scalars, Scalars]:
    """Return accelerations under constraints as a method corrects them, and constraint forces."""
    how: Any = {"switches": loops.switches(x), "min_cut": loops.min_cut}
    found = constrained_motion(here, q, v, JointVector(force), baumgarte=method, **how)
    return found.vd, found.multipliers


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
