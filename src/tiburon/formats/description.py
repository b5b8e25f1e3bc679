"""Description of a robot as plain data, for the terminal and for JSON."""

import math
from typing import Any

import numpy as np

from tiburon.algorithms.kinematics import frame_places
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.model.body import WORLD, Body
from tiburon.model.closure import Closure, JointCoupling, LoopClosure, joints_of, places_of
from tiburon.model.joints import Joint
from tiburon.model.model import Model
from tiburon.model.model_warnings import half_size, model_warnings


def topology(model: Model) -> str:
    """Summarize the topology of a robot, such as "floating tree, 2 loops"."""
    carried: dict[str, int] = {}
    for body in model.bodies:
        carried[body.parent] = carried.get(body.parent, 0) + 1
    roots = [body for body in model.bodies if body.parent == WORLD]
    word = "chain" if all(count == 1 for count in carried.values()) else "tree"
    if len(model.bodies) == 1:
        word = "body"
    if len(roots) == 1 and roots[0].joint.kind == "free":
        word = f"floating {word}"
    if model.loops:
        word += f", {len(model.loops)} loop{'s' if len(model.loops) > 1 else ''}"
    return word


@public
def describe(model: Model) -> dict[str, Any]:
    """Describe a robot by dictionaries, lists, numbers and strings that JSON supports.

    Args:
        model: Any robot.

    Returns:
        "name", "about", "topology", "nq", "nv", "mass" [kg], "extent" (smallest box around it [m],
        world axes, at the pose "home" or "stand" or the neutral one), "bodies", "joints",
        "frames", "loops", "mobility" (of a robot with loops, else None), "actuators", "thrusters",
        "springs", "cylinders", "cables", "contacts", "contact_pairs", "poses",
        and "warnings": probable mistakes (see `model_warnings`). Infinite limits are None.

    Example:
        ``json.dumps(tiburon.describe(robot))``
    """
    return {
        "name": model.name,
        "about": model.about,
        "topology": topology(model),
        "nq": model.nq,
        "nv": model.nv,
        "mass": model.total_mass,
        "extent": _extent(model),
        "bodies": [_body(body) for body in model.bodies],
        "joints": [_joint(model, joint) for joint in model.joints],
        "frames": [_some(frame, "name", "body") for frame in model.frames],
        "loops": [_loop(loop) for loop in model.loops],
        "mobility": _mobility(model),
        "actuators": [_some(a, "name", "joint", "ratio", "force_limits") for a in model.actuators],
        "thrusters": [
            _some(t, "name", "body", "position", "direction", "thrust_limits")
            for t in model.thrusters
        ],
        "springs": [
            {"name": s.name, "ends": [s.first, s.second]}
            | _some(s, "stiffness", "damping", "rest_length")
            for s in model.springs
        ],
        "cylinders": [
            {"name": c.name, "ends": None if c.joint else [c.first, c.second]}
            | _some(c, "joint", "stroke")
            for c in model.cylinders
        ],
        "cables": [
            {"name": c.name, "ends": [c.first, c.second]} | _some(c, "tension_limits")
            for c in model.cables
        ],
        "contacts": [_some(c, "name", "body", "position") for c in model.contacts],
        "contact_pairs": [
            {"bodies": [pair.first, pair.second], "touches": pair.touches}
            for pair in model.contact_pairs
        ],
        "poses": {name: list(q) for name, q in model.poses.items()},
        "warnings": [str(doubt) for doubt in model_warnings(model)],
    }


def _some(part: object, *names: str) -> dict[str, Any]:
    """Return some attributes of a part; infinite values are None."""
    return {name: _finite(getattr(part, name)) for name in names}


def _body(body: Body) -> dict[str, Any]:
    return {
        "name": body.name,
        "parent": body.parent,
        "joint": body.joint.name,
        "mass": body.inertia.mass,
        "center_of_mass": list(body.inertia.com),
        "moments": np.linalg.eigvalsh(body.inertia.matrix).tolist(),
        "in_water": body.fluid is not None,
        "shapes": len(body.shapes),
    }


def _joint(model: Model, joint: Joint) -> dict[str, Any]:
    q, v = model.slice(joint.name), model.slice(joint.name, of="v")
    described: dict[str, Any] = {
        "name": joint.name,
        "kind": joint.kind,
        "q": list(range(q.start, q.stop)),
        "v": list(range(v.start, v.stop)),
        "q_names": list(joint.q_names()),
        "v_names": list(joint.v_names()),
    }
    axis = getattr(joint, "axis", None)
    if axis is not None:
        described["axis"] = list(axis)
    if joint.follows is not None:
        described["leader"] = joint.follows
    if joint.limits is not None:
        described["limits"] = _some(joint.limits, "lower", "upper", "velocity", "force")
    if joint.armature:
        described["armature"] = joint.armature
    return described


def _loop(loop: Closure) -> dict[str, Any]:
    if isinstance(loop, LoopClosure):
        return {"name": loop.name, "kind": loop.joint.kind} | _some(loop, "first", "second")
    if isinstance(loop, JointCoupling):
        return {"name": loop.name, "kind": "coupling", "first": loop.leader, "second": loop.joint}
    seen = [*places_of(loop), *joints_of(loop), None]
    return {"name": loop.name, "kind": loop.kind, "first": seen[0], "second": seen[1]}


def _mobility(model: Model) -> dict[str, Any] | None:
    if not model.loops:
        return None
    # imported on use, only for robots with loops
    from tiburon.functions.mobility import describe_mobility

    return describe_mobility(model)


def _finite(value: Any) -> Any:
    """Replace infinite values by None, and tuples by lists, for JSON."""
    if isinstance(value, tuple):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _extent(model: Model) -> dict[str, list[float]]:
    """Return the bounding box of bodies, frames and shapes; meshes count by their origin."""
    pose = next((model.poses[name] for name in ("home", "stand") if name in model.poses), None)
    q = model.neutral().tolist() if pose is None else list(pose)
    names = model.frame_names[1:]
    points: list[NDArray[np.float64]] = []
    places = dict(zip(names, frame_places(model.plan, q, names), strict=True))
    for place in places.values():
        points.append(np.array(place.p, dtype=np.float64))
    for body in model.bodies:
        R = np.array(places[body.name].R, dtype=np.float64)
        p = np.array(places[body.name].p, dtype=np.float64)
        for shape in body.shapes:
            half = half_size(shape.geometry) or (0.0, 0.0, 0.0)
            middle = p + R @ shape.pose.translation
            # half extents of the rotated box along world axes
            reach = np.abs(R @ np.array(shape.pose.rotation)) @ half
            points += [middle - reach, middle + reach]
        points.append(p + R @ body.inertia.com)
    corners = np.array(points)
    return {"lower": corners.min(axis=0).tolist(), "upper": corners.max(axis=0).tolist()}
