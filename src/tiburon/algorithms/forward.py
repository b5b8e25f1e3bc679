"""Methods of forward dynamics for trees, by name."""

from collections.abc import Callable
from typing import Any

from tiburon.algorithms.aba import aba
from tiburon.algorithms.hybrid import coupled_aba
from tiburon.algorithms.joint_space import forward_by_mass_matrix
from tiburon.model import Plan
from tiburon.spatial import Scalar


def articulated(plan: Plan, *given: Any) -> tuple[Scalar, ...]:
    """Compute joint accelerations by articulated bodies, with or without coupled joints."""
    return coupled_aba(plan, *given) if plan.has_couplings else aba(plan, *given, lanes=True)


METHODS: dict[str, Callable[..., tuple[Scalar, ...]]] = {
    "articulated": articulated,
    "composite": forward_by_mass_matrix,
}
"""Articulated bodies, O(n); mass matrix by composite bodies and its factors, O(n^3)."""
