"""Inertia at frames for users: operational space, pairs of links, apparent inertia.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, OptionError
from tiburon.functions.keywords import WorldCall, takes_conditions
from tiburon.functions.kinematics import inputs_at, point_options
from tiburon.functions.library import INERTIA, closure_options, front_door, library_function
from tiburon.model import Model
from tiburon.native.arguments import checked_targets, deliver
from tiburon.record import record
from tiburon.spatial import Scalars

if TYPE_CHECKING:
    from tiburon.algorithms.articulated_response import Response

PARTS = ("both", "orientation", "position")
"""Which rows of a frame's motion take part."""

ZERO_RESPONSE = 1e-10
"""Share of the largest acceleration per force below which a direction counts as held."""


def _response(setting: Setting, q: Scalars) -> "Response | None":
    """Return the response of a robot with coupled joints or closed loops; None of others."""
    if setting.model.loops:
        from tiburon.loops.apparent import LoopResponse

        return LoopResponse(setting.model, setting.plan, q)
    if setting.plan.has_couplings:
        from tiburon.algorithms.articulated_response import CoupledResponse

        return CoupledResponse(setting.plan, q)
    return None


@library_function(
    "operational_space_inverse_inertia", inputs_at("q"), parameters=(INERTIA,), checks_closure=True
)
def _operational_inverse(setting: Setting, q: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.operational_space import inverse_inertia

    return inverse_inertia(setting, _response(setting, q), q, *point)


@library_function(
    "operational_space_inertia", inputs_at("q"), parameters=(INERTIA,), checks_closure=True
)
def _operational(setting: Setting, q: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.operational_space import inertia

    return inertia(setting, _response(setting, q), q, *point)


@library_function("cross_inverse_inertia", ("q",), parameters=(INERTIA,), checks_closure=True)
def _cross(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.apparent_inertia import cross_response

    return cross_response(setting, _response(setting, q), q)


@library_function("apparent_inverse_inertia", ("q",), parameters=(INERTIA,), checks_closure=True)
def _relative(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.apparent_inertia import relative_response

    return relative_response(setting, _response(setting, q), q)


@library_function("apparent_inertia", ("q",), parameters=(INERTIA,), checks_closure=True)
def _apparent(setting: Setting, q: Scalars) -> Any:
    from tiburon.loops.apparent import handle_response

    return handle_response(setting, q)


def _options(
    frames: str | Sequence[str], at: str | ArrayLike, axes: str, part: str
) -> tuple[Options, tuple[Any, ...]]:
    if part not in PARTS:
        raise OptionError("part", PARTS, part)
    frames = frames if isinstance(frames, str) else tuple(frames)
    if not frames:
        raise DomainError("frames", "one frame or more", "none")
    options, point = point_options(frames, at, axes)
    return (options if part == "both" else (*options, ("part", part))), point


@front_door(_operational_inverse)
def operational_space_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    part: str = "both",
    closure: bool | None = None,
    **surroundings: Unpack[WorldCall],
) -> Array:
    """Compute how frames accelerate per force on them, from rest, without gravity: J M^-1 J^T.

    All frames together: off-diagonal blocks are the acceleration of one frame per force on another.
    It exists in every configuration; where the frames cannot move independently it is singular.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        at: Where linear accelerations and forces are taken; see `frame_jacobian`.
        axes: "world" or "frame": axes of accelerations and forces.
        part: "both", or only "orientation" or "position".

    Returns:
        Symmetric matrix [1/(kg m^2), 1/(kg m), 1/kg], shape (..., 6 n, 6 n), or (..., 3 n, 3 n) for
        one part.
    """
    options, point = _options(frames, at, axes, part)
    options = (*options, *closure_options(model, closure))
    return _operational_inverse.request(model, (q, *point), surroundings, options)


@front_door(_operational)
def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    part: str = "both",
    closure: bool | None = None,
    **surroundings: Unpack[WorldCall],
) -> Array:
    """Compute the apparent inertia of frames at rest: (J M^-1 J^T)^-1.

    The inverse is taken of the factors, not of the product, so that its digits depend on the
    Jacobian's condition and not on its square.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        at: Where linear accelerations and forces are taken; see `frame_jacobian`.
        axes: "world" or "frame": axes of accelerations and forces.
        part: "both", or only "orientation" or "position".

    Returns:
        Symmetric matrix [kg m^2, kg m, kg], shape (..., 6 n, 6 n), or (..., 3 n, 3 n) for one part.

    Raises:
        DomainError: If the frames cannot move in so many independent directions.
    """
    options, point = _options(frames, at, axes, part)
    options = (*options, *closure_options(model, closure))
    return _operational.request(model, (q, *point), surroundings, options)


@front_door(_cross)
def cross_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frame: str,
    other: str,
    *,
    closure: bool | None = None,
    **surroundings: Unpack[WorldCall],
) -> Array:
    """Compute the acceleration of one frame per force on another, from rest, without gravity.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        frame: Name of the body or frame that accelerates.
        other: Name of the body or frame the force acts on; may be the same.

    Returns:
        Acceleration [alpha; a] at the first frame's origin per force [n; f] at the other's, world
        axes [1/(kg m^2), 1/(kg m), 1/kg], shape (..., 6, 6). Exchanging the frames transposes it.
    """
    options = (("frame", frame), ("other", other), *closure_options(model, closure))
    return _cross.request(model, (q,), surroundings, options)


@front_door(_relative)
def apparent_inverse_inertia(
    model: Model,
    q: ArrayLike,
    frame: str,
    other: str = "world",
    *,
    closure: bool | None = None,
    **surroundings: Unpack[WorldCall],
) -> Array:
    """Compute how two links accelerate apart per force between them, from rest, without gravity.

    Phi_ii - Phi_ij - Phi_ji + Phi_jj, what a loop joint or contact between the two meets
    (Featherstone 1987, eq. 9.27). Its inverse, where it exists, is the apparent inertia: always
    between a free link and the world, never in directions that the robot itself forbids.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        frame: Name of a body or frame; a force acts on it.
        other: Name of the body or frame that takes the reaction.

    Returns:
        Relative acceleration [alpha; a] per force [n; f], both at the origin of `frame`, world axes
        [1/(kg m^2), 1/(kg m), 1/kg], symmetric, shape (..., 6, 6).
    """
    options = (("frame", frame), ("other", other), *closure_options(model, closure))
    return _relative.request(model, (q,), surroundings, options)


@record(eq=False)
class ApparentInertia:
    """Apparent inertia at frames of a robot, for one position or a batch."""

    inverse: Array
    """Acceleration of all frames per force on them, [alpha; a] per [n; f] at their origins, world
    axes [1/(kg m^2), 1/(kg m), 1/kg], symmetric, shape (..., 6 n, 6 n); zero along directions that
    the robot and its loops forbid."""

    inertia: Array
    """Force per acceleration [kg m^2, kg m, kg], shape (..., 6 n, 6 n): the inverse of `inverse`
    where all directions are free, its pseudo-inverse where some are not. Along those the true
    inertia is infinite, and here it is zero."""

    rank: Array
    """In how many independent directions the frames can move, shape (...)."""


@public
@takes_conditions
def apparent_inertia(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str],
    *,
    closure: bool | None = None,
    **surroundings: Unpack[WorldCall],
) -> ApparentInertia:
    """Compute the apparent inertia at links of a robot at rest, with loops closed.

    Off-diagonal blocks are the acceleration of one frame per force on another. Robots may stand
    on the ground or float, with loops or without. One position or a batch.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of n names.
        closure: Whether to refuse positions with open loops; see `forward_dynamics`.
        **surroundings: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`:
            see `Conditions` and `Delivery`.

    Example:
        ``tb.apparent_inertia(stewart, q, "platform").inertia``
    """
    names = (frames,) if isinstance(frames, str) else tuple(frames)
    for name in names:
        model.plan.frame(name)
    options = (("frames", names), *closure_options(model, closure))
    out, flag = surroundings.pop("out", None), surroundings.get("errors") == "flag"
    found = _apparent.call(model, (q,), surroundings, options)
    parts, failed = found if flag else (found, False)
    inverse, cut = parts.values() if isinstance(parts, dict) else parts
    # failed cases are left out, not inverted
    bad = np.asarray(failed)
    clean = np.where(bad[..., None, None], 0.0, inverse)
    # off the manifold the projector is off by as much as the cut, and `inverse` by its square
    unmoved = np.where(bad, ZERO_RESPONSE, np.maximum(ZERO_RESPONSE, cut**2))
    rank = np.linalg.matrix_rank(clean, hermitian=True, rtol=unmoved)
    inertia = np.linalg.pinv(clean, rcond=unmoved, hermitian=True).astype(np.float64)
    inertia, ranks = np.where(bad[..., None, None], np.nan, inertia), np.where(bad, np.nan, rank)
    results = [inverse, inertia, ranks.astype(np.float64)]
    if out is not None:
        given = out
        if isinstance(out, ApparentInertia):
            given = (out.inverse, out.inertia, out.rank)
        targets = checked_targets(given, [np.shape(x) for x in results], single=False)
        deliver(targets, results)
        results = list(targets)
    made = ApparentInertia(*results)
    # the type stated is that of results alone
    return cast(ApparentInertia, (made, failed)) if flag else made
