"""Forward dynamics for users: by the method that needs fewer operations, or the one asked for."""

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.closed_form import LOOP_METHODS
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.arguments import fail
from tiburon.errors import OptionError
from tiburon.functions.kernel_source import LibrarySource
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import Options, call_under
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.program import current_graph

__all__ = ["METHODS", "cheaper_method", "forward_dynamics", "method_of_runs", "method_options"]


def articulated(plan: Plan, *given: Any) -> tuple[Scalar, ...]:
    """Compute joint accelerations with articulated bodies, shared variables or not."""
    # a kernel from the cache needs no algorithm
    from tiburon.algorithms.aba import aba
    from tiburon.algorithms.hybrid_articulated import coupled_aba

    return coupled_aba(plan, *given) if plan.has_couplings else aba(plan, *given)


def composite(plan: Plan, *given: Any) -> tuple[Scalar, ...]:
    """Compute joint accelerations from the mass matrix of composite bodies."""
    from tiburon.algorithms.joint_space import forward_by_mass_matrix

    return forward_by_mass_matrix(plan, *given)


METHODS: dict[str, Callable[..., tuple[Scalar, ...]]] = {
    "articulated": articulated,
    "composite": composite,
}
"""Articulated bodies, O(n); mass matrix by composite bodies and its factors, O(n^3)."""


def method_options(method: str | None, model: Model | None = None) -> Options:
    """Return the option of code that uses a given method; no option for the cheaper one."""
    if method is None:
        return ()
    known = LOOP_METHODS if model is not None and model.loops else tuple(METHODS)
    if method not in known:
        raise OptionError("method", known, method)
    return (("method", method),)


@lru_cache(maxsize=256)
def cheaper_method(model: Model) -> str:
    """Return the method that is predicted to take less time for a model.

    Featherstone 1987, sec. 8.4 finds the crossover between 9 and 12 joints for his counts. Ours is
    between 4 and 8, depending on how the joint axes lie. Up to six freedoms all code is straight
    and operations, counted exactly, tell the time; beyond, the factorization is a loop in memory,
    and both costs follow from the shape of the tree (see `cost`).
    """
    from tiburon.algorithms.cost import articulated_cost, composite_cost
    from tiburon.trace.count import count
    from tiburon.trace.primitives.spd import INLINE_SIZE

    if model.nv > INLINE_SIZE:
        plan = model.plan
        cheaper = articulated_cost(plan) <= composite_cost(plan)
        return "articulated" if cheaper else "composite"

    def operations(method: str) -> int:
        options = method_options(method)
        source = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD, options)
        found = count(source.program())
        return found.multiplications + found.additions + found.divisions

    # what is being traced around, if anything, must not be met: its numbers belong to its graph
    return min(METHODS, key=lambda method: Context().run(operations, method))


def method_of_runs(model: Model, plan: Plan) -> Callable[..., tuple[Scalar, ...]]:
    """Return what the steps of a simulation find accelerations with.

    Articulated bodies; where joints follow others, what branches share may make them cost more than
    the mass matrix.
    """
    return METHODS[cheaper_method(model)] if plan.has_couplings else articulated


def _run(around: Setting, *state: Sequence[Scalar]) -> Any:
    method = dict(around.options).get("method") or cheaper_method(around.model)
    return as_traced(list(METHODS[method](around.plan, *state, around.gravity, around.external)))


_FUNCTION = dynamics_function("forward_dynamics", ("q", "v", "tau"), _run)
_latest, _recent = _FUNCTION.latest, _FUNCTION.recent


@takes_conditions
def forward_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    method: str | None = None,
    **conditions: Unpack[DynamicsCall],
) -> NDArray[np.float64]:
    """Compute the joint accelerations that given joint forces produce.

    One state or a batch: leading dimensions of all arrays broadcast. Inside a function given to
    `tiburon.compile` the arrays may be traced, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        method: "articulated" for articulated bodies, whose cost is linear in the number of bodies;
            "composite" for the mass matrix and its factors; by default the one that is predicted
            to cost less. Their results differ by rounding. Robots with loops have methods of their
            own: "augmented", "handles" and "proximal", see `loop_dynamics`.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint acceleration, the time derivative of v [m/s^2 or rad/s^2], shape (..., nv).
    """
    if not conditions and method is None and current_graph() is None:
        # the plain case, in as few steps as Python allows
        known, kernel = _latest[0]
        if known is not model:
            kernel = _recent.get(id(model))
        if kernel is not None:
            result: NDArray[np.float64] = kernel(q, v, tau)
            return result
    try:
        answer: NDArray[np.float64] = call_under(
            conditions, _FUNCTION, model, (q, v, tau), method_options(method, model)
        )
    except Exception as error:
        fail(forward_dynamics, error, model, q, v, tau, method=method, **conditions)
    return answer
