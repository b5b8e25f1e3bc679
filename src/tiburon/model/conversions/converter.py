"""Conversion of the state of a whole robot to another code's order and back."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ShapeError
from tiburon.model.configuration import as_batch
from tiburon.model.conversions.joint_map import JointMap
from tiburon.record import named_line

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]


class JointValues(NamedTuple):
    """State of a robot's joints; None where not given."""

    q: Array
    """Positions [m or rad], shape (..., nq in that order)."""

    v: Array | None = None
    """Velocities [m/s or rad/s], shape (..., nv)."""

    acceleration: Array | None = None
    """Rates of the velocities [m/s^2 or rad/s^2], shape (..., nv)."""

    force: Array | None = None
    """Joint forces [N or N m], shape (..., nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class Converter:
    """Converts the state of one robot, joint by joint."""

    def __init__(self, model: "Model", maps: Sequence[JointMap]) -> None:
        """Compute both layouts.

        Args:
            model: The robot.
            maps: One per moving joint, in the other code's order.
        """
        self.model = model
        self.maps = maps
        names = [m.joint.name for m in maps]
        self._q = [model.slice(name, of="q") for name in names]
        self._v = [model.slice(name, of="v") for name in names]
        self._their_q = _slices([m.nq for m in maps])
        self._their_v = _slices([m.joint.nv for m in maps])

    def to_theirs(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        force: ArrayLike | None = None,
    ) -> JointValues:
        """Convert our values to theirs; leading dimensions broadcast."""
        position = as_batch(q, self.model.nq, "q", self.model.describe_q())
        rate, rate_change, load = self._read(v, acceleration, force)
        ours = [position[..., s] for s in self._q]

        def turned(x: Array) -> Array:
            pieces = [
                m.turned(p, x[..., s]) for m, p, s in zip(self.maps, ours, self._v, strict=True)
            ]
            return _assembled(pieces, self._their_v, self.model.nv, x)

        theirs = [m.q_to(p) for m, p in zip(self.maps, ours, strict=True)]
        found = None
        if rate_change is not None:
            found = turned(rate_change)
            if rate is not None:
                found = found + self._drift(ours, rate)
        return JointValues(
            _assembled(theirs, self._their_q, sum(m.nq for m in self.maps), position),
            None if rate is None else turned(rate),
            found,
            None if load is None else turned(load),
        )

    def to_ours(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        force: ArrayLike | None = None,
    ) -> JointValues:
        """Convert their values to ours; leading dimensions broadcast."""
        count = sum(m.nq for m in self.maps)
        position = as_batch(q, count, "q", f"{count} (of {len(self.maps)} joints)")
        rate, rate_change, load = self._read(v, acceleration, force)
        ours = [m.q_from(position[..., s]) for m, s in zip(self.maps, self._their_q, strict=True)]

        def turned_back(x: Array) -> Array:
            pieces = [
                m.turned_back(p, x[..., s])
                for m, p, s in zip(self.maps, ours, self._their_v, strict=True)
            ]
            return _assembled(pieces, self._v, self.model.nv, x)

        our_rate = None if rate is None else turned_back(rate)
        found = None
        if rate_change is not None:
            if our_rate is not None:
                rate_change = rate_change - self._drift(ours, our_rate)
            found = turned_back(rate_change)
        return JointValues(
            _assembled(ours, self._q, self.model.nq, position),
            our_rate,
            found,
            None if load is None else turned_back(load),
        )

    def _drift(self, ours: Sequence[Array], rate: Array) -> Array:
        """Return Tdot v of the whole robot in their order, from our positions and velocity."""
        pieces = [
            m.drift(p, rate[..., s]) for m, p, s in zip(self.maps, ours, self._v, strict=True)
        ]
        return _assembled(pieces, self._their_v, self.model.nv, rate)

    def _read(
        self, v: ArrayLike | None, acceleration: ArrayLike | None, force: ArrayLike | None
    ) -> list[Array | None]:
        """Return the given ones of velocity, acceleration and force, with last dimension nv."""
        words = self.model.describe_v()
        given = {"v": v, "acceleration": acceleration, "force": force}
        if acceleration is not None and v is None:
            for m in self.maps:
                if m.needs_velocity:
                    raise ShapeError(
                        "v",
                        words,
                        "nothing",
                        advice=f"the acceleration of joint {m.joint.name!r} depends on it",
                    )
        return [
            None if value is None else as_batch(value, self.model.nv, name, words)
            for name, value in given.items()
        ]


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return consecutive slices of given sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def _assembled(pieces: Sequence[Array], places: Sequence[slice], size: int, given: Array) -> Array:
    """Concatenate the values of all joints; a robot without joints keeps the batch shape."""
    shape = np.broadcast_shapes(given.shape[:-1], *(piece.shape[:-1] for piece in pieces))
    whole = np.empty((*shape, size))
    for piece, place in zip(pieces, places, strict=True):
        whole[..., place] = piece
    return whole
