"""Moving mechanisms with random cuts: what runs in parts must carry out alike everywhere."""

from typing import Any, NamedTuple

import numpy as np

import tiburon as tb
from tests.loops.parallel_robots import parallel_robot
from tests.model.samples import random_tree
from tests.parallel.test_partition import chain


class Moving(NamedTuple):
    """A robot in parts that moves."""

    parts: Any
    duration: float
    how: dict[str, Any]

    def run(self, **options):
        """Return its run."""
        robot = self.parts.model
        return tb.simulate(
            robot,
            self.duration,
            execution=tb.Execution(partition=self.parts),
            **self.how,
            **options,
        )

    def undivided(self):
        """Return the run of the undivided robot."""
        return tb.simulate(self.parts.model, self.duration, **self.how)


def random_cuts(rng, robot):
    """Return a robot cut at one to five joints drawn at random, of those that can be cut."""
    joints = [body.joint.name for body in robot.plan.bodies if body.parent >= 0]
    possible = []
    for name in joints:
        try:
            tb.partition(robot, cuts=[name])
        except tb.ModelError:
            # no inertia to split
            continue
        possible.append(name)
    count = int(rng.integers(1, min(5, len(possible)) + 1))
    return tb.partition(robot, cuts=sorted(rng.choice(possible, size=count, replace=False)))


def rods():
    """A chain of sliding rods that fall into their stops."""
    limits = tb.JointLimits(lower=-0.02, upper=0.03)
    bodies = []
    for k in range(5):
        pose = tb.Pose(translation=(0.05, 0.0, -0.1))
        joint: Any = tb.Revolute(f"turn_{k}", axis=(0, 1, 0), pose=pose)
        if k % 2:
            joint = tb.Prismatic(f"rod_{k}", axis=(0, 0, 1), pose=pose, limits=limits)
        inertia = tb.Inertia.box(0.8, (0.05, 0.06, 0.2), com=(0.01, 0.0, -0.1))
        parent = f"link_{k - 1}" if k else "world"
        bodies.append(tb.Body(f"link_{k}", parent, joint=joint, inertia=inertia))
    return tb.Model("rods", bodies)


def moving_mechanisms():
    """Return mechanisms by name: trees, some of them floating, loops, water, stops and events."""
    found = {}
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        tree = random_tree(seed, 9)
        q, v = tree.random_state(rng)
        found[f"tree {seed}"] = Moving(random_cuts(rng, tree), 0.01, {"q": q, "v": 0.3 * v})
    for seed, planar, wet in ((0, False, False), (3, True, False), (4, False, True)):
        rng = np.random.default_rng(seed)
        robot, q = parallel_robot(rng, 2 + seed % 3, planar=planar, wet=wet)[:2]
        v = tb.project_velocity(robot, q, 0.2 * rng.standard_normal(robot.nv))
        how = {"q": q, "v": v, "fluid": tb.Water() if wet else None}
        found[f"loops {seed}"] = Moving(random_cuts(rng, robot), 0.01, how)
    rng = np.random.default_rng(7)
    rov = tb.load("two_arm_rov").without_loops()
    q, v = rov.random_state(rng)
    sea = tb.Water(current=(0.3, -0.2, 0.1))
    found["swimmer"] = Moving(
        random_cuts(rng, rov), 0.01, {"q": q, "v": 0.1 * v, "fluid": sea, "contact": None}
    )
    falling = rods()
    q = np.array([0.3, 0.0, -0.2, 0.0, 0.4])
    found["rods at stops"] = Moving(random_cuts(rng, falling), 0.15, {"q": q})
    swinging = chain(6)
    event = tb.Event("low", lambda state: state.q[0] - 0.3, terminal=True)
    how = {"q": np.full(6, 0.5), "events": [event]}
    found["event"] = Moving(random_cuts(rng, swinging), 1.0, how)
    return found
