"""Random robots and states for hypothesis: structure is drawn, numbers come from a drawn seed."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import tiburon as tb
from tests.model.samples import GENERAL, general_joint, random_axis, random_inertia, random_pose

KINDS = ("revolute", "prismatic", "fixed", "free", *GENERAL)
TIED = ("revolute", "prismatic", "screw", "free", "spherical", "universal", *["coupled"] * 4)
"""Many joints that follow another, and joints that can lead."""

DRIVEN = (*KINDS, *["driven"] * 4)
"""Also many joints that time moves."""

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


def _follower(draw, rng, name, axis, pose, bodies):
    """Return a joint that follows one of the bodies' joints, or a hinge where none can lead."""
    leaders = [b.joint.name for b in bodies if b.joint.kind in ("revolute", "prismatic", "screw")]
    if not leaders:
        return tb.Revolute(name, axis, pose=pose)
    moves = draw(st.sampled_from([tb.Revolute, tb.Prismatic]))("moves", axis, 0.3)
    ratio, offset = rng.uniform(0.5, 3.0) * rng.choice([-1, 1]), rng.uniform(-1.0, 1.0)
    return tb.Coupled(name, moves, draw(st.sampled_from(leaders)), ratio, offset, pose=pose)


def _driven(draw, rng, name, axis, pose):
    """Return a joint frame that swings or speeds up, alone or under a hinge or ball."""
    drive = draw(st.sampled_from([tb.Revolute, tb.Prismatic]))("drive", axis)
    amplitude, phase, speed = rng.uniform(0.2, 1.0, 3).tolist()
    swing = tb.Harmonic(amplitude, frequency=0.4, phase=phase)
    path = draw(st.sampled_from([swing, tb.Polynomial((phase, speed, amplitude))]))
    carried = draw(
        st.sampled_from(
            [
                tb.Fixed("mount"),
                tb.Revolute(f"{name}_hinge", random_axis(rng).tolist(), pose=random_pose(rng)),
                tb.Spherical(f"{name}_ball", pose=random_pose(rng)),
            ]
        )
    )
    return tb.Driven(name, drive, path, carried=carried, pose=pose)


@st.composite
def models(draw, kinds=KINDS, root=KINDS, most=6, first=None, last=None):
    """Draw a tree of bodies with any mixture of joints; at least one of them moves.

    Args:
        draw: Given by hypothesis.
        kinds: Joint kinds of bodies on other bodies.
        root: Joint kinds of bodies on the world.
        most: Largest number of bodies.
        first: Joint kind of the first body, if not any.
        last: Joint kind of the last body, if not any; there are then two bodies at least.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1 if last is None else 2, most))
    bodies = []
    for number in range(count):
        names = ["world", *(body.name for body in bodies)]
        parent = names[draw(st.integers(0, number))]
        allowed = root if parent == "world" else kinds
        if number == count - 1 and not any(body.joint.nv for body in bodies):
            allowed = [kind for kind in allowed if kind not in ("fixed", "driven")]
        kind = draw(st.sampled_from(allowed))
        kind = first if first and number == 0 else kind
        kind = last if last and number == count - 1 else kind
        pose = _pose(rng, draw(st.sampled_from(["any", "right angles", "moved", "none"])))
        name = f"joint{number}"
        if kind == "free":
            joint = tb.Free(name, pose=pose)
        elif kind == "fixed":
            joint = tb.Fixed(name, pose=pose)
        elif kind in ("coupled", "driven"):
            axis = _axis(rng, draw(st.sampled_from(AXES)))
            more = (bodies,) if kind == "coupled" else ()
            joint = (_follower if more else _driven)(draw, rng, name, axis, pose, *more)
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


tied_models = models(kinds=TIED, root=TIED, first="revolute", last="coupled")
"""Trees in which at least one joint follows another."""

driven_models = models(kinds=DRIVEN, root=DRIVEN, first="revolute", last="driven")
"""Trees in which time moves at least one joint."""

tied_and_driven_models = models(
    kinds=(*TIED, *["driven"] * 4), root=TIED, first="driven", last="coupled"
)
"""Trees with both; a leader may be missing, where a hinge takes the follower's place."""

seeds = st.integers(0, 2**32 - 1)
"""Seeds of states."""


def state(model, seed):
    """Return a kicked state q, v and two more vectors of nv numbers."""
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng)
    return q, v, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


few_examples = settings(parent=settings.get_profile("few"))
"""Settings of tests whose examples take long, and that a slow run repeats with more."""

GRAVITY = (1.5, -2.5, -9.0)
"""A gravity with no zero component: a wrong axis shows."""
