"""A robot in motion, as both sides see it: seeded states in our order and in Pinocchio's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiburon as tb
from benchmarks.pinocchio_peer import build_pinocchio, q_to_pinocchio, v_to_pinocchio
from benchmarks.robots import ROBOTS
from benchmarks.states import draw_states

Array = NDArray[np.float64]

THREE = ("panda", "quadruped", "chain_16")
"""The robots that forward dynamics is measured on."""

ROUND_OFF = 1e-10
"""Largest difference allowed between codes, relative to the largest number.

Both sides run backward stable recursions in float64, in different orders. The mass matrix of a
chain of 16 links is conditioned like 1e5, which turns 1e-16 into 1e-11.
"""


@dataclass(frozen=True)
class Case:
    """A robot, states of it, and the same in Pinocchio's terms."""

    model: tb.Model
    """The robot."""

    q: Array
    """Positions, all orientations [m or rad], shape (..., nq)."""

    v: Array
    """Velocities, none of them zero [m/s or rad/s], shape (..., nv)."""

    tau: Array
    """Joint forces [N or N m], shape (..., nv)."""

    peer: Any
    """The same robot, a pinocchio.Model."""

    peer_q: Array
    """`q` in Pinocchio's order."""

    peer_v: Array
    """`v` in Pinocchio's order."""

    peer_tau: Array
    """`tau` in Pinocchio's order."""

    def from_peer(self, values: Array) -> Array:
        """Bring accelerations or forces of the peer into our order, shape (..., nv)."""
        return v_to_pinocchio(self.model, values)


def make_case(name: str, shape: tuple[int, ...] = ()) -> Case:
    """Build a robot and draw kicked states of it.

    Args:
        name: One of the measured robots.
        shape: Leading dimensions of the states.
    """
    model = ROBOTS[name]()
    q, v, tau = draw_states(model, shape)
    return Case(
        model,
        q,
        v,
        tau,
        build_pinocchio(model),
        q_to_pinocchio(model, q),
        v_to_pinocchio(model, v),
        v_to_pinocchio(model, tau),
    )
