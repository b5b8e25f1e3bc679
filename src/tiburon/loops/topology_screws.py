"""The screws of all joints at one position, those that close loops too."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.kinematics import Place
from tiburon.loops.assembly_joint import cut_joint, places_of
from tiburon.model import LoopClosure, Model

__all__ = ["JointScrews", "Screws", "joint_screws"]

Array = NDArray[np.float64]


class Screws(NamedTuple):
    """The motions one joint can give what it moves."""

    columns: Array
    """World axes, about the world's origin, angular part first; shape (6, freedoms)."""

    variables: tuple[int, ...]
    """The velocity variable of each column; those of joints that close loops come after all nv."""


class JointScrews(NamedTuple):
    """Screws of all joints at one position."""

    of: dict[str, Screws]
    """By name: of the joint, or of the loop that it closes."""

    places: dict[str, Place]
    """Where world, bodies and frames are."""

    size: int
    """Number of variables of all joints together."""

    def seen_from(self, body: str, columns: Array) -> Array:
        """Return screws in the axes of a body and about its origin, shape (6, n)."""
        R = np.array(self.places[body].R, dtype=np.float64)
        moved = about(columns, np.array(self.places[body].p, dtype=np.float64))
        return np.vstack([R.T @ moved[:3], R.T @ moved[3:]])


def about(columns: Array, point: Array) -> Array:
    """Return screws given about the world's origin about another point, world axes, (6, n)."""
    w = columns[:3]
    return np.vstack([w, columns[3:] + np.cross(w, point[:, None], axis=0)])


def joint_screws(model: Model, q: Array, rng: np.random.Generator | None = None) -> JointScrews:
    """Find the screws of all joints at one position.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        rng: Moves the joints that close loops anywhere, as if their loops were open; without, they
            are taken where they fit best.
    """
    places = places_of(model, q)
    found: dict[str, Screws] = {}
    for body in model.bodies:
        joint, own = body.joint, model.slice(body.joint.name)
        columns = [[*s.angular, *s.linear] for s in joint.subspace([float(x) for x in q[own]])]
        v = model.slice(joint.name, of="v")
        found[joint.name] = _in_world(columns, places[body.name], range(v.start, v.stop))
    count = model.nv
    for loop in model.loops:
        if not isinstance(loop, LoopClosure):
            continue
        own_q = cut_joint(loop, places).q if rng is None else loop.joint.random(rng)
        stands = places[loop.first].moved(loop.joint.pose.transform)
        moved = stands.moved(loop.joint.transform(own_q))
        columns = [[*s.angular, *s.linear] for s in loop.joint.subspace(own_q)]
        found[loop.name] = _in_world(columns, moved, range(count, count + loop.joint.nv))
        count += loop.joint.nv
    return JointScrews(found, places, count)


def _in_world(columns: list[list[float]], place: Place, variables: range) -> Screws:
    S = np.array(columns, dtype=np.float64).reshape(-1, 6).T
    R, p = np.array(place.R, dtype=np.float64), np.array(place.p, dtype=np.float64)
    w = R @ S[:3]
    linear = R @ S[3:] + np.cross(p[:, None], w, axis=0)
    return Screws(np.vstack([w, linear]), tuple(variables))
