"""Random robots and states for hypothesis: structure is drawn, numbers come from a drawn seed."""

import numpy as np
from hypothesis import strategies as st

import tiburon as tb
from tests.model.samples import GENERAL, general_joint, random_axis, random_inertia, random_pose

KINDS = ("revolute", "prismatic", "fixed", "free", *GENERAL)
AXES = ("any", "x", "y", "z", "-x", "-y", "-z")
RIGHT = np.pi / 2.0


def _axis(rng, kind):
    if kind == "any":
        return random_axis(rng).tolist()
    axis = [0.0, 0.0, 0.0]
    axis["xyz".index(kind[-1])] = -1.0 if kind.startswith("-") else 1.0
    return axis


def _pose(rng, kind):
    if kind == "none":
        return tb.Pose()
    if kind == "moved":
        return tb.Pose(translation=rng.uniform(-0.5, 0.5, 3).tolist())
    if kind == "right angles":
        turns = (RIGHT * rng.integers(-1, 3, 3)).tolist()
        return tb.Pose.from_rpy(turns, rng.uniform(-0.5, 0.5, 3).tolist())
    return random_pose(rng)


def _inertia(rng, kind):
    if kind == "zeros":
        return tb.Inertia(float(rng.uniform(0.5, 2.0)), (0, 0, 0.1), rng.uniform(0.02, 0.03, 3))
    return random_inertia(rng)


@st.composite
def models(draw, kinds=KINDS, root=KINDS, most=6):
    """Draw a tree of bodies with any mixture of joints; at least one of them moves.

    Args:
        draw: Given by hypothesis.
        kinds: Joint kinds of bodies on other bodies.
        root: Joint kinds of bodies on the world.
        most: Largest number of bodies.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, most))
    bodies = []
    for number in range(count):
        names = ["world", *(body.name for body in bodies)]
        parent = names[draw(st.integers(0, number))]
        allowed = root if parent == "world" else kinds
        if number == count - 1 and all(body.joint.kind == "fixed" for body in bodies):
            allowed = [kind for kind in allowed if kind != "fixed"]
        kind = draw(st.sampled_from(allowed))
        pose = _pose(rng, draw(st.sampled_from(["any", "right angles", "moved", "none"])))
        name = f"joint{number}"
        if kind == "free":
            joint = tb.Free(name, pose=pose)
        elif kind == "fixed":
            joint = tb.Fixed(name, pose=pose)
        elif kind in GENERAL:
            axis = _axis(rng, draw(st.sampled_from(AXES)))
            joint = general_joint(rng, kind, name, axis, pose)
        else:
            axis = _axis(rng, draw(st.sampled_from(AXES)))
            offset = draw(st.sampled_from([0.0, RIGHT, 0.3]))
            kind_class = tb.Revolute if kind == "revolute" else tb.Prismatic
            joint = kind_class(name, axis, offset, pose=pose)
        inertia = _inertia(rng, draw(st.sampled_from(["any", "zeros"])))
        bodies.append(tb.Body(f"body{number}", parent, joint=joint, inertia=inertia))
    frame = tb.Frame("tip", bodies[-1].name, random_pose(rng))
    return tb.Model("drawn", bodies, [frame])


seeds = st.integers(0, 2**32 - 1)
"""Seeds of states."""


def state(model, seed):
    """Return a kicked state q, v and two more vectors of nv numbers."""
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng)
    return q, v, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


GRAVITY = (1.5, -2.5, -9.0)
"""A gravity with no zero component: a wrong axis shows."""
