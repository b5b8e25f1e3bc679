"""Identification from joint forces: parameters of a robot from measured motion and joint forces.

Least squares of inverse dynamics minus measured forces over all samples, by the solver of
`identify`, with exact derivatives. No motion is integrated: robots on fixed and free bases, in air
and water, and with loops are fitted alike, from logs that have accelerations.

Errors of neighboring samples depend on each other. A run, or a twentieth of the only one, is what
counts as independent.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import at_least, check_finite, positive
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, ShapeError, TiburonError, UnknownNameError
from tiburon.functions.compilation import compile, tuple_of
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.library import depends_on_time
from tiburon.functions.parameter_derivatives import parameter_derivatives
from tiburon.identification.identify import (
    UNDETERMINED,
    Fit,
    Identification,
    LeastSquares,
    initial_values,
    parameter_bounds,
    parameter_scales,
    sample_times,
)
from tiburon.model import Coupled, Model, Water, World
from tiburon.results.header import force_units
from tiburon.simulation.run_parameters import parameters as named_parameters

PARTS = 20
"""Parts of a single run that count as independent of each other."""

SMALLEST_FORCE = 1e-3
"""Root mean square of a joint force, relative to the largest, below which it counts as this."""

FRICTION = ("damping", "friction")
"""Words of parameters of joints that act beside inverse dynamics: viscous and Coulomb friction."""


@public
def identify_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    tau: ArrayLike,
    free: Sequence[str],
    *,
    world: World | None = None,
    fluid: Water | None = None,
    time: ArrayLike | None = None,
    weights: Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    max_iterations: int = 50,
    tolerance: float = 1e-6,
) -> Identification:
    """Estimate parameters of a robot from measured motion and joint forces.

    Predicted are `inverse_dynamics` and, without loops, damping and Coulomb friction of joints with
    one degree of freedom; springs do not act. Directions that the motion does not determine are
    reported in `undetermined`; along them the estimate stays at its start.

    Args:
        model: The robot; with loops, its actuators carry the motion.
        q: Measured configuration [m or rad], shape (samples, nq) or (runs, samples, nq).
        v: Joint velocity [m/s or rad/s], shape (..., samples, nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., samples, nv).
        tau: Joint force [N or N m], shape (..., samples, nv).
        free: Parameters to estimate: names of `parameters`, or components of vectors and matrices
            such as "link_3.center_of_mass.x", "link_3.inertia.xy", "hull.added_mass.wx";
            "elbow.damping" and "elbow.friction" of joints.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in.
        time: Times of the samples [s], shape (..., samples) or one for all: where driven joints and
            currents are; 0 by default.
        weights: Of joint forces by name of the velocity variable [1/N or 1/(N m)], 0 for what was
            not measured; by default the inverse of their root mean square, but at most a thousand
            times the least of these.
        start: Values at the start by name; those of the model by default.
        bounds: Lower and upper bound by name, in addition to physical ones.
        max_iterations: Most steps.
        tolerance: Step at which to end, relative to the sizes of the parameters.

    Raises:
        UnknownNameError: If there is no such parameter or velocity variable.
        ShapeError: If arrays do not fit, or no parameter is free.
        DomainError: If the start is outside the bounds.
        ModelError: If friction is to be estimated of a robot with loops.

    Example:
        ``tb.identify_dynamics(arm, q, v, vd, tau, ["link_3.mass", "joint_3.damping"])``
    """
    arrays = _samples(model, q, v, vd, tau)
    around = world_with(world, fluid) or DEFAULT_WORLD
    at = sample_times(time, arrays[0].shape[:-1], depends_on_time(model, around))
    known = named_parameters(model.without_limits(), world=around)
    names = tuple_of(free)
    if not names:
        raise ShapeError("free", "names of parameters", "none", advice="list tb.parameters(model)")
    x0 = initial_values(known, names, start or {}, bounds or {})
    low, high = parameter_bounds(names, x0, bounds or {})
    low = np.where([name.rpartition(".")[2] in FRICTION for name in names], np.maximum(low, 0), low)
    sizes = np.sqrt((arrays[-1].reshape(-1, model.nv) ** 2).mean(axis=0))
    typical = 1.0 / np.maximum(sizes, SMALLEST_FORCE * sizes.max() or 1.0)
    weight = dict(zip(model.v_names, typical.tolist(), strict=True))
    for name, given in (weights or {}).items():
        if name not in weight:
            raise UnknownNameError("velocity variable", name, weight, where="weights")
        weight[name] = 0.0 if given == 0 else positive(f"weights[{name!r}]", given)
    scale = parameter_scales(names, x0, known)
    whole = [name if name in known else name.rpartition(".")[0] for name in names]
    problem = _Forces(model, arrays, at, names, whole, around, weight, scale, low, high)
    most = at_least("max_iterations", max_iterations, 1)
    return problem.solve(x0, most, positive("tolerance", tolerance))


def _samples(model: Model, *given: ArrayLike) -> list[Array]:
    """Return q, v, vd and tau, shape (runs, samples, ...), checked."""
    names, sizes = ("q", "v", "vd", "tau"), (model.nq, *[model.nv] * 3)
    found: list[Array] = []
    for name, values, size in zip(names, given, sizes, strict=True):
        array = np.asarray(values, dtype=np.float64)
        lead = found[0].shape[:-1] if found else array.shape[:-1]
        if array.ndim not in (2, 3) or array.shape != (*lead, size) or not array.size:
            listed = ", ".join(map(str, lead)) if found else "..., samples"
            raise ShapeError(name, f"shape ({listed}, {size})", f"shape {array.shape}")
        check_finite(name, array)
        found.append(array)
    return found


class _Forces(LeastSquares):
    """Inverse dynamics against measured joint forces."""

    def __init__(
        self,
        model: Model,
        arrays: Sequence[Array],
        at: Mapping[str, Array],
        names: Sequence[str],
        whole: Sequence[str],
        world: World,
        weights: Mapping[str, float],
        scale: Array,
        low: Array,
        high: Array,
    ) -> None:
        runs = arrays[0].ndim == 3
        q, v, vd, tau = (x.reshape(-1, x.shape[-1]) for x in arrays)
        count = len(arrays[0]) if runs else min(PARTS, len(q))
        listed = [f"{'run' if runs else 'part'} {k}" for k in range(count)]
        super().__init__(names, listed, scale, low, high, unit="run" if runs else "part")
        self._model, self._states, self._at = model, (model.normalize(q), v, vd), dict(at)
        self._tau, self._weights = tau, np.array(list(weights.values()))
        self._parts = np.array_split(np.arange(len(q)), count)
        self._own = _frictions(model)
        self._rubbing = {name: _rubbed(model, name, v) for name in self._own}
        self._rigid = [name for name in names if name not in self._rubbing]
        for name in names:
            if name in self._rubbing and model.loops:
                raise ModelError(
                    f"free: {name!r} is friction, expected none with loops, whose passive joints "
                    "share it; estimate it with the loops open"
                )
        taken = dict.fromkeys(name for name in whole if name not in self._rubbing)
        # measured loops are as open as sensors are inaccurate
        self._kernel = compile(
            inverse_dynamics, model, world=world, closure=False, parameters=list(taken)
        )
        self.force_units = force_units(model)
        squares = (self._weights * tau) ** 2
        self.least = UNDETERMINED**2 * float(squares.sum() / len(q))

    def _named(self, x: Array) -> dict[str, float]:
        return dict(zip(self.names, x.tolist(), strict=True))

    def feasible(self, x: Array) -> bool:
        """Return whether a robot may have these values."""
        named = self._named(x)
        try:
            self._predicted({name: named[name] for name in self._rigid}, slice(0, 1))
        except TiburonError:
            return False
        return True

    def _predicted(self, named: Mapping[str, float], part: slice) -> Array:
        states = [x[part] for x in self._states]
        at = {name: times[part] for name, times in self._at.items()}
        found: Array = self._kernel(*states, **at, **({"parameters": named} if named else {}))
        return found

    def evaluate(self, x: Array, *, derivatives: bool = True) -> Fit:
        """Predict all joint forces and compare them."""
        named = self._named(x)
        rigid = {name: named[name] for name in self._rigid}
        off = self._predicted(rigid, slice(None)) - self._tau
        if not self._model.loops:
            for name, columns in self._rubbing.items():
                off += named.get(name, self._own[name]) * columns
        changes: dict[str, Array] = dict(self._rubbing)
        if derivatives and rigid:
            changes |= parameter_derivatives(
                self._kernel, *self._states, parameters=rigid, by=self._rigid, **self._at
            )
        residuals, found = [], []
        for rows in self._parts:
            share = self._weights / np.sqrt(len(rows) * len(self._parts))
            residuals.append((share * off[rows]).ravel())
            if derivatives:
                parts = [(share * changes[name][rows]).ravel() for name in self.names]
                found.append(np.stack(parts, axis=-1) * self.scale)
        errors = np.sqrt((off**2).mean(axis=0))
        return Fit(residuals, found, dict(zip(self._model.v_names, errors.tolist(), strict=True)))


def _frictions(model: Model) -> dict[str, float]:
    """Return damping and friction of the joints with one degree of freedom, by name."""
    found = {}
    for joint in model.joints:
        if joint.dof == 1:
            for word in FRICTION:
                value = getattr(joint.passive, word, 0.0)
                found[f"{joint.name}.{word}"] = float(np.ravel(value)[0])
    return found


def _rubbed(model: Model, name: str, v: Array) -> Array:
    """Return the joint forces of a unit of damping or friction, shape (samples, nv)."""
    owner, _, word = name.rpartition(".")
    joint = model.joint(owner)
    ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
    place = model.slice(owner, of="v").start
    found = np.zeros_like(v)
    speed = v[:, place]
    found[:, place] = ratio**2 * speed if word == "damping" else abs(ratio) * np.sign(speed)
    return found
