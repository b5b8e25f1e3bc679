"""Forward dynamics for users: by the method that needs fewer operations, or the one asked for."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.aba import aba
from tiburon.algorithms.binding import DEFAULT_WORLD, plan_and_gravity, refuse_couplings
from tiburon.algorithms.external import external_options, given_forces
from tiburon.algorithms.inputs import inputs_of
from tiburon.algorithms.joint_space import forward_by_mass_matrix
from tiburon.algorithms.library import LibraryFunction, LibrarySource, Options, call, scalars
from tiburon.errors import OptionError
from tiburon.model import Model, World
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.count import count
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.program import current_graph

__all__ = ["METHODS", "cheaper_method", "forward_dynamics", "method_options"]

METHODS: dict[str, Callable[..., tuple[Scalar, ...]]] = {
    "articulated": aba,
    "composite": forward_by_mass_matrix,
}
"""Articulated bodies, O(n); mass matrix by composite bodies and its factors, O(n^3)."""


def method_options(method: str | None) -> Options:
    """Return the option of code that uses a given method; no option for the cheaper one."""
    if method is None:
        return ()
    if method not in METHODS:
        raise OptionError("method", METHODS, method)
    return (("method", method),)


@lru_cache(maxsize=256)
def cheaper_method(model: Model) -> str:
    """Return the method that needs fewer operations for a model, counted exactly.

    Featherstone 1987, sec. 8.4 finds the crossover between 9 and 12 joints for his counts. Ours is
    between 4 and 8, depending on how the joint axes lie. Up to six freedoms the mass matrix is
    factored in straight code and operations tell the time; beyond, the factorization is a loop in
    memory, which takes longer than articulated bodies wherever it was measured.
    """
    if model.plan.has_couplings:
        # what branches share through followers, articulated bodies cannot see
        return "composite"
    if model.nv > INLINE_SIZE:
        return "articulated"

    def operations(method: str) -> int:
        options = method_options(method)
        source = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD, options)
        found = count(source.program())
        return found.multiplications + found.additions + found.divisions

    return min(METHODS, key=operations)


def _run(
    model: Model, world: World | None, options: Options, q: Any, v: Any, tau: Any, *wrenches: Any
) -> Any:
    plan, gravity = plan_and_gravity(model, world)
    position = scalars(q)
    forces = given_forces(plan, position, options, wrenches)
    method = dict(options).get("method") or cheaper_method(model)
    if method == "articulated":
        refuse_couplings(plan, "forward_dynamics with method 'articulated'")
    solve = METHODS[method]
    return as_traced(list(solve(plan, position, scalars(v), scalars(tau), gravity, forces)))


_FUNCTION = LibraryFunction("forward_dynamics", inputs_of("q", "v", "tau", external=True), _run)
_latest, _recent = _FUNCTION.latest, _FUNCTION.recent


def forward_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    world: World | None = None,
    external_force: Mapping[str, ArrayLike] | None = None,
    external_axes: str = "frame",
    method: str | None = None,
    time: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Compute the joint accelerations that given joint forces produce.

    One state or a batch: leading dimensions of all arrays broadcast. Inside a function given to
    `tiburon.compile` the arrays may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 by default.
        external_force: By name of a body or frame, the force on it from outside, [n; f] at the
            frame's origin [N m, N], shape (..., 6).
        external_axes: "frame" if external forces are given in the frame's own axes, "world" if in
            world axes.
        method: "articulated" for articulated bodies, whose cost is linear in the number of bodies;
            "composite" for the mass matrix and its factors; by default the one that is predicted
            to cost less. Their results differ by rounding.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Joint acceleration, the time derivative of v [m/s^2 or rad/s^2], shape (..., nv).
    """
    if (
        world is None
        and external_force is None
        and method is None
        and time is None
        and current_graph() is None
    ):
        # the plain case, in as few steps as Python allows
        known, kernel = _latest[0]
        if known is not model:
            kernel = _recent.get(id(model))
        if kernel is not None:
            result: NDArray[np.float64] = kernel(q, v, tau)
            return result
    options = (*external_options(external_force, external_axes), *method_options(method))
    wrenches = () if external_force is None else external_force.values()
    answer: NDArray[np.float64] = call(
        _FUNCTION, model, (q, v, tau, *wrenches), world, options, time=time
    )
    return answer
