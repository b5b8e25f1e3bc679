"""Predicted cost of the two methods of forward dynamics, from the tree alone.

Operations per body depend on how its frame lies in its parent's: on turns about coordinate axes,
general turns and moves of the origin between them. The numbers of this page were fitted to counts
of traced kernels of robots with every kind of joint; tests hold predictions against such counts.
Featherstone 1987, table 8-6, has the same shape for chains: articulated bodies grow as N, composite
ones as N^2 by forces that are carried to the root, and N^3/6 by the factorization.
"""

from typing import NamedTuple

import numpy as np

from tiburon.algorithms.coupled_joints import closings
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import AxisRotation, Motion, Scalar, Transform
from tiburon.spatial.transform import Rotation, Translation
from tiburon.trace.primitives.spd import INLINE_SIZE

__all__ = ["articulated_cost", "composite_cost"]

LOOP_FACTOR, LOOP_ROW = 3.0, 40.0
"""Time of an operation of a factorization that is a loop in memory, and of each of its rows, in
operations of straight code; measured on the robots of the benchmarks, one call and batches."""


class _Shape(NamedTuple):
    """What the cost of a body depends on."""

    freedoms: int
    axis_turns: int
    turns: int
    moves: int
    on_world: bool
    still: bool
    """Whether it never turns, so that coordinates of vectors are constants."""

    def weigh(self, axis_turn: float, turn: float, move: float) -> float:
        """Return the cost of its change of frame."""
        return axis_turn * self.axis_turns + turn * self.turns + move * self.moves


def _maybe(x: Scalar, *known: float) -> bool:
    """Tell whether a number may be other than some known ones."""
    return not isinstance(x, float) or x not in known


def _shapes(plan: Plan) -> list[_Shape]:
    shapes: list[_Shape] = []
    for body in plan.bodies:
        q = _some_position(body)
        axis_turns, turns, moves = _factors(body.transform(q))
        on_world = body.parent == WORLD_BODY
        still = not any(_turns(S) for S in body.joint.subspace(q))
        still = still and (on_world or shapes[body.parent].still)
        freedoms = body.v.stop - body.v.start
        shapes.append(_Shape(freedoms, axis_turns, turns, moves, on_world, still))
    return shapes


def _some_position(body: PlanBody) -> list[float]:
    """Return a position of the joint that makes no number zero or one by chance."""
    if body.joint.follows is not None:
        return [0.3] * (body.q.stop - body.q.start)
    return list(body.joint.random(np.random.default_rng(1)))


def _turns(S: Motion) -> bool:
    return any(_maybe(x, 0.0) for x in S.angular)


def _factors(X: Transform) -> tuple[int, int, int]:
    """Count turns about coordinate axes, turns that mix all three, and parts of moves."""
    axis_turns = turns = moves = 0
    for factor in X:
        if isinstance(factor, AxisRotation):
            axis_turns += 1
        elif isinstance(factor, Rotation):
            turns += any(_maybe(x, 0.0, 1.0, -1.0) for row in factor.E for x in row)
        elif isinstance(factor, Translation):
            moves += sum(_maybe(x, 0.0) for x in factor.r)
    return axis_turns, turns, moves


def articulated_cost(plan: Plan) -> float:
    """Predict the operations of `aba`, or of `coupled_aba` where joints follow others.

    Args:
        plan: Layout of the model.
    """
    total, shapes = 0.0, _shapes(plan)
    for body, shape in zip(plan.bodies, shapes, strict=True):
        if shape.on_world:
            total += 16.0 * shape.freedoms
        elif shape.still:
            total += 22.0
        elif shape.freedoms == 6:
            # nothing beyond all six freedoms is felt by the parent
            total += 420.0
        else:
            own = 146.0 + shape.weigh(36.0, 345.0, 88.0) + 11.0 * (shape.freedoms - 1)
            parent = shapes[body.parent]
            # velocities have one component, and the world needs no inertia
            first = parent.on_world and parent.freedoms == 1
            total += max(own - 195.0, 0.0) if first else own
    return total + _cost_of_sharing(plan, shapes)


def _cost_of_sharing(plan: Plan, shapes: list[_Shape]) -> float:
    """Predict what open variables cost: a force and a row of H at each body they pass.

    Roughly: up to twice the true cost where several variables are open together.
    """
    if not plan.has_couplings:
        return 0.0
    at_bodies, at_world = closings(plan, (0.0,) * plan.nv, (True,) * plan.nv)
    ends = {k: body.index for body in plan.bodies for k in at_bodies[body.index].variables}
    ends |= dict.fromkeys(at_world.variables, WORLD_BODY)
    open_at: list[set[int]] = [set() for _ in plan.bodies]
    for body in plan.bodies:
        for variable in at_bodies[body.index].shared:
            passed = body.index
            while passed != ends[variable]:
                open_at[passed].add(variable)
                passed = plan.bodies[passed].parent
    total = 0.0
    for shape, variables, closing in zip(shapes, open_at, at_bodies, strict=True):
        count = len(variables)
        # a joint that shares its variable is not eliminated where it stands
        eliminated = len(closing.variables) + (0 if closing.shared else shape.freedoms)
        total += count * (shape.weigh(12.0, 30.0, 4.0) + (24.0 + count) * eliminated)
        total -= 60.0 * len(closing.shared)
    return total


def composite_cost(plan: Plan) -> float:
    """Predict the operations of `forward_by_mass_matrix`, those of its loops at what they take.

    Args:
        plan: Layout of the model.
    """
    total, shapes = 0.0, _shapes(plan)
    for shape in shapes:
        if not shape.on_world:
            own = shape.weigh(36.0, 80.0, 32.0) + 78.0 * (shape.freedoms - 1) - 12.0
            total += 2.0 if shape.still else max(own, 0.0)
    # forces of unit accelerations go to the root, felt by every joint on the way
    to_root: list[float] = []
    for body, shape in zip(plan.bodies, shapes, strict=True):
        way = 0.0
        if not shape.on_world:
            carried = 0.0 if shape.still else max(shape.weigh(30.0, 32.0, -6.0), 0.0)
            way = to_root[body.parent] + carried + 12.5 * shapes[body.parent].freedoms
        to_root.append(way)
        total += shape.freedoms * way
    depths: list[int] = []
    for above in expanded_parents(plan):
        depths.append(1 if above < 0 else depths[above] + 1)
    # row k of L^T D L updates the rows of its ancestors; then one solution down and up
    solving = sum(depth * depth + 4 * (depth - 1) + 1 for depth in depths)
    if plan.nv <= INLINE_SIZE:
        return total + solving
    return total + LOOP_FACTOR * solving + LOOP_ROW * plan.nv
