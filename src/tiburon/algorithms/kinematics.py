"""Where bodies and frames are.

Symbols:
    X       map of motion from the parent's frame to the body's
    R, p    axes and origin of a frame in the world
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.surroundings import plan_and_gravity
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import TIMED_CALL, TimedCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, pair, record_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Mat3, Scalar, Transform, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["WORLD_PLACE", "Place", "body_places", "forward_kinematics", "frame_places"]


class Place(NamedTuple):
    """A frame in the world."""

    R: Mat3
    """Rotation matrix from the frame's axes to world axes: its columns are the frame's axes."""

    p: Vec3
    """Origin of the frame, world axes [m]."""

    def moved(self, X: Transform) -> "Place":
        """Return the place of a frame reached from this one by a map of motion.

        Featherstone 1987, eq. 2.17: rotations multiply, and origins add in world axes.
        """
        rows = tuple(X.direction(row) for row in self.R)
        (x, y, z), (px, py, pz) = X.translation, self.p
        a, b, c = self.R
        origin = (
            px + a[0] * x + a[1] * y + a[2] * z,
            py + b[0] * x + b[1] * y + b[2] * z,
            pz + c[0] * x + c[1] * y + c[2] * z,
        )
        return Place((rows[0], rows[1], rows[2]), origin)


WORLD_PLACE = Place(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0, 0.0))
"""Where the world is in itself."""


def body_places(plan: Plan, q: Sequence[Scalar]) -> tuple[Place, ...]:
    """Find every plan body in the world.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.

    Returns:
        One place per plan body.
    """

    def visit(body: PlanBody, parent: Place) -> Place:
        return parent.moved(body.transform(q[body.q]))

    return outward(plan, visit, WORLD_PLACE)


def frame_places(plan: Plan, q: Sequence[Scalar], frames: Sequence[str]) -> tuple[Place, ...]:
    """Find frames in the world by the names the user gave them.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        frames: Names of bodies or frames, or "world".

    Returns:
        One place per name.
    """
    bodies = body_places(plan, q)
    found = []
    for name in frames:
        frame = plan.frame(name)
        carrier = WORLD_PLACE if frame.body == WORLD_BODY else bodies[frame.body]
        found.append(carrier.moved(frame.transform))
    return tuple(found)


def frame_options(frames: str | Sequence[str] | None) -> Options:
    """Return the options of code that places some frames; no option for all of them."""
    if frames is None:
        return ()
    return (("frames", frames if isinstance(frames, str) else tuple(frames)),)


def _inputs(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _run(model: Model, world: World | None, options: Options, q: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    frames = dict(options).get("frames", model.frame_names[1:])
    names = (frames,) if isinstance(frames, str) else frames
    places = frame_places(plan, scalars(q), names)
    shape = () if isinstance(frames, str) else (len(names),)
    rotation = as_traced([x for place in places for row in place.R for x in row])
    translation = as_traced([x for place in places for x in place.p])
    return {
        "rotation": rotation.reshape(*shape, 3, 3),
        "translation": translation.reshape(*shape, 3),
    }


_FUNCTION = LibraryFunction("forward_kinematics", _inputs, _run, parameters=(), keywords=TIMED_CALL)


@public
@takes_conditions
def forward_kinematics(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    **options: Unpack[TimedCall],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find bodies and frames in the world.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Rotation matrices from the frames' axes to world axes (their columns are the frames' axes),
        and the frames' origins in world axes [m]. For one name the shapes are (..., 3, 3) and
        (..., 3); for n names (..., n, 3, 3) and (..., n, 3).

    Example:
        ``rotation, translation = forward_kinematics(arm, q, "hand")``
    """
    return record_under(pair, options, _FUNCTION, model, (q,), frame_options(frames))
