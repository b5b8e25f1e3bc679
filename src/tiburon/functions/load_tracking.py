"""Load sharing for desired accelerations: the problem that `LoadSharingControl` solves.

Accelerations are changed where contacts do not allow them.
"""

from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.functions.keywords import DYNAMICS_CALL
from tiburon.functions.library import LibraryFunction
from tiburon.functions.load_sharing import (
    ProblemInputs,
    objective_in,
    problem_inputs,
    stated_problem,
)
from tiburon.load_sharing.limits.limit import RunTime
from tiburon.load_sharing.problem import Before, Layout
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.program import Input

AIM_SIZE = 10
"""Scalars of the aim of a foot: position, velocity, acceleration, completed share."""

GAINS = 5
"""Gains along the rows of contacts, the share of friction that may be used, the weight of changes
of the motion from step to step."""


class TrackedLoad(NamedTuple):
    """Joint forces and contact forces of a motion that contacts allow."""

    tau: Any
    """Joint force [N or N m], shape (..., nv)."""

    x: Any
    """Unknown forces in the order of `LoadSharing.names`, then changes of the accelerations of
    variables that nothing drives [N, N m, m/s^2, rad/s^2]."""

    forces: Any
    """Force on the first body of each contact point, world axes [N], shape (..., points, 3)."""

    friction_margins: Any
    """mu f_n - |f_t| of each contact and grip [N]."""

    multipliers: Any
    """Multiplier of each limit."""

    status: Any
    """0 for an optimum; see `tiburon.trace.primitives.quadratic`."""

    vd: Any
    """Accelerations of the motion [m/s^2 or rad/s^2], shape (..., nv)."""

    fallback: Any
    """Joint force with the contact forces of the step before, within its limits [N or N m], shape
    (..., nv): for where there is no solution."""

    centers: Any
    """Center of each foot with an aim, world axes [m], shape (..., 3 feet)."""


def _inputs(model: Model, options: Options) -> list[Input]:
    choices = dict(options)
    layout: Layout = choices["layout"]
    groups = len(layout.groups)
    feet = sum(foot is not None for foot in choices["feet"])
    own = [
        Input("planned", (groups,)),
        Input("aims", (AIM_SIZE * max(feet, 1),)),
        Input("gains", (GAINS,)),
        Input("caps", (groups,)),
        Input("drift", (len(layout.undriven),)),
        Input("passive_force", (model.nv,)),
    ]
    # the library takes the first two for configuration and velocity: water acts on these
    return [*problem_inputs(model, options), *own]


def _tracked(setting: Setting, *inputs: Scalars) -> Any:
    from tiburon.load_sharing.solution import program_of, shared, torque_bounds
    from tiburon.load_sharing.tracking import (
        Following,
        FootAim,
        followed,
        foot_center,
        tracking_problem,
        with_caps,
        with_motion_weights,
    )
    from tiburon.trace.array import as_traced

    choices = dict(setting.options)
    given = ProblemInputs(*inputs[:-6])
    planned, aims, gains, caps, drift, passive = inputs[-6:]
    layout, limits, feet = (choices[name] for name in ("layout", "limits", "feet"))
    count = sum(foot is not None for foot in feet)
    vd, basis = followed(
        setting,
        layout,
        choices["candidates"],
        given.q,
        given.v,
        given.vd,
        given.surfaces,
        planned,
        given.touching,
        feet,
        [
            FootAim(
                aims[k : k + 3], aims[k + 3 : k + 6], aims[k + 6 : k + 9], (aims[k + 9], 0.0, 0.0)
            )
            for k in range(0, AIM_SIZE * count, AIM_SIZE)
        ],
        Following(*gains[:3]),
        choices["sites"],
        given.sites,
    )
    problem = tracking_problem(stated_problem(setting, given._replace(vd=vd), passive), basis)
    problem = problem._replace(friction=[gains[3] * mu for mu in problem.friction])
    now = RunTime(given.torsion, given.failed, Before(given.x, given.tau), given.max_step)
    program = program_of(
        problem, objective_in(choices), limits, given.weights, given.limit_values, now
    )
    program = with_motion_weights(program, problem, gains[4], drift)
    program = with_caps(program, layout, caps)
    bounds = torque_bounds(problem, limits, given.limit_values, given.failed)
    # upper bounds of normal forces come after the other limits, and before cones
    rows = len(program.A2) - _capped(layout)
    prefer = [*given.prefer[:rows], *([0.0] * _capped(layout)), *given.prefer[rows:]]
    found = shared(problem, program, limits, bounds, prefer)
    changes = list(found["x"])[layout.size :]
    moving = [
        a + sum((column[i] * d for column, d in zip(basis, changes, strict=True)), 0.0)
        for i, a in enumerate(vd)
    ]
    names = ("tau", "x", "forces", "friction_margins", "multipliers", "status")
    last = [*given.x, *([0.0] * len(basis))]
    fallback: list[Scalar] = [0.0] * len(vd)
    for index in layout.driven:
        row, offset = problem.torque(index)
        fallback[index] = offset + sum((x * last[k] for k, x in row.items()), 0.0)
    for index, (low, high) in zip(limits.torques, bounds, strict=True):
        fallback[index] = np.minimum(np.maximum(fallback[index], low), high)
    places = [foot_center(setting, given.q, foot) for foot in feet if foot is not None]
    return {
        **{name: found[name] for name in names},
        "vd": as_traced(moving),
        "fallback": as_traced(fallback),
        "centers": as_traced([x for place in places for x in place] or [0.0]),
    }


def _capped(layout: Layout) -> int:
    """Return the number of contacts whose normal force has an upper bound."""
    return sum(group.normal is not None for group in layout.groups)


tracked_load: LibraryFunction[Any] = LibraryFunction(
    "tracked_load", _inputs, _tracked, keywords=DYNAMICS_CALL
)
