"""Projection of a star onto its constraints: one factorization per arm, two rounds.

The correction of least kinetic energy solves the equations of `star_dynamics` without forces: with
b_k = -(constraint residual) it is a Newton step of the configuration, with b_k = -(its rate) the
change of velocity. One factor of each arm, at the given configuration, serves both.

    round   an arm sends                            receives, of the reference member
    step    A_k, and g_k of its residual            step and new position
    rate    g_k of its rate at the new position     change of velocity
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.loops.constraints import closure_constraints, closure_values
from tiburon.loops.metric import max_abs, tree_factor
from tiburon.loops.parts import PartMethod, Round, run
from tiburon.loops.star import StarLayout, layout
from tiburon.loops.star_dynamics import (
    Arm,
    Loaded,
    arm_factor,
    arm_load,
    arm_matrix,
    arm_motion,
    center_sums,
    chain,
    completed_message,
    is_inlined,
    lower_triangle,
    solve_center,
)
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.vec3 import ZERO3


class ProjectedStar(NamedTuple):
    """A star projected with one factorization."""

    q: list[Scalar]
    v: list[Scalar]
    residual: Scalar
    """Largest remaining constraint residual [m or rad]."""

    missed: Scalar
    """Estimate of the velocity that remains across constraints [m/s or rad/s]."""

    is_doubtful: Scalar
    """Whether an arm is singular, so that another method has to be used."""


class _State(NamedTuple):
    """State of an arm's plan."""

    q: list[Scalar]
    v: list[Scalar]


class _Stepped(NamedTuple):
    """An arm after the first round."""

    state: _State
    loaded: Loaded


class _Moved(NamedTuple):
    """An arm after the second round."""

    q: list[Scalar]
    """New position of its own joints."""

    v: list[Scalar]
    step: Scalar
    """Largest change of a joint."""

    loaded: Loaded


class _Step(NamedTuple):
    A: list[Scalar]
    g: list[Scalar]
    is_singular: Scalar


class _Rate(NamedTuple):
    g: list[Scalar]
    residual: Scalar
    step: Scalar


class _Center(NamedTuple):
    """State of the reference member."""

    q: list[Scalar]
    at: list[Scalar]
    """Configuration for which arms are factored."""

    v: list[Scalar]
    A: list[Scalar]
    entries: list[Scalar]
    is_doubtful: Scalar
    residual: Scalar
    step: Scalar
    change: Scalar


class _Answer(NamedTuple):
    """Step of the reference member's variables, and where it is afterwards."""

    step: list[Scalar]
    q: list[Scalar]


def moved(model: Model, plan: Plan, q: Scalars, step: Scalars) -> list[Scalar]:
    """Integrate the configuration of a part by a velocity step; quaternions are normalized."""
    found = list(q)
    for body in plan.bodies:
        if body.joint.follows is None and body.q.stop > body.q.start:
            joint = model.joint(body.joint.name)
            found[body.q] = joint.normalize(joint.integrate(q[body.q], step[body.v]))
    return found


def _step(arm: Arm, state: _State, _: None) -> tuple[_Step, _Stepped]:
    """Factor an arm, and load it with its residual."""
    q = JointVector(state.q)
    terms = closure_constraints(arm.shape.loops, arm.plan, q)
    factor = arm_factor(arm, q, terms)
    rest = [0.0] * len(arm.shape.own)
    border = [0.0] * len(arm.shape.border)
    loaded, g = arm_load(arm, factor, rest, [-terms.value[k] for k in arm.shape.live], border)
    return _Step(arm_matrix(arm, factor), g, factor.is_singular), _Stepped(state, loaded)


def _rate(arm: Arm, known: _Stepped, answer: _Answer) -> tuple[_Rate, _Moved]:
    """Move an arm, and load it with the rate of its constraints there."""
    shape, state = arm.shape, known.state
    own = arm_motion(arm, known.loaded, answer.step)[0]
    whole: list[Scalar] = [0.0] * len(shape.v)
    for places, values in ((shape.own, own), (shape.border, answer.step)):
        for i, x in zip(places, values, strict=True):
            whole[i] = x
    q = JointVector(moved(arm.model, arm.plan, state.q, whole))
    # reference members move as they say, not as each arm would round
    for i, x in zip(arm.shape.border_q, answer.q, strict=True):
        q[i] = x
    after = closure_values(shape.loops, arm.plan, q, JointVector(state.v))
    rest, border = [0.0] * len(shape.own), [0.0] * len(shape.border)
    right = [-after.rate[k] for k in shape.live]
    loaded, g = arm_load(arm, known.loaded.factor, rest, right, border)
    size = max_abs(own)
    moving = _Moved(list(q), [state.v[i] for i in shape.own], size, loaded)
    return _Rate(g, max_abs(after.value), size), moving


def _recover(arm: Arm, known: _Moved, answer: Scalars) -> tuple[Any, Any, Scalar]:
    """Return new positions of an arm's plan, new velocities of its own, and their change."""
    change = arm_motion(arm, known.loaded, answer)[0]
    velocity = [x + y for x, y in zip(known.v, change, strict=True)]
    return known.q, velocity, max_abs(change)


def _method(model: Model, plan: Plan, shape: StarLayout, arms: Sequence[Arm]) -> PartMethod:
    def solve_step(center: _Center, messages: Sequence[_Step]) -> tuple[list[_Answer], _Center]:
        size = len(shape.v)
        completed = [
            completed_message(arm, center.at, sent.A, sent.g)
            for arm, sent in zip(arms, messages, strict=True)
        ]
        A, g = center_sums(shape, completed, center.A, [0.0] * size)
        entries = tree_factor(chain(size), A)
        step = solve_center(entries, g)
        q = moved(model, plan, center.q, step)
        doubt: Scalar = 0.0
        for sent in messages:
            doubt = np.maximum(doubt, sent.is_singular)
        known = center._replace(q=q, entries=entries, is_doubtful=doubt, step=max_abs(step))
        answers = [
            _Answer([step[i] for i in arm.at], [q[i] for i in arm.at_q]) for arm in shape.arms
        ]
        return answers, known

    def solve_rate(center: _Center, messages: Sequence[_Rate]) -> tuple[Any, _Center]:
        size = len(shape.v)
        completed = [
            completed_message(arm, center.at, (), sent.g)
            for arm, sent in zip(arms, messages, strict=True)
        ]
        _, force = center_sums(shape, completed, (), [0.0] * size)
        change = solve_center(center.entries, force)
        residual, step = center.residual, center.step
        for sent in messages:
            residual, step = np.maximum(residual, sent.residual), np.maximum(step, sent.step)
        v = [x + y for x, y in zip(center.v, change, strict=True)]
        known = center._replace(v=v, residual=residual, step=step, change=max_abs(change))
        return [[change[i] for i in arm.at] for arm in shape.arms], known

    rounds = (Round("step", _step, solve_step), Round("rate", _rate, solve_rate))
    return PartMethod("project_star", tuple(arms), rounds, _recover)


def projected_star(
    model: Model, plan: Plan, q: Scalars, v: Scalars, min_cut: float
) -> ProjectedStar:
    """Project configuration and velocity of a star by one Newton step.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration near the manifold [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        min_cut: Smallest rank cut; see `rank_cut`.
    """
    shape = layout(model)
    arms = [Arm(model, arm, arm.plan_of(plan), ZERO3, None, min_cut) for arm in shape.arms]
    center_plan = shape.plan_of(plan)
    own_q, own_v = [q[i] for i in shape.q], [v[i] for i in shape.v]
    states = [_State([q[i] for i in arm.q], [v[i] for i in arm.v]) for arm in shape.arms]
    method = _method(model, center_plan, shape, arms)
    with taping(None):
        A = chosen_mass_elements(center_plan, JointVector(own_q), lower_triangle(center_plan.nv))
        center = _Center(own_q, own_q, own_v, A, [], 0.0, 0.0, 0.0, 0.0)
        found = run(method, center, states, inline=is_inlined(plan))
    q_after, v_after = list(q), list(v)
    change = found.center.change
    for i, x in zip(shape.q, found.center.q, strict=True):
        q_after[i] = x
    for i, x in zip(shape.v, found.center.v, strict=True):
        v_after[i] = x
    for arm, (position, velocity, size) in zip(shape.arms, found.results, strict=True):
        change = np.maximum(change, size)
        for i, x in zip(arm.q, position, strict=True):
            q_after[i] = x if i not in shape.q else q_after[i]
        for i, x in zip(arm.own, velocity, strict=True):
            v_after[arm.v[i]] = x
    return ProjectedStar(
        q_after,
        v_after,
        found.center.residual,
        found.center.step * change,
        found.center.is_doubtful,
    )
