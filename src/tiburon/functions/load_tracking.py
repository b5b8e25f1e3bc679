"""Load sharing for desired accelerations: the problem that `LoadSharingControl` solves.

Accelerations are changed where contacts do not allow them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.setting import Options, Setting
from tiburon.contact.candidates import number_count
from tiburon.functions.keywords import DYNAMICS_CALL
from tiburon.functions.library import LibraryFunction, inputs_of
from tiburon.load_sharing.problem import Before, Layout
from tiburon.load_sharing.solution import Limits, row_names
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.program import Input

__all__ = ["TrackedLoad", "tracked_load"]

AIM = 10
"""Scalars of the aim of a foot: position, velocity, acceleration, completed share."""

GAINS = 3
"""Gains along the rows of contacts."""


class TrackedLoad(NamedTuple):
    """Joint forces and contact forces of a motion that contacts allow."""

    tau: Any
    """Joint force [N or N m], shape (..., nv)."""

    x: Any
    """Unknown forces in the order of `LoadSharing.names`, then changes of the accelerations of
    variables that nothing drives [N, N m, m/s^2, rad/s^2]."""

    forces: Any
    """Force on the first body of each contact point, world axes [N], shape (..., 3 points)."""

    friction_margins: Any
    """mu f_n - |f_t| of each contact and grip [N]."""

    multipliers: Any
    """Multiplier of each limit."""

    status: Any
    """0 for an optimum; see `tiburon.trace.primitives.quadratic`."""

    vd: Any
    """Accelerations of the motion [m/s^2 or rad/s^2], shape (..., nv)."""

    centers: Any
    """Center of each foot with an aim, world axes [m], shape (..., 3 feet)."""


def _inputs(model: Model, options: Options) -> list[Input]:
    choices = dict(options)
    layout: Layout = choices["layout"]
    limits: Limits = choices["limits"]
    groups = len(layout.groups)
    feet = sum(foot is not None for foot in choices["feet"])
    return [
        *inputs_of("q", "v", "vd")(model, options),
        Input("touching", (groups,)),
        Input("planned", (groups,)),
        Input("aims", (AIM * max(feet, 1),)),
        Input("gains", (GAINS,)),
        Input("caps", (groups,)),
        Input("before", (layout.size,)),
        Input("before_tau", (len(layout.driven),)),
        Input("max_step", ()),
        Input("prefer", (len(row_names(layout, limits, model.v_names)) + _capped(layout),)),
        Input("friction", (groups,)),
        Input("torsion", (groups,)),
        Input("bounds", (2 * len(limits.torques),)),
        Input("weights", (len(choices["objective"].parameters(model)),)),
        Input("surfaces", (number_count(choices["candidates"]),)),
    ]


def _capped(layout: Layout) -> int:
    """Return the number of contacts whose normal force has an upper bound."""
    return sum(group.normal is not None for group in layout.groups)


def _tracked(setting: Setting, *given: Sequence[Scalar]) -> Any:
    from tiburon.load_sharing.problem import problem_of
    from tiburon.load_sharing.solution import program_of, shared
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
    (
        q,
        v,
        wanted,
        touching,
        planned,
        aims,
        gains,
        caps,
        x,
        tau,
        max_step,
        prefer,
        friction,
        torsion,
        bounds,
        weights,
        surfaces,
    ) = given
    layout, candidates, grips = (choices[name] for name in ("layout", "candidates", "grips"))
    feet = choices["feet"]
    count = sum(foot is not None for foot in feet)
    vd, basis = followed(
        setting,
        layout,
        candidates,
        q,
        v,
        wanted,
        surfaces,
        planned,
        touching,
        feet,
        [
            FootAim(
                *(aims[AIM * k + 3 * part : AIM * k + 3 * part + 3] for part in range(3)),
                (aims[AIM * k + 9], 0.0, 0.0),
            )
            for k in range(count)
        ],
        Following(*gains),
    )
    problem = problem_of(setting, layout, candidates, grips, q, v, vd, surfaces, touching, friction)
    problem = tracking_problem(setting, problem, q, vd, basis)
    program = program_of(
        problem,
        choices["objective"],
        choices["limits"],
        weights,
        bounds,
        torsion,
        Before(x, tau),
        max_step[0],
    )
    program = with_caps(with_motion_weights(program, problem), layout, caps)
    found = shared(problem, program, choices["limits"], bounds, prefer)
    changes = list(found["x"])[layout.size :]
    moving = [
        a + sum((column[i] * d for column, d in zip(basis, changes, strict=True)), 0.0)
        for i, a in enumerate(vd)
    ]
    names = ("tau", "x", "forces", "friction_margins", "multipliers", "status")
    places = [foot_center(setting, q, foot) for foot in feet if foot is not None]
    return {
        **{name: found[name] for name in names},
        "vd": as_traced(moving),
        "centers": as_traced([x for place in places for x in place] or [0.0]),
    }


tracked_load: LibraryFunction[Any] = LibraryFunction(
    "tracked_load", _inputs, _tracked, keywords=DYNAMICS_CALL
)
