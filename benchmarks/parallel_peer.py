"""Batches of forward dynamics on both sides, ready to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

import tiburon as tb
from benchmarks.cases import ROUND_OFF, Case, make_case
from benchmarks.figure import check_equal


@dataclass(frozen=True)
class BatchSides:
    """Forward dynamics of one batch, ours and the peer's, on a chosen number of threads."""

    case: Case
    kernel: Callable[..., Any]
    pool: Any
    columns: tuple[Any, Any, Any]
    """Positions, velocities and forces as the peer wants them, one state per column."""

    def ours(self, threads: int) -> Callable[[], object]:
        """Return a call of our kernel: rows in, a new array of rows out."""
        case = self.case
        return lambda: self.kernel(case.q, case.v, case.tau, threads=threads)

    def peer(self, threads: int) -> Callable[[], object]:
        """Return a call of the peer: columns in, a new array of columns out."""
        return lambda: pin.abaInParallel(threads, self.pool, *self.columns)


def prepare_batch(name: str, size: int, threads: int) -> BatchSides:
    """Build both sides and insist that they agree on every state.

    Args:
        name: One of the measured robots.
        size: Number of states.
        threads: Most threads that will be used.

    Raises:
        DisagreementError: If they do not.
    """
    case = make_case(name, (size,))
    kernel = tb.compile(tb.forward_dynamics, case.model)
    # in Fortran's order a state is contiguous, and the peer reads it in place
    columns = tuple(np.asfortranarray(x.T) for x in (case.peer_q, case.peer_v, case.peer_tau))
    sides = BatchSides(case, kernel, pin.ModelPool(case.peer, threads), columns)
    for count in range(1, threads + 1):
        expected = case.from_peer(np.asarray(sides.peer(count)()).T)
        # a bound for each state: one wrong state must not hide behind a large one
        for ours, peer in zip(np.asarray(sides.ours(count)()), expected, strict=True):
            check_equal(f"{name}, {count} threads", ours, peer, ROUND_OFF)
    return sides
