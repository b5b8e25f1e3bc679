"""Predicted operation counts of the two methods of forward dynamics, from the tree alone.

Operations per body depend on its transform to the parent: rotations about coordinate axes, general
rotations and translations. The coefficients were fitted to the counts of traced kernels with every
kind of joint; tests compare predictions with such counts. Featherstone 1987, table 8-6, has the
same form for chains: N for articulated bodies; N^2 (forces to the root) and N^3/6 (factorization)
for composite bodies.
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

LOOP_FACTOR, LOOP_ROW = 3.0, 40.0
"""Cost of an operation and of a row of a looped factorization, in operations of straight-line code;
measured on the benchmark robots, single calls and batches."""


class _Shape(NamedTuple):
    """Properties of a body that determine its cost."""

    dof: int
    axis_turns: int
    turns: int
    moves: int
    on_world: bool
    never_rotates: bool
    """Whether its orientation is constant."""

    def weigh(self, axis_turn: float, turn: float, move: float) -> float:
        """Return the cost of its coordinate transform."""
        return axis_turn * self.axis_turns + turn * self.turns + move * self.moves


def _may_differ(x: Scalar, *known: float) -> bool:
    """Return whether a value may differ from some constants."""
    return not isinstance(x, float) or x not in known


def _shapes(plan: Plan) -> list[_Shape]:
    shapes: list[_Shape] = []
    for body in plan.bodies:
        q = _some_position(body)
        axis_turns, turns, moves = _factors(body.transform(q))
        on_world = body.parent == WORLD_BODY
        still = not any(_turns(S) for S in body.joint.subspace(q))
        still = still and (on_world or shapes[body.parent].never_rotates)
        dof = body.v.stop - body.v.start
        shapes.append(_Shape(dof, axis_turns, turns, moves, on_world, still))
    return shapes


def _some_position(body: PlanBody) -> list[float]:
    """Return a joint position at which no coefficient is zero or one by chance."""
    if body.joint.follows is not None:
        return [0.3] * (body.q.stop - body.q.start)
    return list(body.joint.random(np.random.default_rng(1)))


def _turns(S: Motion) -> bool:
    return any(_may_differ(x, 0.0) for x in S.angular)


def _factors(X: Transform) -> tuple[int, int, int]:
    """Count rotations about coordinate axes, general rotations, and translation components."""
    axis_turns = turns = moves = 0
    for factor in X:
        if isinstance(factor, AxisRotation):
            axis_turns += 1
        elif isinstance(factor, Rotation):
            turns += any(_may_differ(x, 0.0, 1.0, -1.0) for row in factor.E for x in row)
        elif isinstance(factor, Translation):
            moves += sum(_may_differ(x, 0.0) for x in factor.r)
    return axis_turns, turns, moves


def articulated_cost(plan: Plan) -> float:
    """Predict the operations of `aba`, or of `coupled_aba` for coupled joints.

    Args:
        plan: Layout of the model.
    """
    total, shapes = 0.0, _shapes(plan)
    for body, shape in zip(plan.bodies, shapes, strict=True):
        if shape.on_world:
            total += 16.0 * shape.dof
        elif shape.never_rotates:
            total += 22.0
        elif shape.dof == 6:
            # a joint with six degrees of freedom transmits no inertia
            total += 420.0
        else:
            own = 146.0 + shape.weigh(36.0, 345.0, 88.0) + 11.0 * (shape.dof - 1)
            parent = shapes[body.parent]
            # the velocity has one component, and the parent is fixed
            first = parent.on_world and parent.dof == 1
            total += max(own - 195.0, 0.0) if first else own
    return total + _cost_of_sharing(plan, shapes)


def _cost_of_sharing(plan: Plan, shapes: list[_Shape]) -> float:
    """Predict the cost of open shared variables: a force and a row of H at each body they pass.

    An upper estimate, up to twice the true cost if several variables are open together.
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
        # a joint with a shared variable is not eliminated at its body
        eliminated = len(closing.variables) + (0 if closing.shared else shape.dof)
        total += count * (shape.weigh(12.0, 30.0, 4.0) + (24.0 + count) * eliminated)
        total -= 60.0 * len(closing.shared)
    return total


def composite_cost(plan: Plan) -> float:
    """Predict the operations of `forward_by_mass_matrix`, with loops weighted by their cost.

    Args:
        plan: Layout of the model.
    """
    total, shapes = 0.0, _shapes(plan)
    for shape in shapes:
        if not shape.on_world:
            own = shape.weigh(36.0, 80.0, 32.0) + 78.0 * (shape.dof - 1) - 12.0
            total += 2.0 if shape.never_rotates else max(own, 0.0)
    # forces of unit accelerations are propagated to the root and projected on every joint
    to_root: list[float] = []
    for body, shape in zip(plan.bodies, shapes, strict=True):
        way = 0.0
        if not shape.on_world:
            carried = 0.0 if shape.never_rotates else max(shape.weigh(30.0, 32.0, -6.0), 0.0)
            way = to_root[body.parent] + carried + 12.5 * shapes[body.parent].dof
        to_root.append(way)
        total += shape.dof * way
    depths: list[int] = []
    for above in expanded_parents(plan):
        depths.append(1 if above < 0 else depths[above] + 1)
    # row k of L^T D L updates the rows of its ancestors; then two substitutions
    solving = sum(depth * depth + 4 * (depth - 1) + 1 for depth in depths)
    if plan.nv <= INLINE_SIZE:
        return total + solving
    return total + LOOP_FACTOR * solving + LOOP_ROW * plan.nv
