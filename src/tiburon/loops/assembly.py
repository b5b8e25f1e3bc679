"""Assembly: positions with closed loops, from rough guesses, with chosen joints held.

Damped Newton steps from the guess; where they do not lead to a closed position, from starts around
it and from anywhere, and of all that close the one nearest the guess is taken. A position in which
a hinge would have to be put together head to tail, which no measure of a gap sees, is none.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.arguments import public
from tiburon.errors import (
    DomainError,
    LoopError,
    ModelError,
    OptionError,
    ShapeError,
    UnknownNameError,
)
from tiburon.loops.assembly_descent import Closing, Descended, descend_all, spread_starts
from tiburon.loops.assembly_joint import cut_joint, places_of
from tiburon.loops.constraints import constraints, entries_in_use
from tiburon.loops.mobility_words import constraint_words
from tiburon.loops.redundancy import closed_nearby, is_disagreement, nearly_redundant
from tiburon.model import LoopClosure, Model, Pose
from tiburon.model.composition import locked_positions
from tiburon.record import record

__all__ = ["Assembly", "assemble", "is_closed", "prepared", "reversed_loops"]

Array = NDArray[np.float64]

Hold = str | Iterable[str] | Mapping[str, ArrayLike]
"""Joints by name, or their positions by name."""

CLOSED = 1e-9
"""Gap at which a position counts as closed that was given, not found [m or rad]."""

NEAR = 1e-3
"""Gap up to which constraints that cannot be closed may be nearly redundant [m or rad]."""

FITS = 1e-5
"""How well a joint that closes a loop must fit; head to tail it misses by half a turn."""


@record(eq=False)
class Assembly:
    """Positions with closed loops."""

    q: Array
    """Position [m or rad], shape (..., nq)."""

    gap: Array
    """Largest gap that is left [m or rad], shape (...)."""

    starts: NDArray[np.int64]
    """How many starts it took, shape (...): 1 where the guess itself led there."""


@public
def assemble(
    model: Model,
    guess: ArrayLike | None = None,
    *,
    hold: Hold = (),
    place: Mapping[str, Pose] | None = None,
    starts: int = 64,
    seed: int = 0,
    tolerance: float = 1e-12,
    max_iterations: int = 100,
) -> Assembly:
    """Close the loops of a robot from a rough guess, with chosen joints held.

    The result is the nearest closed position found, not the nearest there is. One guess or a batch
    of them. `Driven` joints stand where they are at time zero.

    Args:
        model: The robot; it has loops.
        guess: Where to start [m or rad], shape (..., nq); by default its pose "home" or "stand" or
            the neutral one.
        hold: Joints that stay where the guess has them, by name, or with their positions
            [m or rad] by name.
        place: Frames that are to lie somewhere, by name: their pose in the world.
        starts: How many starts to try at most: the guess, then some around it and anywhere.
        seed: Of the random starts.
        tolerance: Gap that counts as closed [m or rad].
        max_iterations: Most steps from each start.

    Raises:
        LoopError: If no start led to closed loops; `gaps` has what is left of each loop.

    Example:
        ``q = tb.assemble(four_bar, hold={"input": 1.0}).q``
    """
    closing, given = prepared(model, guess, hold, place or {}, starts, tolerance)
    shape = given.shape[:-1]
    rows = given.reshape(-1, model.nq)
    found = descend_all(closing, rows, tolerance, max_iterations)
    q, gap, tried = np.array(found.q), np.array(found.gap), np.ones(len(rows), dtype=np.int64)
    for k, row in enumerate(rows):
        if gap[k] <= tolerance and not reversed_loops(model, q[k]):
            continue
        if starts == 1:
            raise _cannot_close(closing, found.q[k], found.errors[k], 1, tolerance)
        rng = np.random.default_rng((seed, k))
        again = spread_starts(model, row, closing.free.tolist(), starts - 1, rng)
        more = descend_all(closing, again, tolerance, max_iterations)
        best = _nearest(model, row, more, tolerance)
        if best is None:
            least = int(np.argmin(more.gap))
            _check_redundancy(closing, found.q[k], float(gap[k]))
            _check_redundancy(closing, more.q[least], float(more.gap[least]))
            if more.gap[least] > gap[k]:
                raise _cannot_close(closing, found.q[k], found.errors[k], starts, tolerance)
            raise _cannot_close(closing, more.q[least], more.errors[least], starts, tolerance)
        q[k], gap[k], tried[k] = more.q[best], more.gap[best], best + 2
    return Assembly(q.reshape(given.shape), gap.reshape(shape), tried.reshape(shape))


def is_closed(model: Model, q: ArrayLike, tolerance: float = CLOSED) -> bool:
    """Tell whether all loops of a robot are closed at a position.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        tolerance: Gap that counts as closed [m or rad].

    Returns:
        Whether no gap is wider, and no joint is put together head to tail.
    """
    position = model.normalize(q)
    gaps = constraints(model, model.plan, [float(x) for x in position]).value
    # what is no number is not closed either
    wide = not all(abs(float(gap)) <= tolerance for gap in gaps)
    return not wide and not reversed_loops(model, position)


def reversed_loops(model: Model, q: Array) -> tuple[str, ...]:
    """Return the loops whose joint cannot be where their frames are, though no gap tells."""
    places = places_of(model, q)
    closures = [loop for loop in model.loops if isinstance(loop, LoopClosure)]
    return tuple(loop.name for loop in closures if cut_joint(loop, places).error > FITS)


def prepared(
    model: Model,
    guess: ArrayLike | None,
    hold: Hold,
    place: Mapping[str, Pose],
    starts: int,
    tolerance: float,
) -> tuple[Closing, Array]:
    """Check what is asked for; return what is to be closed, and guesses of shape (..., nq)."""
    if not model.loops and not place:
        raise ModelError(
            f"model {model.name!r}: assemble is for robots with loops, got none; give it "
            "loops=(LoopClosure(...), ...)"
        )
    if starts < 1:
        raise OptionError("starts", ("an integer of at least 1",), starts)
    if not tolerance > 0.0:
        raise DomainError("tolerance", "a gap above 0 [m, rad]", f"{tolerance!r}")
    for frame in place:
        if frame not in model.frame_names[1:]:
            raise UnknownNameError(
                "body or frame", frame, model.frame_names[1:], where="place",
                listing="model.frame_names",
            )  # fmt: skip
    if guess is None:
        known = next((model.poses[n] for n in ("home", "stand") if n in model.poses), None)
        guess = model.neutral() if known is None else np.array(known)
    try:
        rows = np.array(model.normalize(guess))
    except ShapeError as error:
        raise ShapeError("guess", error.expected, error.given) from None
    values = hold if isinstance(hold, Mapping) else ()
    names = (hold,) if isinstance(hold, str) else tuple(hold)
    held: set[int] = set()
    for name in names:
        v = model.slice(name, of="v")
        held.update(range(v.start, v.stop))
    if isinstance(values, Mapping):
        positions = locked_positions(values, model.joint, lambda name: model.neutral())
        for name, numbers in positions.items():
            rows[..., model.slice(name)] = model.joint(name).normalize(numbers)
    free = np.array([k for k in range(model.nv) if k not in held], dtype=np.intp)
    return Closing(model, free, dict(place)), rows


def _nearest(model: Model, guess: Array, found: Descended, tolerance: float) -> int | None:
    """Return the closed position nearest to a guess, by its number."""
    far = np.linalg.norm(model.difference(np.broadcast_to(guess, found.q.shape), found.q), axis=-1)
    for k in np.argsort(far, kind="stable").tolist():
        if found.gap[k] <= tolerance and not reversed_loops(model, found.q[k]):
            return int(k)
    return None


def _check_redundancy(closing: Closing, q: Array, gap: float) -> None:
    """Refuse constraints that disagree by little where a start led.

    Raises:
        LoopError: If they do.
    """
    model = closing.model
    if gap <= NEAR and len(closing.free) == model.nv and not closing.places:
        _, left, J = closed_nearby(model, q)
        if is_disagreement(J, left):
            raise nearly_redundant(model, left)


def _cannot_close(
    closing: Closing, q: Array, errors: Array, starts: int, tolerance: float
) -> LoopError:
    """Return the error about loops that stay open, with the gap of each."""
    model = closing.model
    words = constraint_words(model)
    sizes = np.abs(errors[: len(words)])
    gaps: dict[str, float] = {loop.name: 0.0 for loop in model.loops}
    for name, size in zip((w.split(": ")[0] for w in words), sizes.tolist(), strict=True):
        gaps[name] = max(gaps[name], size)
    where = f"model {model.name!r}"
    if not np.abs(errors).max(initial=0.0) > tolerance:
        names = ", ".join(repr(name) for name in reversed_loops(model, q))
        return LoopError(
            f"{where}: loop {names}: its joint fits only head to tail, after {starts} starts; turn "
            "the axis of one of its frames round",
            gaps,
        )
    in_use = entries_in_use(model) if model.loops else ()
    for k, size in enumerate(sizes.tolist()):
        if size > tolerance and not in_use[k]:
            return LoopError(
                f"{where}: loop {words[k].split(': ')[0]!r} cannot close, no joint moves its "
                f"{words[k].split(': ')[1]}, which is {size:.3g}; check poses and axes of both "
                "frames",
                gaps,
            )
    open_loops = sorted((name for name in gaps if gaps[name] > tolerance), key=lambda n: -gaps[n])
    listed = ", ".join(f"{name!r} by {gaps[name]:.3g}" for name in open_loops[:8])
    if not listed:
        listed = f"frames miss their places by {np.abs(errors).max():.3g}"
    else:
        listed = f"stay open at best {listed}"
    return LoopError(
        f"{where}: loops cannot be closed from {starts} start{'s' if starts > 1 else ''}, "
        f"{listed} [m or rad]; check lengths, hold fewer joints, or give a better guess",
        gaps,
    )
