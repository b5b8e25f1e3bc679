"""Load sharing for users: joint torques and contact forces that produce a motion within limits."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from tiburon.actuation.element import Element, per_degree_of_freedom, structure_of
from tiburon.actuation.passive import passive_elements, passive_forces
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import ancestors
from tiburon.argument_checks import (
    at_least,
    choice,
    is_whole,
    positive,
    refuse_unusable,
)
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.contact.candidates import (
    Candidate,
    candidates_of,
    number_count,
    numbers_of,
    refuse_prescribed,
    restored,
)
from tiburon.errors import (
    DomainError,
    ModelError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
    shown,
)
from tiburon.functions.keywords import CONDITIONS, Conditions, takes_conditions
from tiburon.functions.library import check_places, inputs_of, library_function
from tiburon.functions.load_checks import MAX_GAP, ForceClosure, check_motion, force_closure
from tiburon.load_sharing.certificate import (
    Contradiction,
    Lifted,
    contradiction_of,
    least_excess,
    least_shift,
)
from tiburon.load_sharing.complete import unfelt_count
from tiburon.load_sharing.drives import drives_of
from tiburon.load_sharing.formulation import (
    COMPACT,
    FORMULATIONS,
    completed_objective,
    formulated,
    formulation_names,
)
from tiburon.load_sharing.limit_matrix import LimitMatrix
from tiburon.load_sharing.limits.center_of_pressure import CenterOfPressure
from tiburon.load_sharing.limits.contact import (
    LARGEST,
    FrictionCone,
    FrictionPyramid,
    Torsion,
    Unilateral,
    bounds_of,
    friction_directions,
)
from tiburon.load_sharing.limits.drive import DriveLimit
from tiburon.load_sharing.limits.limit import Limit, RunTime
from tiburon.load_sharing.limits.step import STEP_EXCEEDED, StepLimit
from tiburon.load_sharing.limits.torque import UNBOUNDED, DrivenJoint, TorqueLimit
from tiburon.load_sharing.named import FORCES, check_names, count_of, places_of, spread
from tiburon.load_sharing.objectives.contact_force import InternalForce
from tiburon.load_sharing.objectives.objective import (
    Objective,
    parameters_of,
    parts_of,
    squares_of,
)
from tiburon.load_sharing.objectives.smoothness import Smoothness, TorqueSmoothness
from tiburon.load_sharing.problem import Before, Grip, Group, Layout, layout_of
from tiburon.load_sharing.relaxation import DIRECTION, MOTION, RELAXED
from tiburon.load_sharing.sites import (
    SITE_VALUES,
    ContactSite,
    expected_friction,
    friction_field,
)
from tiburon.load_sharing.smoothing import ForcePrograms
from tiburon.load_sharing.solution import Limits, levels_of, row_names
from tiburon.model import WORLD, Model, World
from tiburon.model.closure import LoopClosure
from tiburon.model.joint_constraints import Offset, RelativeMotion
from tiburon.model.value_checks import number
from tiburon.record import record
from tiburon.spatial import Scalars
from tiburon.spatial.vec3 import IDENTITY3, ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.declared import is_declared
from tiburon.trace.dependencies import KeyedCode
from tiburon.trace.digest import program_digest
from tiburon.trace.primitives.quadratic import QPSolution, solve_qp
from tiburon.trace.program import Input, current_graph

if TYPE_CHECKING:
    from tiburon.load_sharing.linear_program import LinearObjective, LinearSolution

Pairs = Sequence[tuple[str, str]]

Touching = ArrayLike | Mapping[str, ArrayLike] | Sequence[str] | None
"""Which contacts take part: marks in order, marks by name, names, or None for all."""

_STATUS_NAMES = np.array(
    (
        *("optimal", "infeasible", "not convex", "unfinished", "relaxed", "at limits"),
        *("not finite", "step exceeded"),
    )
)
"""Names of the status of a solution, by code."""

_STATUS_SCALARS = tuple(_STATUS_NAMES)
"""The same, one by one."""

FEASIBLE = ("optimal", "at limits", "step exceeded")
"""Statuses of motions that are produced as given."""

NOT_FINITE = 6
"""Code of solutions that overflow."""

_BAD_CODES = (False, True, True, True, False, False, True, False)
"""Whether there is no solution, by code."""

_IS_BAD = np.array(_BAD_CODES)
"""The same for many cases."""

PYRAMID_SIDES = 16
"""Sides of the pyramids inside friction cones in proposed motions."""

PUSHING_LIMITS = ("friction", "torsion", "center of pressure", "least normal force")
"""Limits that belong to pushing contacts: a contact that may pull has none of them."""

LEAST_PULL = 1e-6
"""Pull up to which a contact counts as one that need not pull [N]."""

ACTIVE_MULTIPLIER = 1e-9
"""Multiplier relative to the largest above which a limit is active."""

LEAST_ALIGNMENT = 0.3
"""Cosine between a proposed shift and the way to a contact above which that one names it."""

LIMIT_RESERVE = 1e-3
"""Reserve of limits in proposed motions, relative to the largest generalized force."""

REPORTED_VIOLATION = 1e-7
"""Violation relative to the largest force above which it is reported."""


@record
class GripLimit:
    """Friction of a loop that stands for a contact, such as a fingertip on a glass."""

    loop: str
    """Name of the loop; its joint leaves no translation free."""

    normal: tuple[float, float, float]
    """Unit normal from the first body to the second, in axes of the loop's joint frame."""

    friction: float
    """Coefficient of static friction."""

    torsion: float = 0.0
    """Moment about the normal per normal force [m], for soft fingers."""

    def __post_init__(self) -> None:
        element = f"grip {self.loop!r}"
        normal = np.asarray(self.normal, dtype=np.float64)
        length = float(np.linalg.norm(normal)) if normal.shape == (3,) else np.nan
        if not abs(length - 1.0) < 1e-6:
            raise ModelError(
                f"{element}: normal must be a unit vector in axes of the loop's joint frame, got "
                f"{shown(self.normal)}; divide it by its length"
            )
        object.__setattr__(self, "normal", tuple(map(float, normal / length)))
        friction = friction_field(self.friction, element, self.loop)
        object.__setattr__(self, "friction", friction)
        torsion = number(self.torsion, element, "torsion", self.loop, least=0.0)
        object.__setattr__(self, "torsion", torsion)


CHANGE_TOLERANCE = 1e-7
"""Slack and multiplier, relative to the largest, below which a limit may change its part."""


class Margins(dict[str, Any]):
    """By how much each limit is kept, by the names of `plan.limit_names` [N or N m], shape (...).

    Negative where a relaxed motion exceeds a limit, NaN where there is no solution. Contacts that
    do not touch carry nothing: theirs are zero.
    """

    __slots__ = ("array", "friction", "torque")

    array: Array
    """All of them in the order of `plan.limit_names`, shape (..., limits)."""

    friction: Array
    """``mu f_n - |f_t|`` of each contact and grip [N], whatever stands for their friction cones:
    shape (..., contacts)."""

    torque: Array
    """Distance of each limited joint force from its nearer limit [N or N m], shape (..., joints),
    in the order of `plan.limits.torques`."""

    def __init__(self, names: Sequence[str], array: Any, friction: Any, torque: Any) -> None:
        """Name the margins."""
        super().__init__((name, array[..., k]) for k, name in enumerate(names))
        self.array, self.friction, self.torque = array, friction, torque

    def __missing__(self, name: object) -> Any:
        """Refuse what is not a limit."""
        raise UnknownNameError("limit", str(name), list(self), listing="plan.limit_names")


@public
class LoadShare(NamedTuple):
    """Joint forces and contact forces of one state or many."""

    plan: "LoadSharing"
    """The plan that shared the load."""

    tau: Array
    """Joint force [N or N m], shape (..., nv); zero at joints that nothing drives. NaN where there
    is no solution."""

    forces: Array
    """Force on the first body of each contact point, world axes [N], shape (..., points, 3)."""

    x: Array
    """All unknowns, in the order of `plan.names`: contact forces on the second body along two
    tangents and the normal, and constraint forces of loops [N, N m], shape (..., unknowns)."""

    kept: tuple[Array, Array, Array]
    """What `margins` are made of: `Margins.friction`, `Margins.torque`, and by how much each limit
    is kept, without sides of pyramids."""

    torque_bounds: Array
    """Smallest and largest force of each limited joint in this state [N or N m], shape (...,
    joints, 2)."""

    multipliers: Array
    """Multiplier of each limit, in the order of `plan.limit_names`: what the objective gains per
    unit of the limit. Where there is no solution, the Farkas vector of the limits."""

    equation_multipliers: Array
    """Multiplier of each equation, in the order of `plan.equation_names`."""

    shortfall: Array
    """Generalized forces that the motion needs and does not get [N or N m], shape (...,
    equations), in the order of `plan.equation_names`: zero but for relaxed motions."""

    status: Any
    """"optimal" (no limit is active), "at limits" (optimal with active limits), "step exceeded"
    (optimal, but a contact or actuator that no longer takes part lost more force than `max_step`),
    "relaxed" (the nearest motion that can be produced), "infeasible", "not finite" (numbers
    overflow), "not convex" or "unfinished", an array of strings of shape (...). In traced functions
    codes: 0 optimal, 5 at limits, 7 step exceeded, 4 relaxed, all others without solution."""

    iterations: Array
    """Steps of the solver, shape (...)."""

    motion: tuple[Any, ...]
    """Configuration, velocity, acceleration and touching contacts, as given."""

    changes: tuple[Any, ...]
    """Forces and driven joint forces of the step before, largest changes since, failed actuators
    and values of contact sites, as given."""

    conditions: Mapping[str, Any] = MappingProxyType({})
    """What acted on the robot beside, and when: keywords of `Conditions`, as given."""

    @property
    def warm_start(self) -> Any:
        """Forces, driven joint forces and active limits as one array, shape (..., `plan.memory`).

        `share` takes it as `before`: controllers of the user's own keep it in discrete states.
        """
        driven = self.tau[..., list(self.plan.layout.driven)]
        active = np.where(self.multipliers > 0.0, 1.0, 0.0)
        if current_graph() is None:
            return np.concatenate([self.x, driven, active], axis=-1)
        return as_traced([*self.x, *driven, *active])

    @property
    def is_feasible(self) -> Any:
        """Whether the motion is produced as given, shape (...).

        Within all limits of what takes part.
        """
        found = np.isin(self.status, FEASIBLE)
        return found if np.ndim(found) else bool(found)

    @property
    def margins(self) -> Margins:
        """By how much each limit is kept, by its name, and as arrays [N or N m]."""
        plan = self.plan
        friction, torque, array = self.kept
        if plan.limits.sides is not None:
            array = self._with_sides(friction, array)
        return Margins(plan.limit_names, array, friction, torque)

    def _with_sides(self, friction: Any, others: Any) -> Any:
        """Return margins of all limits: those of sides follow from forces and the exact cone's."""
        pyramid = next(x for x in self.plan.limits.parts if isinstance(x, FrictionPyramid))
        normals = [group.normal for group in self.plan.layout.groups if group.normal is not None]
        less = float(np.cos(np.pi / pyramid.sides)) if pyramid.inscribed else 1.0
        sides = []
        for k, n in enumerate(normals):
            t1, t2 = self.x[..., n - 2], self.x[..., n - 1]
            bound = less * (friction[..., k] + np.sqrt(t1 * t1 + t2 * t2))
            sides += [bound - (a * t1 + b * t2) for a, b in friction_directions(pyramid.sides)]
        first = len(normals)
        if current_graph() is None:
            parts = [others[..., :first], np.stack(sides, axis=-1), others[..., first:]]
            return np.concatenate(parts, axis=-1)
        return as_traced([*others[:first], *sides, *others[first:]])

    @property
    def excess(self) -> Array:
        """By how much each limit is exceeded, in the order of `plan.limit_names` [N or N m].

        Zero but for relaxed motions, shape (..., limits).
        """
        relaxed = np.asarray(self.status == "relaxed")[..., None]
        return np.where(relaxed, np.maximum(-self.margins.array, 0.0), 0.0)

    def lacking(self, case: tuple[int, ...] | int = ()) -> tuple[dict[str, float], ...]:
        """Return what is missing in a case at each level of `relax`, in the given order.

        Missing generalized forces and amounts by which limits are exceeded, by name [N or N m];
        those below 1e-7 of the largest force are left out.

        Args:
            case: Index of the case in a batch.
        """
        place = self._place(case)
        least = REPORTED_VIOLATION * float(np.abs(self.x[place]).max(initial=0.0))
        plan, found = self.plan, []
        equations = dict(zip(plan.equation_names, self.shortfall[place].tolist(), strict=True))
        limits = list(zip(plan.limit_names, self.excess[place].tolist(), strict=True))
        for level in levels_of(plan.model, plan.layout, plan.limits):
            names = plan.equation_names
            own = {
                name: equations[name]
                for k, name in enumerate(names)
                if level.proportional or k in level.equations
            }
            own |= {limits[k][0]: limits[k][1] for k in level.limits}
            found.append({name: x for name, x in own.items() if abs(x) > least})
        return tuple(found)

    def _place(self, case: object) -> tuple[int, ...]:
        """Return the index of a case, or raise if there is none."""
        shape = np.shape(self.status)
        given = case if isinstance(case, tuple) else (case,)
        place = tuple(operator.index(x) for x in given if is_whole(x))
        inside = len(place) == len(given) == len(shape) and all(
            -size <= k < size for k, size in zip(place, shape, strict=True)
        )
        if not inside:
            wanted = f"an index into a batch of shape {shape}" if shape else "() for one case"
            raise DomainError("case", wanted, shown(case))
        return place

    @property
    def at_change(self) -> Any:
        """Which limits are about to become active or inactive, shape (..., limits).

        The optimum touches such a limit, and would stay without it: derivatives differ to its two
        sides, and those of `share` are of one of them. A limit counts where slack and multiplier
        are below 1e-7 of the largest force and of the largest multiplier or force.
        """
        x, y = np.abs(self.x), np.abs(self.multipliers)
        forces = np.max(x, axis=-1, initial=0.0, keepdims=True)
        pressures = np.maximum(np.max(y, axis=-1, initial=0.0, keepdims=True), forces)
        found = (np.abs(self.margins.array) <= CHANGE_TOLERANCE * forces) & (
            y <= CHANGE_TOLERANCE * pressures
        )
        # contacts that do not touch are not about to do anything
        touching = np.concatenate([self.motion[3], np.ones((*self.motion[3].shape[:-1], 1))], -1)
        return found & (touching[..., self.plan._limit_groups] > 0.0)

    def explain(self, case: tuple[int, ...] | int = ()) -> "Infeasibility":
        """Explain why a case has no solution: the limits that contradict the motion, and a remedy.

        Args:
            case: Index of the case in a batch.

        Raises:
            DomainError: If the case has a solution.
        """
        place = self._place(case)
        status = str(np.asarray(self.status)[place])
        if status != "infeasible":
            raise DomainError("case", "a case without solution", f"status {status!r} at {place}")
        shape = np.shape(self.status)
        given = [np.asarray(x, dtype=np.float64) for x in (*self.motion, *self.changes)]
        one = [np.broadcast_to(x, (*shape, x.shape[-1]))[place] for x in given]
        return self.plan._explained(*one, conditions=_conditions_of(self.conditions, shape, place))

    def centers_of_pressure(self) -> Array:
        """Return the centers of pressure of flat feet [m], shape (..., feet, 2).

        Along the length of each foot and along its second tangent, normal x length, from its
        center; in the order of `plan.sites` with a size. NaN where a foot carries nothing.
        """
        feet = [site.name for site in self.plan.sites if site.half_size is not None]
        found = []
        for group in self.plan.layout.groups:
            if group.name in feet:
                n, m1, m2 = (self.x[..., group.first + k] for k in (2, 3, 4))
                carried = np.where(n > 0.0, n, np.nan)
                found.append(np.stack([-m2 / carried, m1 / carried], axis=-1))
        empty = np.zeros((*np.shape(self.status), 0, 2))
        return np.stack(found, axis=-2) if found else empty

    @property
    def summary(self) -> str:
        """One sentence per case: feasible or not, which limits are active."""
        cases = [self._sentence(case) for case in np.ndindex(*np.shape(self.status))]
        return "\n".join(cases)

    def _sentence(self, case: tuple[int, ...]) -> str:
        plan, status = self.plan, str(np.asarray(self.status)[case])
        lead = f"case {case}: " if case else ""
        y = self.multipliers[case]
        largest = float(np.abs(y).max(initial=0.0))
        active = [
            name
            for name, value in zip(plan.limit_names, y, strict=True)
            if not name.startswith(f"{LARGEST}: ")
            and value > ACTIVE_MULTIPLIER * max(largest, 1e-300)
        ]
        if status == "infeasible":
            return f"{lead}{self.explain(case).sentence}"
        if status not in (*FEASIBLE, "relaxed"):
            return f"{lead}{status}"
        parts = list(dict.fromkeys(_active_text(name) for name in active))
        changing = zip(plan.limit_names, self.at_change[case], strict=True)
        parts += [f"about to reach or leave its limit: {name}" for name, on in changing if on]
        for k, index in enumerate(plan.limits.torques):
            low, high = self.torque_bounds[case][k]
            bound = high if self.tau[case][index] > 0.0 else -low
            share = abs(float(self.tau[case][index])) / bound if bound > 0.0 else np.inf
            if 0.8 <= share < 1.0 - 1e-9:
                parts.append(f"{plan.model.v_names[index]} at {100 * share:.0f} % of its torque")
        first = "feasible"
        if status == "step exceeded":
            first += "; what no longer takes part lost more force than max_step"
        if status == "relaxed":
            first = "relaxed"
            if len(plan.equation_names):
                worst = int(np.argmax(np.abs(self.shortfall[case])))
                amount = float(self.shortfall[case][worst])
                first += f": {plan.equation_names[worst]} lacks {amount:.3g} N or N m"
            over = self.excess[case]
            largest = float(np.abs(self.x[case]).max(initial=0.0))
            first += "".join(
                f"; {name} exceeded by {over[k]:.3g} N or N m"
                for k, name in enumerate(plan.limit_names)
                if over[k] > REPORTED_VIOLATION * largest
            )
        return lead + "; ".join([first, *parts])


def objective_in(choices: Mapping[str, Any]) -> Objective:
    """Return the objective among compile-time options."""
    found = choices["objective"]
    objective: Objective = found.thing if isinstance(found, KeyedCode) else found
    return objective


def problem_inputs(model: Model, options: Options) -> list[Input]:
    """Return the inputs of the kernels, in the order of `ProblemInputs`."""
    choices = dict(options)
    layout: Layout = choices["layout"]
    limits: Limits = choices["limits"]
    groups = len(layout.groups)
    return [
        *inputs_of("q", "v", "vd")(model, options),
        Input("touching", (groups,)),
        Input("before", (layout.size,)),
        Input("before_tau", (len(layout.driven),)),
        Input("max_step", (count_of(limits.steps, layout),)),
        Input("prefer", (len(row_names(model, layout, limits)),)),
        Input("failed", (len(layout.driven),)),
        Input("sites", (SITE_VALUES * len(choices["sites"]),)),
        Input("friction", (groups,)),
        Input("torsion", (groups,)),
        Input("limit_values", (len(limits.parameters(model, layout)),)),
        Input("weights", (len(parameters_of(objective_in(choices), model)),)),
        Input("surfaces", (number_count(choices["candidates"]),)),
        Input("passive", (sum(choices["passive"].counts),)),
    ]


class ProblemInputs(NamedTuple):
    """Inputs of the kernels, in order."""

    q: Scalars
    v: Scalars
    vd: Scalars
    touching: Scalars
    x: Scalars
    tau: Scalars
    max_step: Scalars
    prefer: Scalars
    failed: Scalars
    sites: Scalars
    friction: Scalars
    torsion: Scalars
    limit_values: Scalars
    weights: Scalars
    surfaces: Scalars
    passive: Scalars


class PassiveForm(NamedTuple):
    """What code depends on of friction and springs."""

    structure: tuple[Any, ...] = ()
    """Of each passive element of the robot."""

    counts: tuple[int, ...] = ()
    """Number of run-time parameters of each."""


def stated_problem(setting: Setting, given: ProblemInputs, passive: Scalars | None = None) -> Any:
    """Return the problem of a state.

    Args:
        setting: The robot and its surroundings.
        given: Inputs of the kernel.
        passive: Joint forces of friction and springs [N or N m], nv scalars; by default those of
            the robot, if the options have them.
    """
    from tiburon.load_sharing.problem import problem_of

    choices = dict(setting.options)
    counts = choices["passive"].counts
    if counts:
        values = iter(given.passive)
        own = [tuple(islice(values, count)) for count in counts]
        elements = zip(passive_elements(setting.model), own, strict=True)
        applied = passive_forces(setting, given.q, given.v, list(elements))
        setting, passive = applied.added_to(setting, JointVector(given.q)), applied.force
    return problem_of(
        setting,
        choices["layout"],
        choices["candidates"],
        choices["grips"],
        given.q,
        given.v,
        given.vd,
        given.surfaces,
        given.touching,
        given.friction,
        choices["sites"],
        given.sites,
        choices["drives"],
        passive,
    )


def _programmed(setting: Setting, given: ProblemInputs) -> tuple[Any, Any]:
    """Return the problem of a state and its quadratic program."""
    from tiburon.load_sharing.solution import program_of

    choices = dict(setting.options)
    problem = formulated(choices.get("formulation", COMPACT), stated_problem(setting, given))
    program = program_of(
        problem,
        objective_in(choices),
        choices["limits"],
        given.weights,
        given.limit_values,
        _run_time(given),
    )
    return problem, program


def _run_time(given: ProblemInputs) -> RunTime:
    """Return what limits depend on beside the problem."""
    return RunTime(given.torsion, given.failed, Before(given.x, given.tau), given.max_step)


@library_function("shared_load", problem_inputs, keywords=CONDITIONS | {"errors"})
def _share(setting: Setting, *inputs: Scalars) -> Any:
    from tiburon.load_sharing.solution import shared, torque_bounds

    given, limits = ProblemInputs(*inputs), dict(setting.options)["limits"]
    problem, program = _programmed(setting, given)
    bounds = torque_bounds(problem, limits, given.limit_values, given.failed)
    found = shared(problem, program, limits, bounds, given.prefer)
    for part in limits.parts:
        if isinstance(part, StepLimit):
            solved = (found["status"] < 0.5) | (found["status"] > RELAXED)
            exceeded = solved & (part.lost(problem, _run_time(given)) > 0.5)
            found["status"] = np.where(exceeded, STEP_EXCEEDED, found["status"])
    return found


@library_function("load_matrices", problem_inputs, keywords=CONDITIONS)
def _matrices(setting: Setting, *inputs: Scalars) -> Any:
    from tiburon.load_sharing.solution import matrices

    return matrices(_programmed(setting, ProblemInputs(*inputs))[1])


@library_function("load_wrenches", problem_inputs, keywords=CONDITIONS)
def _wrenches(setting: Setting, *inputs: Scalars) -> Any:
    from tiburon.load_sharing.recovery import recovered

    return recovered(stated_problem(setting, ProblemInputs(*inputs)))


@library_function("load_supports", problem_inputs, keywords=CONDITIONS)
def _supports(setting: Setting, *inputs: Scalars) -> Any:
    from tiburon.load_sharing.recovery import supported

    return supported(stated_problem(setting, ProblemInputs(*inputs)))


@library_function("load_squares", problem_inputs, keywords=CONDITIONS)
def _squares(setting: Setting, *inputs: Scalars) -> Any:
    given = ProblemInputs(*inputs)
    choices = dict(setting.options)
    problem = formulated(choices.get("formulation", COMPACT), stated_problem(setting, given))
    objective = objective_in(choices)
    problem = problem._replace(auxiliary=objective.auxiliary)
    found = squares_of(objective, problem, given.weights, Before(given.x, given.tau))
    roots = [np.sqrt(square.weight) for square in found]
    return {
        "rows": as_traced(
            [
                [root * square.row.get(k, 0.0) for k in range(problem.size)]
                for root, square in zip(roots, found, strict=True)
            ]
        ),
        "offsets": as_traced(
            [root * square.offset for root, square in zip(roots, found, strict=True)]
        ),
    }


class _Counts(NamedTuple):
    """Lengths of results."""

    points: int
    limited: int
    """Joints with torque limits."""
    limits: int
    equations: int
    steps: bool
    """Whether changes are bounded."""
    some: bool
    """Whether one of them is zero."""


@public
@record(slots=False)
class LoadSharing:
    """A load-sharing problem: robot, contacts, limits and objective; immutable.

    Built by `LoadSharing.of`. Values that change from step to step are arguments of `share`; a
    change of contacts does not recompile.

    Example:
        ``tb.LoadSharing.of(dog, friction=0.6).share(dog.poses["stand"]).tau``
    """

    model: Model
    world: World
    candidates: tuple[Candidate, ...]
    grips: tuple[GripLimit, ...]
    objective: Objective
    layout: Layout
    limits: Limits
    sites: tuple[ContactSite, ...]
    friction: tuple[float, ...]
    """Coefficient of each contact and loop; -1 for that of the surfaces."""

    passive: bool = True
    """Whether friction and springs of the robot are in the equations."""

    def __post_init__(self) -> None:
        surfaces = (c for c in self.candidates for _ in range(c.point_count))
        for group, given in zip(self.layout.groups, self.friction, strict=True):
            candidate = next(surfaces, None)
            values = [given]
            if group.normal is not None and given == -1.0 and candidate is not None:
                materials = (candidate.material, *(patch.material for patch in candidate.patches))
                values = [material.static_friction for material in materials]
            for value in values:
                expected = None if value == -1.0 else expected_friction(value)
                if expected is not None:
                    raise DomainError(f"friction of {group.name!r}", expected, shown(value))

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        *,
        world: World | None = None,
        pairs: Pairs | None = None,
        sites: Sequence[ContactSite] = (),
        grips: Sequence[GripLimit] = (),
        driven: Sequence[str] | None = None,
        friction: float | Mapping[str, float] | None = None,
        sides: int | None = None,
        inscribed: bool = True,
        torque_limits: bool | Mapping[str, tuple[float, float]] = True,
        limits: Sequence[Limit] = (),
        objective: Objective | None = None,
        step_limits: str | None = None,
        relax: bool | str | Sequence[Sequence[str]] = False,
        passive: bool = True,
    ) -> "LoadSharing":
        """Return how a robot shares its load.

        Args:
            model: The robot. Its loops carry unknown forces as contacts do, and so do its
                thrusters and cables.
            world: Surroundings with the ground; level ground at z = 0 by default, if the robot has
                contact points.
            pairs: Names of two bodies each that touch, "world" for the ground; by default the
                contact points of the robot touch the ground, unless `sites` are given.
            sites: Contacts given by a point and a normal: flat feet, soft fingertips, contacts
                whose place is measured.
            grips: Loops that stand for contacts with friction.
            driven: Names of the driven joints; those with actuators by default.
            friction: Coefficient of static friction of all contacts, or by name; by default that
                of the surfaces.
            sides: Sides of friction pyramids, at least 3; exact cones by default.
            inscribed: Whether pyramids lie inside the cone, or around it.
            torque_limits: True for those of the actuators, also where they depend on the speed,
                and of the joints (`JointLimits.force`), False for none, or smallest and largest
                force by joint name [N or N m]; infinite for joints that may fail and have no limit
                else.
            limits: Further limits, such as `JointWrenchLimit` and `NormalForceLimit`.
            objective: What to minimize; `InternalForce()` by default.
            step_limits: "forces" or "torques" to bound their change from step to step.
            relax: What to give up where the motion cannot be produced within limits. True for the
                motion: the nearest one is produced, with the least sum of squares of missing
                generalized forces over apparent masses. "direction" for its amount: all
                generalized forces are shorter by the same least share, as for thrusters that
                should keep the direction of their wrench. Or levels, lists of names: the first
                level is given up before the second and so on, with least squares within a level,
                and everything else holds. Names are those of equations (`equation_names`, "motion"
                for all), of limits, or of elements with limits, such as "front_left_knee".
            passive: Whether friction and springs of joints (`JointPassive`) and springs between
                frames (`Spring`) are in the equations, by the laws of `simulate`.

        Raises:
            ModelError: If nothing is shared, or data are missing.
            UnknownNameError: If there is no such joint, contact or loop.
        """
        check_places(model, world)
        for name, flag in (("inscribed", inscribed), ("passive", passive)):
            if not isinstance(flag, (bool, np.bool_)):
                raise DomainError(name, "True or False", shown(flag))
        around = world or _default_world(model)
        given_sites = _sites_of(model, sites)
        candidates = () if given_sites and pairs is None else _contacts_of(model, around, pairs)
        chosen = InternalForce() if objective is None else objective
        given_objective: object = chosen
        if not isinstance(given_objective, Objective):
            raise ModelError(
                f"objective: expected objectives such as InternalForce(), got {shown(objective)}; "
                "write InternalForce() + 0.1 * TorqueNorm()"
            )
        drives = drives_of(model)
        names = _driven_names(model, driven, bool(drives))
        places = tuple(int(i) for i in model.indices(names, of="v")) if names else ()
        found_grips = tuple(_basis(model, grip) for grip in grips)
        layout = layout_of(model, candidates, places, found_grips, given_sites, drives)
        if not layout.groups:
            raise ModelError(
                f"model {model.name!r}: expected contacts, loops, thrusters or cables that share a "
                "load, got none; give the world a Ground, or the robot loops"
            )
        _refuse_cylinders(model, places)
        groups = [group.name for group in layout.groups]
        twice = [name for name in groups if groups.count(name) > 1]
        if twice:
            raise ModelError(
                f"model {model.name!r}: contacts, loops, thrusters and cables must have different "
                f"names, got {twice[0]!r} twice; rename one",
                name=twice[0],
            )
        chosen.check(model, layout)
        _check_torsion(model, layout, grips)
        if sides is not None:
            sides = at_least("sides", sides, 3)
            if all(group.normal is None for group in layout.groups):
                raise DomainError(
                    "sides",
                    "contacts, sites or grips with friction",
                    "none in the plan",
                    advice="leave it out, or pass grips=[GripLimit(...)] for loops",
                )
        choice("step_limits", step_limits, (None, "forces", "torques"))
        bounded = _bounds(model, names, torque_limits)
        parts: list[Limit | None] = [
            Unilateral(),
            None if sides is None else FrictionPyramid(sides, bool(inscribed)),
            Torsion(),
            CenterOfPressure.of(given_sites),
            TorqueLimit(bounded) if bounded else None,
            DriveLimit(drives) if drives else None,
            *_further_limits(model, layout, (*chosen.limits(), *limits)),
            None if step_limits is None else StepLimit(step_limits),
            FrictionCone() if sides is None else None,
        ]
        found = cls(
            model,
            around,
            candidates,
            tuple(grips),
            chosen,
            layout,
            _with_levels(model, layout, tuple(part for part in parts if part is not None), relax),
            given_sites,
            _friction(layout, grips, given_sites, friction),
            bool(passive),
        )
        # here, so that the first call of a controller is not the one that lays out the robot
        model.structure_key()
        if found._has_user_code:
            # what it is now
            found._check_objective()
        return found

    @cached_property
    def contacts(self) -> tuple[Candidate, ...]:
        """Candidates with their tables, which files do not hold."""
        return restored(self.candidates, self.world.ground)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each unknown."""
        return self.layout.names

    @property
    def contact_names(self) -> tuple[str, ...]:
        """Name of each contact point and loop."""
        return tuple(group.name for group in self.layout.groups)

    @property
    def equation_names(self) -> tuple[str, ...]:
        """Velocity variables that nothing drives: one equation each."""
        return tuple(self.model.v_names[i] for i in self.layout.undriven)

    @cached_property
    def limit_names(self) -> tuple[str, ...]:
        """Name of each limit."""
        return row_names(self.model, self.layout, self.limits)

    @property
    def redundancy(self) -> int:
        """Degree of actuation redundancy with all contacts: unknowns less equations (4.14).

        Components that load no joint, such as forces across the plane of a planar robot, do not
        count; constraints of loops that depend on each other do.
        """
        return self.layout.redundancy - unfelt_count(self.model, self.layout)

    @public
    @takes_conditions
    def share(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        vd: ArrayLike | None = None,
        *,
        touching: Touching = None,
        before: LoadShare | ArrayLike | None = None,
        max_step: ArrayLike | Mapping[str, ArrayLike] | None = None,
        failed: Sequence[str] | ArrayLike | None = None,
        sites: Mapping[str, ArrayLike] | None = None,
        errors: Literal["raise", "flag"] = "raise",
        **conditions: Unpack[Conditions],
    ) -> LoadShare:
        """Share the load of a motion.

        Args:
            q: Configuration [m or rad], shape (..., nq).
            v: Joint velocity [m/s or rad/s], shape (..., nv); at rest by default.
            vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); zero by default.
            touching: Whether each contact and loop takes part, in the order of `contact_names`,
                shape (..., contacts); all by default. Contacts alone may be given. Or by name,
                shape (...) each, where others take part; or names of contacts and grips, where
                other contacts and grips do not.
            before: Solution of a similar problem, or its `warm_start`: its forces are those that
                `Smoothness` compares with, and its limits are tried first.
            max_step: Largest change since `before` [N or N m], where the plan has `step_limits`:
                one number for all; one per force or torque in the order of `step_names`, shape
                (..., forces or torques), or (..., 1) for one per case; or by name of a contact, of
                one of its components or of a joint, shape (...), infinite for others. A contact
                that no longer takes part has no force; where it had more than its bound, the status
                is "step exceeded".
            failed: Names of driven joints whose actuators have failed and give no force, and of
                failed thrusters and cables; or 1 for each driven joint that has failed, 0 for the
                others, shape (..., driven joints).
            sites: Points of contact sites by name, in axes of their body [m], shape (..., 3), or
                points and normals, shape (..., 6); others are where the plan has them.
            errors: What motions that are not finite, or whose forces overflow, do: "raise" an
                error, or "flag": their cases have the status "not finite".
            conditions: What acts on the robot, and when: see `Conditions`.
        """
        model, rest = self.model, self._rest
        if self._has_user_code:
            self._check_objective()
        x, last, prefer = self._none
        if before is not None:
            x, last, prefer = self._last(before)
        counts = self._counts
        self._check_bounded(before, max_step)
        # arrays that their caller cannot change; inline, since calls of a helper would take long
        kind = np.ndarray
        motion = (
            q.copy() if type(q) is kind else q,
            rest if v is None else v.copy() if type(v) is kind else v,
            rest if vd is None else vd.copy() if type(vd) is kind else vd,
        )
        if failed is not None:
            touching, failed = self._without_failed(touching, failed)
        usual = touching is None and before is None and max_step is None
        if usual and failed is None and sites is None:
            given = (*motion, *self._usual)
        else:
            given = (
                *motion,
                self._all if touching is None else self._taking_part(touching),
                x,
                last,
                self._no_bounds if max_step is None else self._step_bounds(max_step),
                prefer,
                self._working if failed is None else self._failed(failed),
                self._site_values if sites is None else self._moved_sites(sites),
                *self._constants,
            )
        tracing = current_graph() is not None
        found: Any
        failures: Any = None
        if errors != "raise":
            choice("errors", errors, ("raise", "flag"))
            if tracing:
                raise DomainError("errors", "'raise' in traced functions", shown(errors))
            around: Any = {**self._around(conditions), "errors": errors}
            found, failures = _share.call(model, given, around, self._options)
        elif conditions or tracing:
            found = _share.call(model, given, self._around(conditions), self._options)
            found = tuple(found.values()) if isinstance(found, dict) else found
        else:
            model.check_unchanged()
            found = self._kernel(*given)
        tau, x, forces, friction, torque, bounds = found[:6]
        multipliers, equations, short, status, iterations, slacks = found[6:]
        if not tracing:
            code: Any
            bad: Any
            if failures is None and type(status) is np.float64:
                # functions of NumPy on single values would take as long as the dynamics
                code = int(status)
                some = bad = _BAD_CODES[code]
            else:
                codes = np.asarray(
                    status if failures is None else np.where(failures, NOT_FINITE, status)
                )
                code = codes.astype(np.int64)
                bad = _IS_BAD[code]
                some = bad.any()
            if some:
                bad = np.asarray(bad)
                tau, forces, x, friction, torque, short, slacks = (
                    np.where(bad.reshape(bad.shape + (1,) * (part.ndim - bad.ndim)), np.nan, part)
                    for part in (tau, forces, x, friction, torque, short, slacks)
                )
            status = _STATUS_SCALARS[code] if type(code) is int else _STATUS_NAMES[code]
        if counts.some:
            # kernels return one number where there are none
            batch = tau.shape[:-1]
            forces = forces if counts.points else np.zeros((*batch, 0, 3))
            bounds = bounds if counts.limited else np.zeros((*batch, 0, 2))
            torque = torque[..., : counts.limited]
            multipliers = multipliers[..., : counts.limits]
            slacks = slacks[..., : counts.limits - self._sides]
            equations, short = (part[..., : counts.equations] for part in (equations, short))
        return LoadShare(
            self,
            tau,
            forces,
            x,
            (friction, torque, slacks),
            bounds,
            multipliers,
            equations,
            short,
            status,
            iterations,
            given[:4],
            (*given[4:7], *given[8:10]),
            conditions,
        )

    def _check_bounded(self, before: object, max_step: object) -> None:
        """Refuse bounds of changes where there are none, and their absence where there are."""
        if (max_step is None) != (not self._counts.steps or before is None):
            raise DomainError(
                "max_step",
                "a bound where the plan has step_limits and `before` is given, and only there",
                shown(max_step),
            )

    @property
    def memory(self) -> int:
        """Length of `LoadShare.warm_start`."""
        return sum(map(len, self._none))

    def _last(self, before: LoadShare | ArrayLike) -> tuple[Any, Any, Any]:
        """Return forces, driven joint forces and active limits of the step before."""
        if not isinstance(before, LoadShare):
            return self._remembered(before)
        plan = before.plan
        if plan is not self and plan.names != self.names:
            raise DomainError(
                "before",
                "forces of the same contacts, loops, thrusters and cables",
                f"those of {_listed(plan.contact_names)}",
                advice="pass a solution of this plan, or none",
            )
        tau = before.tau[..., list(self.layout.driven)]
        active = before.multipliers > 0.0
        if plan is not self and plan.limit_names != self.limit_names:
            active = np.zeros((*np.shape(active)[:-1], len(self.limit_names)), dtype=bool)
        if current_graph() is not None:
            return before.x, tau, np.where(active, 1.0, 0.0)
        if self._compares and np.isnan(before.x).any():
            raise self._nothing_before()
        return np.nan_to_num(before.x), np.nan_to_num(tau), active.astype(np.float64)

    def _remembered(self, before: Any) -> tuple[Any, Any, Any]:
        """Return the parts of a `warm_start`."""
        tracing = current_graph() is not None
        given = before if tracing else np.asarray(before, dtype=np.float64)
        if np.shape(given)[-1:] != (self.memory,):
            raise ShapeError("before", f"(..., {self.memory}), a warm_start", np.shape(given))
        if not tracing:
            given = np.nan_to_num(given) if not self._compares else given
            if np.isnan(given).any():
                raise self._nothing_before()
        first, second, _ = (len(part) for part in self._none)
        return given[..., :first], given[..., first : first + second], given[..., first + second :]

    @staticmethod
    def _nothing_before() -> DomainError:
        return DomainError(
            "before",
            "forces to compare with",
            "cases without solution",
            advice="pass the last solution there was, or none",
        )

    @public
    @takes_conditions
    def problem(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        vd: ArrayLike | None = None,
        *,
        touching: Touching = None,
        before: LoadShare | ArrayLike | None = None,
        max_step: ArrayLike | Mapping[str, ArrayLike] | None = None,
        failed: Sequence[str] | ArrayLike | None = None,
        sites: Mapping[str, ArrayLike] | None = None,
        formulation: str = COMPACT,
        **conditions: Unpack[Conditions],
    ) -> "LoadProblem":
        """Return the quadratic program of a motion.

        Args:
            q: Configuration [m or rad], shape (..., nq).
            v: Joint velocity [m/s or rad/s], shape (..., nv); at rest by default.
            vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); zero by default.
            touching: As in `share`.
            before: As in `share`; without it, changes are not bounded.
            max_step: As in `share`.
            failed: As in `share`.
            sites: As in `share`.
            formulation: "compact" for contact and loop forces as unknowns (4.27), "superposition"
                for the efforts of actuators too (4.24), "complete" for all joint wrenches (4.8).
                All have the same optimum, and the same number of unknowns less equations.
            conditions: What acts on the robot, and when: see `Conditions`.
        """
        choice("formulation", formulation, FORMULATIONS)
        self._check_bounded(before, max_step)
        x, last, _ = self._none if before is None else self._last(before)
        rest = np.zeros(self.model.nv)
        if failed is not None:
            touching, failed = self._without_failed(touching, failed)
        motion = (
            q,
            rest if v is None else v,
            rest if vd is None else vd,
            self._all if touching is None else self._taking_part(touching),
        )
        changes = (
            x,
            last,
            self._no_bounds if max_step is None else self._step_bounds(max_step),
            self._working if failed is None else self._failed(failed),
            self._site_values if sites is None else self._moved_sites(sites),
        )
        return self._problem(motion, changes, formulation, conditions)

    def _around(self, conditions: Mapping[str, Any]) -> Any:
        """Return what acts on the robot: the surroundings of the plan, unless others are given."""
        world = conditions.get("world")
        if world is None:
            return {**conditions, "world": self.world}
        if self.candidates and world.ground != self.world.ground:
            raise DomainError(
                "world",
                "the ground of the plan",
                "another ground, or none",
                advice="pass world= to LoadSharing.of, whose contacts touch its ground",
            )
        return conditions

    def _problem(
        self,
        motion: Sequence[Any],
        changes: Sequence[Any],
        formulation: str = COMPACT,
        conditions: Mapping[str, Any] = MappingProxyType({}),
    ) -> "LoadProblem":
        """Return the quadratic program of inputs of the kernel."""
        given = (*motion, *changes[:3], self._none[2], *changes[3:], *self._constants)
        options = (
            *self._options_with(self._objective_form(formulation)),
            ("formulation", formulation),
        )
        if self._has_user_code:
            self._check_objective()
        around = self._around(conditions)
        W, c, A1, b1, A2, b2, mu = _matrices.call(self.model, given, around, options)
        names, equations = formulation_names(formulation, self.model, self.layout)
        names = (*names, *self.objective.auxiliary)
        cones = self._cones
        rows, limits = len(equations), len(self.limit_names) - len(cones)
        mu, A2 = mu[..., : len(cones)], A2[..., :limits, :]
        return LoadProblem(
            self,
            W,
            c,
            A1[..., :rows, :],
            b1[..., :rows],
            LimitMatrix.of(A2, cones, mu) if cones else A2,
            b2[..., :limits],
            mu,
            names,
            equations,
            formulation,
            np.broadcast_to(motion[3], (*np.shape(b1)[:-1], len(self.layout.groups))),
        )

    @public
    @takes_conditions
    def joint_wrenches(self, share: LoadShare, **conditions: Unpack[Conditions]) -> "JointWrenches":
        """Return what each joint of the tree transmits under a shared load (4.29).

        Args:
            share: A load that this plan shared.
            conditions: Other ones than those of the shared load.
        """
        *motion, touching = share.motion
        given = (*motion, *self._unchanged(touching, share.changes[4]))
        around = self._around({**share.conditions, **conditions})
        constant, rows = _wrenches.call(self.model, given, around, self._options)
        joints = tuple(self.model.body(body.name).joint.name for body in self.model.plan.bodies)
        wrenches = constant + np.einsum("...jkc,...k->...jc", rows, np.asarray(share.x))
        return JointWrenches(joints, wrenches, constant, rows)

    def squares(
        self,
        q: Array,
        v: Array,
        vd: Array,
        touching: Touching = None,
        conditions: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[Array, Array]:
        """Return the objective as the least squares of rows x + offsets, half their sum.

        Args:
            q: Configuration [m or rad], shape (..., nq).
            v: Joint velocity [m/s or rad/s], shape (..., nv).
            vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
            touching: As in `share`.
            conditions: What acts on the robot, and when: keywords of `Conditions`.

        Returns:
            Rows, shape (..., squares, unknowns), and offsets, shape (..., squares).
        """
        if self._has_user_code:
            self._check_objective()
        taking = self._all if touching is None else self._taking_part(touching)
        given = (q, v, vd, *self._unchanged(taking, self._site_values))
        around = self._around(conditions)
        rows, offsets = _squares.call(self.model, given, around, self._options)
        return rows, offsets

    def support_rows(self, q: Array, v: Array, vd: Array) -> tuple[Array, Array, Array]:
        """Return wrenches of joints and reactions on the world as rows over the unknowns.

        About the origin of the world and in its axes, moment first.

        Args:
            q: Configuration [m or rad], shape (..., nq).
            v: Joint velocity [m/s or rad/s], shape (..., nv).
            vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).

        Returns:
            Wrench of each joint on its body without the unknowns, shape (..., joints, 6), and per
            unit of each, (..., joints, unknowns, 6); wrench on the world per unit of each unknown
            and the place of its contact or loop, (..., unknowns, 7).
        """
        given = (q, v, vd, *self._usual)
        constant, rows, reactions = _supports.call(
            self.model, given, {"world": self.world}, self._options
        )
        return constant, rows, reactions

    @public
    @takes_conditions
    def check(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        vd: ArrayLike | None = None,
        *,
        touching: Touching = None,
        failed: Sequence[str] | ArrayLike | None = None,
        sites: Mapping[str, ArrayLike] | None = None,
        max_gap: float = MAX_GAP,
        closure: bool = False,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Raise an error, with names, if the robot cannot perform a motion.

        `share` does not check: it computes forces for the motion it is given.

        Args:
            q: Configuration [m or rad], shape (..., nq).
            v: Joint velocity [m/s or rad/s], shape (..., nv); at rest by default.
            vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); zero by default.
            touching: As in `share`.
            failed: As in `share`; failed thrusters and cables drive nothing.
            sites: As in `share`.
            max_gap: Gap up to which a contact touches [m].
            closure: Whether contacts and grips must hold what they touch against any wrench.
            conditions: What acts on the robot, and when: see `Conditions`. Of these the time, at
                which `Driven` joints are somewhere, decides what the robot can do; forces do not.

        Raises:
            LoopError: If loops are open, or the motion opens them.
            DomainError: If a contact does not touch, or there is no force closure where required.
            ModelError: If no actuator drives some degree of freedom.
        """
        bound = positive("max_gap", max_gap, "m")
        model, rest = self.model, np.zeros(self.model.nv)
        if failed is not None:
            touching, failed = self._without_failed(touching, failed)
            self._failed(failed)
        taking = self._all if touching is None else self._taking_part(touching)
        places = self._site_values if sites is None else self._moved_sites(sites)
        given = [
            np.asarray(x, dtype=np.float64)
            for x in (q, rest if v is None else v, rest if vd is None else vd, taking, places)
        ]
        for name, array, size in zip(
            ("q", "v", "vd"), given, (model.nq, model.nv, model.nv), strict=False
        ):
            if array.shape[-1:] != (size,):
                raise ShapeError(name, f"(..., {size})", array.shape)
            if not np.isfinite(array).all():
                raise NonFiniteError(name)
        lead = np.broadcast_shapes(*(x.shape[:-1] for x in given), *_leads(conditions))
        for case in np.ndindex(*lead):
            one = [np.broadcast_to(x, (*lead, x.shape[-1]))[case] for x in given]
            around = self._around(_conditions_of(conditions, lead, case))
            check_motion(self, one[0], one[1], one[2], one[3], bound, one[4], around)
            if closure:
                found = force_closure(self, one[0], one[3], one[4], around)
                if not found.is_closed:
                    why = "no internal force presses all contacts"
                    if found.free:
                        why = f"no force acts on {_listed(found.free)}"
                    groups = zip(self.layout.groups, one[3], strict=True)
                    names = [g.name for g, on in groups if on and g.normal is not None]
                    raise DomainError(
                        "touching",
                        "contacts with force closure",
                        f"{_listed(names)}: {why}",
                        advice="add a contact on the other side, or more friction",
                    )

    @public
    @takes_conditions
    def force_closure(
        self,
        q: ArrayLike,
        *,
        touching: Touching = None,
        sites: Mapping[str, ArrayLike] | None = None,
        **conditions: Unpack[Conditions],
    ) -> "ForceClosure":
        """Return whether contacts and grips can hold what they touch against any wrench.

        Args:
            q: Configuration [m or rad], shape (nq,).
            touching: As in `share`.
            sites: As in `share`.
            conditions: What acts on the robot, and when: see `Conditions`; forces do not count.
        """
        at = np.asarray(q, dtype=np.float64)
        if at.shape != (self.model.nq,):
            raise ShapeError("q", (self.model.nq,), at.shape)
        taking = self._all if touching is None else np.asarray(self._taking_part(touching))
        places = self._site_values if sites is None else self._moved_sites(sites)
        return force_closure(self, at, taking, places, self._around(conditions))

    def with_pyramids(self, sides: int = PYRAMID_SIDES, *, inscribed: bool = True) -> "LoadSharing":
        """Return the same plan with pyramids in place of exact friction cones, if it has these."""
        if self.limits.sides is not None:
            return self
        return replace(self, limits=self.limits.with_pyramids(sides, inscribed=inscribed))

    @property
    def _cones(self) -> tuple[tuple[int, int, int], ...]:
        """Places of two tangents and the normal of each exact friction cone."""
        if self.limits.sides is not None:
            return ()
        normals = [group.normal for group in self.layout.groups if group.normal is not None]
        return tuple((n - 2, n - 1, n) for n in normals)

    def _explained(
        self,
        q: Array,
        v: Array,
        vd: Array,
        touching: Array,
        *changes: Array,
        conditions: Mapping[str, Any],
    ) -> "Infeasibility":
        """Explain why a motion has no solution; `changes` as in `LoadShare`."""
        given = ((q, v, vd, touching), changes, conditions)
        held = self._must_hold(self._problem(given[0], changes, COMPACT, conditions))
        found = contradiction_of(*held.data, *held.friction)
        nearest = shortfall = shift = None
        remedy: list[str] = []
        if not self.limits.relax and len(held.equations):
            nearest, shortfall = self._nearest_motion(*given, 0.0)
            reported = self._nearest_motion(*given, LIMIT_RESERVE)[1]
            reported = shortfall if reported is None else reported
            if reported is not None:
                remedy = [f"or {_changed_text(self.equation_names, -reported)}"]
        if found is None or not found.holds:
            sentence = "; ".join(["infeasible by no more than rounding", *remedy])
            return Infeasibility((), {}, found, nearest, shortfall, sentence)
        involved = held.involved(found)
        lifted = held.lifted(involved)
        parts = [f"infeasible: the motion contradicts {_listed(involved)}"]
        if not involved:
            parts = [f"infeasible: no force that takes part acts on {held.unforced(found)}"]
        parts += [_lifted_text(name, amount) for name, amount in lifted.items()]
        if not self.limits.relax:
            shift = self._base_shift(q, touching, *self._inside(*given, LIMIT_RESERVE))
        if shift is not None:
            toward = self._foot_toward(q, touching, shift)
            # rounded up
            parts.append(f"or shift the base by {103 * np.linalg.norm(shift):.2g} cm {toward}")
        sentence = "; ".join([*parts, *remedy])
        return Infeasibility(involved, lifted, found, nearest, shortfall, sentence, shift)

    def _must_hold(self, problem: "LoadProblem") -> "_HeldLimits":
        """Return the equations and limits of one case that no level of `relax` may violate."""
        A1, b1, A2, b2, mu = (
            np.asarray(x) for x in (problem.A1, problem.b1, problem.A2, problem.b2, problem.mu)
        )
        levels = levels_of(self.model, self.layout, self.limits)
        given_up = {k for level in levels for k in level.equations}
        if any(level.proportional for level in levels):
            given_up = set(range(len(b1)))
        exceeded = {k for level in levels for k in level.limits}
        equations = [k for k in range(len(b1)) if k not in given_up]
        rows = [k for k in range(len(b2)) if k not in exceeded]
        cones = [k for k in range(len(mu)) if len(b2) + k not in exceeded]
        names = self.limit_names
        return _HeldLimits(
            (A1[equations], b1[equations], A2[rows], b2[rows]),
            (tuple(self._cones[k] for k in cones), mu[cones]),
            tuple(self.equation_names[k] for k in equations),
            tuple(names[k] for k in rows),
            tuple(names[len(b2) + k] for k in cones),
        )

    def _nearest_motion(
        self,
        motion: tuple[Array, ...],
        changes: Sequence[Array],
        conditions: Mapping[str, Any],
        reserve: float,
    ) -> tuple[Array | None, Array | None]:
        """Return generalized forces of the nearest possible motion, and what is less in it.

        Accelerations of what nothing drives change, and with them the torques of all joints; the
        least sum of squares of missing generalized forces over apparent masses. Cones count as
        pyramids inside them, and limits keep a reserve.
        """
        inner = self.with_pyramids()
        q, v, _, touching = motion
        A1, b1, A2, b2 = self._inside(motion, changes, conditions, reserve)
        rates = np.concatenate([np.zeros((1, len(v))), np.eye(len(v))[list(self.layout.undriven)]])
        there = inner._problem((q, v, rates, touching), changes, COMPACT, conditions)
        H, moved = (np.asarray(x[1:] - x[:1]).T for x in (there.b1, there.b2))
        masses = np.diag(H)
        inverse: Array = np.linalg.inv(H).astype(np.float64)
        change = least_shift(
            A1,
            b1,
            A2,
            b2,
            np.eye(len(b1)),
            float(np.abs(b1).max()) or 1.0,
            limit_effects=moved @ inverse,
            weights=masses.min() / masses,
        )
        return (None, None) if change is None else (b1 + change, -inverse @ change)

    def _inside(
        self,
        motion: tuple[Array, ...],
        changes: Sequence[Array],
        conditions: Mapping[str, Any],
        share: float,
    ) -> tuple[Array, ...]:
        """Return A1, b1, A2, b2 with pyramids inside cones, and limits with a reserve."""
        here = self.with_pyramids()._problem(motion, changes, COMPACT, conditions)
        A1, b1, A2, b2 = (np.asarray(x) for x in (here.A1, here.b1, here.A2, here.b2))
        reserve = share * float(np.abs(b1).max(initial=0.0))
        return A1, b1, A2, b2 + reserve * np.linalg.norm(A2, axis=1)

    def _base_shift(
        self, q: Array, touching: Array, A1: Array, b1: Array, A2: Array, b2: Array
    ) -> Array | None:
        """Return the least horizontal way of a floating base over its feet that helps [m].

        Forces whose sum the motion determines act on arms that are shorter by the way d: the
        moments about the base change by d x F. Of the mass of legs on the ground, whose feet stay,
        half is taken to move.
        """
        bases = [j for j in self.model.joints if j.kind == "free"]
        if len(bases) != 1 or not any(touching[: self.layout.points]):
            return None
        own = [int(i) for i in self.model.indices([bases[0].name], of="v")]
        undriven = list(self.layout.undriven)
        if any(i not in undriven for i in own):
            return None
        rows = [undriven.index(i) for i in own]
        from tiburon.functions.kinematics import forward_kinematics

        body = next(b.name for b in self.model.bodies if b.joint.name == bases[0].name)
        R = np.asarray(forward_kinematics(self.model, q, body)[0])
        up = -np.asarray(self.world.gravity, dtype=np.float64)
        if not up.any():
            return None
        up /= np.linalg.norm(up)
        first = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
        first /= np.linalg.norm(first)
        level = np.array([first, np.cross(up, first)])
        effects = np.zeros((len(b1), 2))
        carried = (1.0 - 0.5 * self._leg_share(body, touching)) * b1[rows[3:]]
        effects[rows[:3]] = np.array([np.cross(R.T @ e, carried) for e in level]).T
        found = least_shift(A1, b1, A2, b2, effects, 0.1)
        return None if found is None else found @ level

    def _leg_share(self, base: str, touching: Array) -> float:
        """Return the share of the robot's mass between a base and what touches."""
        ends = [x.first.body for x in self.candidates for _ in range(x.point_count)]
        ends += [site.body for site in self.sites]
        parents = {body.name: body.parent for body in self.model.bodies}
        parents |= {frame.name: frame.body for frame in self.model.frames}
        legs: set[str] = set()
        for name, on in zip(ends, touching, strict=False):
            while on and name in parents and name != base:
                legs.add(name)
                name = parents[name]
        masses = {body.name: body.inertia.mass for body in self.model.bodies}
        return sum(masses.get(name, 0.0) for name in legs) / self.model.total_mass

    def _foot_toward(self, q: Array, touching: Array, shift: Array) -> str:
        """Return the contact that lies most in a direction, in words."""
        from tiburon.functions.contact import contacts_among

        names = {group.name for group, on in zip(self.layout.groups, touching, strict=True) if on}
        if self.candidates:
            here = contacts_among(self.model, self.contacts, q)
            points = {
                name: np.asarray(here.point)[k]
                for k, name in enumerate(here.names)
                if name in names
            }
            if points:
                middle = np.mean(list(points.values()), axis=0)
                foot = max(points, key=lambda name: float(points[name] @ shift))
                arm = points[foot] - middle
                # feet in a row have none to their side
                if arm @ shift > LEAST_ALIGNMENT * np.linalg.norm(arm) * np.linalg.norm(shift):
                    return f"toward {foot}"
        return f"along ({', '.join(f'{x:.2g}' for x in shift / np.linalg.norm(shift))})"

    def _without_failed(self, touching: Any, failed: Any) -> tuple[Any, Any]:
        """Return contacts that take part and failed joints: failed thrusters and cables do not."""
        if not _is_names(failed):
            return touching, failed
        drives = {drive.name for drive in drives_of(self.model)}
        names = [failed] if isinstance(failed, str) else list(failed)
        gone = [k for k, name in enumerate(self.contact_names) if name in drives & set(names)]
        joints = [name for name in names if name not in drives]
        if not gone:
            return touching, joints
        if touching is not None:
            touching = self._taking_part(touching)
        if current_graph() is not None and touching is not None:
            given = [touching[..., k] for k in range(len(self.layout.groups))]
            return as_traced([0.0 if k in gone else x for k, x in enumerate(given)]), joints
        taking = np.array(self._all if touching is None else self._taking_part(touching))
        taking[..., gone] = 0.0
        return taking, joints

    def failures(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return places of failed driven joint forces, and of failed thrusters and cables.

        Args:
            names: Of driven joints, thrusters and cables.

        Returns:
            Places in `Layout.driven`, and in `contact_names`.

        Raises:
            UnknownNameError: If there is no such actuator.
            DomainError: If a joint has no torque limits in the plan.
        """
        taking, joints = self._without_failed(None, list(names))
        marks = self._failed(joints)
        idle = [] if taking is None else [k for k, on in enumerate(taking) if not on]
        return [k for k, mark in enumerate(marks) if mark], idle

    def _failed(self, failed: Any) -> Any:
        """Return 1 for each driven joint whose actuator has failed."""
        driven = self.layout.driven
        if current_graph() is not None and not _is_names(failed):
            return failed
        if not _is_names(failed):
            try:
                marks = np.asarray(failed, dtype=np.float64)
            except (TypeError, ValueError):
                raise DomainError(
                    "failed", "names of actuators, or 0 or 1 for each driven joint", shown(failed)
                ) from None
            if marks.shape[-1:] != (len(driven),):
                raise ShapeError(
                    "failed", f"(..., {len(driven)}), one per driven joint", marks.shape
                )
            if not np.all((marks == 0.0) | (marks == 1.0)):
                raise DomainError("failed", "0 or 1 for each driven joint", shown(failed))
        else:
            known = {
                joint.name: [driven.index(i) for i in self.model.indices([joint.name], of="v")]
                for joint in self.model.joints
                if joint.nv and set(self.model.indices([joint.name], of="v")) <= set(driven)
            }
            marks = np.zeros(len(driven))
            for name in (failed,) if isinstance(failed, str) else failed:
                if name not in known:
                    drives = [drive.name for drive in drives_of(self.model)]
                    raise UnknownNameError("actuator", name, [*known, *drives], where="failed")
                marks[known[name]] = 1.0
        for k, index in enumerate(driven):
            if np.any(marks[..., k]) and index not in self.limits.torques:
                raise DomainError(
                    "failed",
                    "joints with torque limits in the plan",
                    f"{self.model.v_names[index]!r} without",
                    advice="give torque_limits={name: (-np.inf, np.inf)} to `LoadSharing.of`",
                )
        return marks

    def _moved_sites(self, sites: Mapping[str, ArrayLike]) -> Any:
        """Return the run-time values of all contact sites, some of them given."""
        known = {site.name: k for k, site in enumerate(self.sites)}
        tracing = current_graph() is not None
        found: list[Any] = list(self._site_values)
        for name, given in sites.items():
            if name not in known:
                raise UnknownNameError("contact site", name, list(known), where="sites")
            value: Any = given if tracing else np.asarray(given, dtype=np.float64)
            size = int(np.shape(value)[-1]) if np.ndim(value) else 0
            if size not in (3, 6):
                raise ShapeError(f"sites: {name!r}", "(..., 3) or (..., 6)", np.shape(value))
            if not tracing and not np.isfinite(value).all():
                raise NonFiniteError(f"sites: {name!r}")
            start = SITE_VALUES * known[name]
            for k in range(size):
                found[start + k] = value[..., k]
        if tracing:
            return as_traced(found)
        return np.stack(np.broadcast_arrays(*found), axis=-1) if found else np.zeros(0)

    def _taking_part(self, touching: Any) -> Any:
        """Return which contacts and loops take part."""
        points, groups = self.layout.points, len(self.layout.groups)
        if isinstance(touching, Mapping) or _is_names(touching):
            touching = self._touching_by_name(touching)
        if current_graph() is not None:
            return touching
        taking = np.array(touching, dtype=np.float64)
        if taking.shape[-1:] == (points,) != (groups,):
            loops = np.ones((*taking.shape[:-1], groups - points))
            taking = np.concatenate([taking, loops], axis=-1)
        if taking.shape[-1:] != (groups,):
            raise ShapeError("touching", f"(..., {groups}), one value per contact", taking.shape)
        if not np.all((taking == 0.0) | (taking == 1.0)):
            raise DomainError("touching", "0 or 1 for each contact", shown(touching))
        return taking

    def _touching_by_name(self, given: Any) -> Any:
        """Return which contacts and loops take part, in order."""
        names = self.contact_names
        marks: list[Any] = [1.0] * len(names)
        if not isinstance(given, Mapping):
            given = dict.fromkeys([given] if isinstance(given, str) else given, 1.0)
            marks = [0.0 if group.normal is not None else 1.0 for group in self.layout.groups]
        for name, value in given.items():
            if name not in names:
                raise UnknownNameError("contact or loop", str(name), names, where="touching")
            marks[names.index(name)] = value
        if current_graph() is not None:
            return as_traced(marks)
        return np.stack(np.broadcast_arrays(*(np.asarray(x, np.float64) for x in marks)), axis=-1)

    @property
    def options(self) -> Options:
        """Compile-time options: all that compiled code depends on beside the robot."""
        return self._options

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: friction, limits, objective, surfaces, passive."""
        return tuple(float(x) for part in self._constants for x in part)

    def structure(self) -> Any:
        """Return what compiled code of controllers depends on, beside the robot."""
        return self._options

    def split_parameters(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return `parameters` by kind: friction, torsion, limits, weights, surfaces, passive."""
        found, start = [], 0
        for part in self._constants:
            found.append(list(values[start : start + len(part)]))
            start += len(part)
        return found

    @cached_property
    def _options(self) -> Options:
        return self._options_with(self._objective_form(COMPACT))

    def _options_with(self, objective: Any) -> Options:
        """Return compile-time options with an objective, its form or the key of user code."""
        return (
            ("candidates", tuple(candidate.form() for candidate in self.candidates)),
            ("layout", self.layout),
            ("grips", tuple(_basis(self.model, grip) for grip in self.grips)),
            ("limits", self.limits.form()),
            ("objective", objective),
            ("sites", tuple(site.form() for site in self.sites)),
            ("drives", tuple(drive.form() for drive in drives_of(self.model))),
            ("passive", self._passive_form),
        )

    def _objective_form(self, formulation: str) -> Any:
        """Return what code depends on of the objective: its form, or the key of user code."""
        if not self._has_user_code:
            return self.objective.form()
        known = self._objective_codes
        if formulation not in known:
            codes = [part for part in parts_of(self.objective) if not is_declared(part)]
            names = ", ".join(type(part).__name__ for part in codes)
            graph = partial(self._objective_graph, formulation)
            known[formulation] = KeyedCode(self.objective, codes, f"objective {names}", graph)
        return known[formulation]

    def _objective_graph(self, formulation: str) -> str:
        """Trace the objective, and return a key of all that it computes."""
        options = (*self._options_with(self.objective), ("formulation", formulation))
        from tiburon.functions.kernel_source import LibrarySource

        source = LibrarySource(self.model, (_squares.name,), self.world, options)
        return f"{program_digest(source.program())} {self.objective.is_definite}"

    @cached_property
    def _has_user_code(self) -> bool:
        """Whether the objective is, or has, one of a class of the user."""
        return not is_declared(self.objective)

    @cached_property
    def _objective_codes(self) -> dict[str, KeyedCode]:
        return {}

    def _check_objective(self) -> None:
        """Raise if an objective of the user is not what it was when the plan was made."""
        self._objective_form(COMPACT)
        for code in self._objective_codes.values():
            code.check_unchanged()
        values = parameters_of(self.objective, self.model)
        if values != tuple(self._constants[3].tolist()):
            raise ModelError(
                f"objective {type(self.objective).__name__}: its parameters differ from those when "
                "the plan was made; make a new plan"
            )

    @cached_property
    def passive_elements(self) -> tuple[Element, ...]:
        """Force elements of the robot's friction and springs, if they are in the equations."""
        return passive_elements(self.model) if self.passive else ()

    @property
    def _passive_form(self) -> PassiveForm:
        elements = self.passive_elements
        return PassiveForm(structure_of(elements), tuple(len(x.parameters()) for x in elements))

    @cached_property
    def _kernel(self) -> Any:
        return _share.kernel(self.model, self.world, self._options)

    @cached_property
    def _sides(self) -> int:
        """Number of all sides of pyramids, which are not rows of the solver."""
        normals = [group for group in self.layout.groups if group.normal is not None]
        return len(normals) * (self.limits.sides or 0)

    @cached_property
    def _counts(self) -> "_Counts":
        layout = self.layout
        numbers = (
            layout.points,
            len(self.limits.torques),
            len(self.limit_names),
            len(layout.undriven),
        )
        return _Counts(*numbers, self.limits.steps is not None, not all(numbers))

    @cached_property
    def _usual(self) -> tuple[Any, ...]:
        """Inputs of the kernel after the motion where nothing else is given."""
        return self._unchanged(self._all, self._site_values)

    def _unchanged(self, touching: Any, sites: Any) -> tuple[Any, ...]:
        """Return inputs of the kernel after the motion, without a step before and failures."""
        x, last, prefer = self._none
        bounds = self._no_bounds
        return (touching, x, last, bounds, prefer, self._working, sites, *self._constants)

    @cached_property
    def _limit_groups(self) -> Any:
        """Place of the contact or loop of each limit, or of one behind the last."""
        places = {name: k for k, name in enumerate(self.contact_names)}
        names = [name.partition(": ")[0] for name in self.limit_names]
        return np.array([places.get(name, len(places)) for name in names], dtype=np.int64)

    @cached_property
    def _compares(self) -> bool:
        """Whether forces of the step before enter the answer, and do not only speed it up."""
        parts = parts_of(self.objective)
        smooth = any(isinstance(part, (Smoothness, TorqueSmoothness)) for part in parts)
        # an objective of the user may compare with them, too
        return smooth or self._has_user_code or self.limits.steps is not None

    @cached_property
    def _rest(self) -> Array:
        return np.zeros(self.model.nv)

    @cached_property
    def _all(self) -> Array:
        return np.ones(len(self.layout.groups))

    @property
    def step_names(self) -> tuple[str, ...]:
        """Name of each force or torque whose change `step_limits` bounds."""
        what = self.limits.steps
        if what is None:
            return ()
        driven = self.layout.driven
        return self.names if what == FORCES else tuple(self.model.v_names[i] for i in driven)

    def _step_bounds(self, given: Any) -> Any:
        """Return the largest change of each force or torque, shape (..., forces or torques)."""
        what, m = self.limits.steps, len(self.step_names)
        tracing = current_graph() is not None
        if isinstance(given, Mapping):
            places = places_of(str(what), self.model, self.layout)
            kind = "contact or force" if what == FORCES else "driven joint"
            check_names(given, places, kind, "max_step")
            rows = [(name, x if tracing else _bound(x)) for name, x in given.items()]
            bounds = spread(rows, places, m, UNBOUNDED)
            return as_traced(bounds) if tracing else np.stack(np.broadcast_arrays(*bounds), -1)
        if tracing:
            sizes = np.shape(given)
            if sizes not in ((), (1,), (m,)):
                raise ShapeError("max_step", f"() or ({m},), as plan.step_names lists", sizes)
            return given if sizes == (m,) else as_traced([np.ravel(given)[0]] * m)
        found = _bound(given)
        if found.ndim and found.shape[-1] not in (1, m):
            raise ShapeError(
                "max_step",
                f"(), (..., {m}) in the order of plan.step_names or (..., 1)",
                found.shape,
                advice="one bound per case has shape (cases, 1)",
            )
        return np.broadcast_to(found, (*found.shape[:-1], m))

    @cached_property
    def _no_bounds(self) -> Array:
        return np.full(len(self.step_names), UNBOUNDED)

    @cached_property
    def _working(self) -> Array:
        return np.zeros(len(self.layout.driven))

    @cached_property
    def _site_values(self) -> Array:
        return np.array([x for site in self.sites for x in site.values])

    @cached_property
    def _none(self) -> tuple[Array, Array, Array]:
        sizes = (self.layout.size, len(self.layout.driven), len(self.limit_names))
        return np.zeros(sizes[0]), np.zeros(sizes[1]), np.zeros(sizes[2])

    @cached_property
    def _constants(self) -> tuple[Array, ...]:
        """Run-time parameters that do not change from call to call."""
        torsion = {grip.loop: grip.torsion for grip in self.grips}
        torsion |= {site.name: site.torsion for site in self.sites}
        return (
            np.array(self.friction),
            np.array([torsion.get(group.name, 0.0) for group in self.layout.groups]),
            np.array(self.limits.parameters(self.model, self.layout)),
            np.array(parameters_of(self.objective, self.model)),
            np.array(numbers_of(self.contacts)),
            np.array([x for element in self.passive_elements for x in element.parameters()]),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what is made on first use."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class LoadProblem(NamedTuple):
    """A load-sharing problem: minimize c^T x + x^T W x / 2 with A1 x = b1 and A2 x >= b2.

    Friction cones are further limits where the plan has no pyramids.
    """

    plan: LoadSharing
    """Whose problem it is; names the limits (`limit_names`)."""

    W: Array
    """Quadratic term, shape (..., unknowns, unknowns)."""

    c: Array
    """Linear term, shape (..., unknowns)."""

    A1: Array
    """Equations, shape (..., equations, unknowns)."""

    b1: Array
    """Generalized forces that the motion needs [N or N m], shape (..., equations)."""

    A2: Array
    """Limits, shape (..., limits, unknowns); where the plan has exact friction cones, they carry
    these."""

    b2: Array
    """Their right-hand sides, shape (..., limits)."""

    mu: Array
    """Coefficients of exact friction cones, shape (..., cones)."""

    names: tuple[str, ...]
    """Name of each unknown; the first are those of the plan."""

    equation_names: tuple[str, ...]
    """Name of each equation."""

    formulation: str
    """"compact", "superposition" or "complete"."""

    touching: Array
    """1 for each contact, loop, thruster and cable that takes part, in the order of
    `plan.contact_names`, shape (..., contacts)."""

    @property
    def redundancy(self) -> int:
        """Unknowns less equations: the same in all formulations (4.14), (4.26), (4.28).

        Unlike `LoadSharing.redundancy` it counts forces of contacts that load no joint.
        """
        own = len(self.plan.objective.auxiliary)
        return len(self.names) - own - len(self.equation_names)

    def programs(self) -> ForcePrograms:
        """Return the problems of a batch of consecutive states, for `smoothed_forces`.

        With exact friction cones and the contacts that are open. Where torques are to be kept
        continuous, `tiburon.load_sharing.shock.torque_programs` takes the superposition
        formulation.
        """
        if np.ndim(self.b1) != 2:
            raise ShapeError("problem", "that of (times,) states", f"shape {np.shape(self.b1)}")
        names = self.names
        active = np.ones((len(self.b1), len(names)))
        for k, group in enumerate(self.plan.layout.groups):
            active[:, group.places] = self.touching[:, k, None]
        parts = self.W, self.c, self.A1, self.b1, np.asarray(self.A2), self.b2
        return ForcePrograms(*parts, names=names, cones=self.plan._cones, mu=self.mu, active=active)

    def solve(self) -> QPSolution:
        """Return the optimum of one case, with multipliers.

        Where the objective leaves unknowns open that the equations determine, their residuals are
        added to it, which changes nothing on the solutions.
        """
        if np.ndim(self.b1) != 1:
            raise ShapeError("problem", "that of one case", f"shape {np.shape(self.b1)} of b1")
        W, c = self.W, self.c
        if self.formulation != COMPACT:
            W, c = completed_objective(W, c, self.A1, self.b1)
        return solve_qp(
            W, c, self.A1, self.b1, self.A2, self.b2, cones=self.plan._cones, mu=self.mu
        )

    def solve_linear(
        self, objective: "LinearObjective", *, form: str = "compact dual"
    ) -> "LinearSolution":
        """Return an optimum of one case under a linear objective; of several, one.

        Needs SciPy, and friction as pyramids (`sides`).

        Args:
            objective: What to minimize, from `tiburon.load_sharing.linear_program`.
            form: "original", "compact primal" or "compact dual" (5.26), (5.22), (5.23).
        """
        from tiburon.load_sharing.elimination import null_basis
        from tiburon.load_sharing.linear_program import (
            FORMS,
            LinearData,
            LinearObjective,
            LinearSolution,
            solve_linear,
        )

        choice("form", form, FORMS)
        if not isinstance(objective, LinearObjective):
            raise ModelError(
                f"objective: expected a linear objective such as SumOfNormals(), got "
                f"{shown(objective)}; see tiburon.load_sharing.linear_program"
            )
        if np.ndim(self.b1) != 1:
            raise ShapeError("problem", "that of one case", f"shape {np.shape(self.b1)} of b1")
        if self.plan._cones:
            raise ModelError(
                "linear programs: expected friction pyramids, got exact cones; pass sides= to "
                "LoadSharing.of"
            )
        # nothing determines forces that enter no equation: those of contacts that do not touch
        n = len(self.plan.names)
        kept = [k for k in range(len(self.names)) if k >= n or self.A1[:, k].any()]
        rows = [k for k, row in enumerate(self.A2) if row[kept].any() or self.b2[k] > 0.0]
        place = {k: i for i, k in enumerate(kept)}
        groups = [group for group in self.plan.layout.groups if group.normal in place]
        data = LinearData(
            self.A1[:, kept],
            self.b1,
            self.A2[np.ix_(rows, kept)],
            self.b2[rows],
            tuple(place[group.normal] for group in groups if group.normal is not None),
            tuple(i for i, k in enumerate(rows) if ": friction" in self.plan.limit_names[k]),
            tuple(
                place[k]
                for group in groups
                if group.normal is not None
                for k in (group.normal - 2, group.normal - 1)
            ),
            tuple(place[k] for k, name in enumerate(self.names) if name.endswith(": effort")),
        )
        try:
            null_basis(data.A1, data.b1)
        except DomainError:
            # equations that contradict each other have no solution in any form
            nothing = np.full(len(self.b2), np.nan)
            x = np.full(len(self.names), np.nan)
            return LinearSolution(x, float("nan"), nothing, "infeasible", (0, 0, 0))
        found = solve_linear(objective.program(data), form)
        x = np.full(len(self.names), np.nan if found.status != "optimal" else 0.0)
        x[kept] = found.x[: len(kept)]
        multipliers = np.zeros(len(self.b2))
        multipliers[rows] = found.multipliers[: len(rows)]
        return found._replace(x=x, multipliers=multipliers)


class JointWrenches(NamedTuple):
    """What joints transmit to their bodies, about the bodies' origins in world axes [N m, N]."""

    joints: tuple[str, ...]
    """Names of the joints."""

    wrenches: Array
    """Moment and force on the body of each joint, shape (..., joints, 6)."""

    constant: Array
    """Their part without the unknown forces, shape (..., joints, 6)."""

    rows: Array
    """Wrench per unit of each unknown, shape (..., joints, unknowns, 6)."""

    def of(self, joint: str) -> Array:
        """Return the wrench of one joint, shape (..., 6)."""
        if joint not in self.joints:
            raise UnknownNameError("joint", joint, list(self.joints))
        return self.wrenches[..., self.joints.index(joint), :]


class _HeldLimits(NamedTuple):
    """Equations and limits of one case, and their names."""

    data: tuple[Array, Array, Array, Array]
    """A1, b1, A2, b2."""

    friction: tuple[tuple[tuple[int, int, int], ...], Array]
    """Places of exact friction cones, and their coefficients."""

    equations: tuple[str, ...]
    rows: tuple[str, ...]
    """Names of A2 x >= b2."""

    cones: tuple[str, ...]

    def involved(self, found: Contradiction) -> tuple[str, ...]:
        """Return the limits that contradict the motion; friction once per contact."""
        sizes = np.abs(found.z).max(axis=-1, initial=0.0)
        active = [
            name for name, y in zip(self.rows, found.y2, strict=True) if y > ACTIVE_MULTIPLIER
        ]
        active += [name for name, z in zip(self.cones, sizes, strict=True) if z > ACTIVE_MULTIPLIER]
        return tuple(dict.fromkeys(_limit_name(name) for name in active))

    def lifted(self, involved: Sequence[str]) -> dict[str, float]:
        """Return limits any one of which would help if lifted, and by how much it is exceeded.

        Friction is what a contact lacks where more of it would suffice; a pull is named where it
        would not.
        """
        found: dict[str, float] = {}
        for name in involved:
            element, _, limit = name.partition(": ")
            contact = limit in ("friction", "pushes")
            names = [f"{element}: {x}" for x in ("friction", "pushes")] if contact else [name]
            for one in names:
                amount = found[one] if one in found else self._excess(one)
                if amount is not None and amount > (LEAST_PULL if contact else 0.0):
                    found[one] = amount
                    break
        return found

    def _excess(self, lifted: str) -> float | None:
        """Return by how much a limit must be exceeded at least; None if that does not suffice."""
        element, _, limit = lifted.partition(": ")
        rows = [k for k, name in enumerate(self.rows) if _limit_name(name) == lifted]
        round_ = [k for k, name in enumerate(self.cones) if _limit_name(name) == lifted]
        if not rows and not round_:
            return None
        # a contact that pulls has no friction limit
        gone = tuple(f"{element}: {x}" for x in PUSHING_LIMITS) if limit == "pushes" else ()
        others = [k for k, name in enumerate(self.rows) if not gone or not name.startswith(gone)]
        kept = [k for k, name in enumerate(self.cones) if not gone or not name.startswith(gone)]
        A1, b1, A2, b2 = self.data
        cones, mu = self.friction
        which = Lifted([others.index(k) for k in rows], [kept.index(k) for k in round_])
        return least_excess(
            A1, b1, A2[others], b2[others], which, [cones[k] for k in kept], mu[kept]
        )

    def unforced(self, found: Contradiction) -> str:
        """Describe what no force acts on: equations, or a combination of them."""
        A1 = self.data[0]
        largest = float(np.abs(found.y1).max(initial=0.0))
        factors = {
            name: float(y) / largest
            for name, y in zip(self.equations, found.y1, strict=True)
            if abs(y) > ACTIVE_MULTIPLIER * largest
        }
        names = list(factors) if A1.any() else list(self.equations)
        if any(A1[self.equations.index(name)].any() for name in names):
            # forces act on these, but not in all proportions
            return "the combination " + " ".join(
                f"{'-' if x < 0.0 else '+'} {abs(x):.3g} {name}" for name, x in factors.items()
            ).removeprefix("+ ")
        return _listed(names)


class Infeasibility(NamedTuple):
    """Why a load cannot be shared."""

    limits: tuple[str, ...]
    """Names of the limits that contradict the motion."""

    lifted: dict[str, float]
    """Limits any one of which, if lifted, lets the load be shared, and by how much it is then
    exceeded at least [N or N m]."""

    certificate: Contradiction | None
    """Factors of equations and limits that prove it (Farkas)."""

    nearest: Array | None
    """Generalized forces of the nearest motion that can be produced [N or N m]; None if the limits
    contradict each other."""

    shortfall: Array | None
    """Acceleration of the motion less that of the nearest one, for the variables that nothing
    drives [m/s^2 or rad/s^2]."""

    sentence: str
    """All of this in words."""

    shift: Array | None = None
    """Least horizontal way of a floating base over its feet that makes the motion possible, world
    axes [m]; None if there is none, or no such base."""


def _conditions_of(
    conditions: Mapping[str, Any], shape: tuple[int, ...], place: tuple[int, ...]
) -> dict[str, Any]:
    """Return what acts on the robot in one case of a batch of a shape."""

    def one(x: Any, *row: int) -> Any:
        return np.broadcast_to(np.asarray(x, dtype=np.float64), (*shape, *row))[place]

    found = dict(conditions)
    if found.get("time") is not None:
        found["time"] = one(found["time"])
    for name, row in (("external_force", (6,)), ("external_inertia", (6, 6))):
        if found.get(name) is not None:
            found[name] = {body: one(x, *row) for body, x in found[name].items()}
    if isinstance(found.get("fluid"), (list, tuple)) and place:
        found["fluid"] = found["fluid"][place[-1]]
    return found


def _leads(conditions: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Return the leading dimensions of what acts on the robot."""
    time = conditions.get("time")
    found = [() if time is None else np.shape(time)]
    for name, row in (("external_force", 1), ("external_inertia", 2)):
        for x in (conditions.get(name) or {}).values():
            found.append(np.shape(x)[: np.ndim(x) - row])
    fluid = conditions.get("fluid")
    return [*found, (len(fluid),)] if isinstance(fluid, (list, tuple)) else found


def _bound(given: Any) -> Array:
    """Return largest changes that are above zero; finite numbers for infinite ones."""
    refuse_unusable("max_step", given)
    found = np.asarray(given, dtype=np.float64)
    if not np.all(found > 0.0):
        raise DomainError(
            "max_step",
            "a bound above 0 N or N m",
            shown(given),
            advice="forces could not follow the motion",
        )
    return np.minimum(found, UNBOUNDED)


def _listed(names: Sequence[str]) -> str:
    shown_names = list(names[:4]) + ([f"{len(names) - 4} more"] if len(names) > 4 else [])
    return ", ".join(shown_names) or "itself"


def _active_text(name: str) -> str:
    """Describe which limit an element is at."""
    element, _, limit = name.partition(": ")
    first = limit.partition(" ")[0]
    words = {
        "friction": "at its friction limit",
        "torsion": "at its torsion limit",
        "pushes": "about to lift off",
        "center": f"with its {limit}",
        "rises": "rises by the largest step",
        "falls": "falls by the largest step",
    }
    if limit in ("least force", "largest force"):
        return f"{element} at its torque limit"
    return f"{element} {words.get(first, f'at its {limit}')}"


def _changed_text(names: Sequence[str], changes: Array) -> str:
    """Describe how accelerations change to those of the nearest possible motion."""
    least = 1e-3 * float(np.abs(changes).max(initial=0.0))
    parts = [f"{name} by {x:.4g}" for name, x in zip(names, changes, strict=True) if abs(x) > least]
    return f"change the acceleration of {', '.join(parts)} (the nearest possible motion)"


def _limit_name(name: str) -> str:
    """Return the name of a limit, that of friction for sides of pyramids and for cones."""
    element, _, limit = name.partition(": ")
    return f"{element}: friction" if limit.startswith("friction") else name


def _lifted_text(name: str, amount: float) -> str:
    """Describe what lifting one limit means."""
    element, _, limit = name.partition(": ")
    if limit == "pushes":
        return f"{element} would have to pull with {amount:.3g} N"
    if limit.startswith("friction"):
        return f"{element} would need {amount:.3g} N more friction"
    if limit.startswith("torsion"):
        return f"{element} would need {amount:.3g} N m more torsional friction"
    if limit in ("falls", "rises"):
        return f"{element} would have to change by {amount:.3g} N (or N m) more than its step bound"
    return f"{element} would need {amount:.3g} N m (or N) beyond its limit"


@public
def share_load(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vd: ArrayLike | None = None,
    *,
    touching: Touching = None,
    failed: Sequence[str] | ArrayLike | None = None,
    check: bool = True,
    **options: Any,
) -> LoadShare:
    """Share the load of a motion among contacts and loops, in one call.

    Args:
        model: The robot.
        q: Configuration [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv); at rest by default.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); zero by default.
        touching: As in `LoadSharing.share`.
        failed: As in `LoadSharing.share`.
        check: Whether to refuse motions that the robot cannot have, as `LoadSharing.check` does.
        options: Those of `LoadSharing.of`, and what acts on the robot, and when: see `Conditions`.

    Example:
        ``tb.share_load(dog, q, friction=0.6).tau``
    """
    names = Conditions.__annotations__.keys() - {"world"}
    conditions: Any = {name: options.pop(name) for name in names & options.keys()}
    plan = LoadSharing.of(model, **options)
    if check and not plan.limits.relax:
        plan.check(q, v, vd, touching=touching, failed=failed, **conditions)
    return plan.share(q, v, vd, touching=touching, failed=failed, **conditions)


def _with_levels(model: Model, layout: Layout, parts: tuple[Limit, ...], relax: Any) -> Limits:
    """Return limits with what may be violated, or raise if names do not fit."""
    if isinstance(relax, (bool, np.bool_)):
        return Limits(parts, ((MOTION,),) if relax else ())
    if isinstance(relax, str) and relax == DIRECTION:
        relax = [[DIRECTION]]
    if not isinstance(relax, (tuple, list)) or not all(
        isinstance(level, (tuple, list)) and level and all(isinstance(x, str) for x in level)
        for level in relax
    ):
        raise DomainError(
            "relax",
            "True, False, 'direction' or lists of names",
            shown(relax),
            advice="write [['motion'], ['front_left_knee']]",
        )
    limits = Limits(parts, tuple(tuple(level) for level in relax))
    equations = [model.v_names[i] for i in layout.undriven]
    rows = row_names(model, layout, limits)
    elements = list(dict.fromkeys(name.partition(": ")[0] for name in rows))
    named = [name for level in limits.relax for name in level]
    for name in named:
        if name not in (MOTION, DIRECTION, *equations, *elements, *rows):
            known = [MOTION, DIRECTION, *equations, *elements, *rows]
            raise UnknownNameError("equation or limit", name, known, where="relax")
        if named.count(name) > 1:
            raise DomainError("relax", "each name once", f"{name!r} twice")
    if DIRECTION in named and any(name in (MOTION, *equations) for name in named):
        raise DomainError(
            "relax", "'direction' or names of equations", "both", advice="leave one of them out"
        )
    return limits


def _contacts_of(model: Model, world: World, pairs: Pairs | None) -> tuple[Candidate, ...]:
    """Return the contacts that carry load: those of contact points with the ground, or as named.

    Balls stand on uneven ground in one point, their nearest: which of up to three triangles a ball
    touches changes from step to step.
    """
    if pairs is not None or (world.ground is not None and model.contacts):
        refuse_prescribed(model, "load sharing among contacts")
    if pairs is not None:
        return tuple(candidate.as_foot() for candidate in candidates_of(model, world, pairs))
    if world.ground is None or not model.contacts:
        return ()
    bodies = dict.fromkeys(point.body for point in model.contacts)
    found = candidates_of(model, world, [(body, WORLD) for body in bodies])
    names = {point.name for point in model.contacts}
    return tuple(candidate.as_foot() for candidate in found if candidate.name in names)


def _default_world(model: Model) -> World:
    from tiburon.model import Ground

    return World(ground=Ground()) if model.contacts else DEFAULT_WORLD


def _refuse_cylinders(model: Model, driven: Sequence[int]) -> None:
    """Refuse cylinders at joints that nothing else drives: their forces would be missing there."""
    plan = model.plan
    for cylinder in model.cylinders:
        moved = [] if cylinder.joint is None else [(cylinder.joint, _places(model, cylinder.joint))]
        if cylinder.first is not None and cylinder.second is not None:
            ends = [plan.frame(name).body for name in (cylinder.first, cylinder.second)]
            between = ancestors(plan, ends[0]) ^ ancestors(plan, ends[1])
            bodies = [plan.bodies[k] for k in sorted(between)]
            moved = [(x.name, list(range(x.v.start, x.v.stop))) for x in bodies]
        for name, variables in moved:
            if not set(variables) <= set(driven):
                raise ModelError(
                    f"cylinder {cylinder.name!r}: moves {name!r}, which nothing drives; load "
                    "sharing does not know forces of cylinders: name its joint in driven=[...], so "
                    "that its force is shared",
                    name=cylinder.name,
                )


def _is_names(failed: Any) -> bool:
    """Return whether names were given, and not numbers."""
    if isinstance(failed, str):
        return True
    return isinstance(failed, (tuple, list, set, frozenset)) and all(
        isinstance(name, str) for name in failed
    )


def _sites_of(model: Model, sites: Sequence[ContactSite]) -> tuple[ContactSite, ...]:
    """Return the contact sites, or raise if they do not fit the robot."""
    known = model.frame_names
    for site in sites:
        given: object = site
        if not isinstance(given, ContactSite):
            raise ModelError(f"sites: expected ContactSite(...), got {shown(given)}")
        for name in (site.body, site.other):
            if name not in known:
                raise UnknownNameError(
                    "body or frame", name, known, where=f"contact site {site.name!r}"
                )
    return tuple(sites)


def _further_limits(model: Model, layout: Layout, limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Return limits that fit the robot."""
    for limit in limits:
        if not isinstance(limit, Limit) or not is_declared(limit):  # type: ignore[redundant-expr]
            raise ModelError(
                f"limits: expected limits such as NormalForceLimit({{...}}), got {shown(limit)}"
            )
        limit.check(model, layout)
    return tuple(limits)


def _driven_names(model: Model, driven: Sequence[str] | None, drives: bool) -> list[str]:
    """Return the names of driven joints; thrusters and cables may drive a robot alone."""
    if driven is None:
        found = [actuator.joint for actuator in model.actuators]
        if not found and not drives:
            raise ModelError(
                f"model {model.name!r}: expected driven joints, got no actuators; pass "
                "driven=[...] with the names of the joints"
            )
        names = list(dict.fromkeys(found))
    else:
        names = list(driven)
    known = {joint.name: joint for joint in model.joints}
    for name in names:
        if name not in known:
            raise UnknownNameError("joint", name, list(known))
        if names.count(name) > 1:
            raise DomainError("driven", "each joint once", f"{name!r} twice")
        leader = known[name].follows
        if leader is not None:
            raise ModelError(
                f"joint {name!r}: expected driven joints that move by themselves, got one that "
                f"follows {leader!r}; name that in driven=[...], and give the limits of its force "
                "in torque_limits={...}",
                name=name,
            )
    return names


def _bounds(
    model: Model, names: Sequence[str], given: bool | Mapping[str, tuple[float, float]]
) -> tuple[DrivenJoint, ...]:
    """Return the limits of driven joint forces."""
    if isinstance(given, Mapping):
        found: list[DrivenJoint] = []
        for name, pair in given.items():
            if name not in names:
                raise UnknownNameError("driven joint", name, list(names))
            low, high = bounds_of(f"torque limits of {name!r}", pair)
            found += [DrivenJoint(i, low, high) for i in _places(model, name)]
        return tuple(found)
    if not isinstance(given, (bool, np.bool_)):
        raise DomainError("torque_limits", "True, False or limits by joint name", shown(given))
    own = [joint for name in names for joint in _own_bounds(model, name)] if given else []
    return tuple(joint for joint in own if joint.is_limited)


def _own_bounds(model: Model, name: str) -> list[DrivenJoint]:
    """Return the limits of a driven joint: those of its actuator and its own limits of force."""
    joint, places = model.joint(name), _places(model, name)
    own = [actuator for actuator in model.actuators if actuator.joint == name]
    found = [DrivenJoint(i, -np.inf, np.inf) for i in places]
    for actuator in own:
        found = [DrivenJoint.of(i, actuator) for i in places]
        if len(own) > 1 and any(one.is_limited for one in found):
            raise ModelError(
                f"joint {name!r}: expected one actuator with limits, got {len(own)} actuators; "
                "give torque_limits={...} by joint",
                name=name,
            )
    efforts = (np.inf,) * len(places)
    if joint.limits is not None:
        efforts = per_degree_of_freedom(joint.limits.force, joint)
    if not all(efforts):
        raise ModelError(
            f"joint {name!r}: has a force limit of 0 and is driven; robot files write 0 where it "
            "is not known: give torque_limits={...} by joint, or torque_limits=False for none",
            name=name,
        )
    return [one.within(most) for one, most in zip(found, efforts, strict=True)]


def _places(model: Model, joint: str) -> list[int]:
    """Return the velocity variables of a joint."""
    return [int(i) for i in model.indices([joint], of="v")]


def _friction(
    layout: Layout,
    grips: Sequence[GripLimit],
    sites: Sequence[ContactSite],
    given: float | Mapping[str, float] | None,
) -> tuple[float, ...]:
    """Return the coefficient of each group; -1 for that of the surfaces."""
    found = {group.name: -1.0 for group in layout.groups if group.normal is not None}
    found |= {grip.loop: grip.friction for grip in grips}
    found |= {site.name: site.friction for site in sites}
    points: Sequence[Group] = layout.groups[: layout.points]
    if given is not None:
        if not found:
            raise DomainError(
                "friction",
                "contacts, sites or grips that it belongs to",
                "none in the plan",
                advice="leave it out, or pass grips=[GripLimit(...)] for loops",
            )
        by_name: Mapping[str, Any] = (
            given if isinstance(given, Mapping) else {group.name: given for group in points}
        )
        for name, value in by_name.items():
            if name not in found:
                raise UnknownNameError("contact", name, list(found))
            expected = expected_friction(value)
            if expected is not None:
                raise DomainError(f"friction of {name!r}", expected, shown(value))
            found[name] = float(value)
    return tuple(found.get(group.name, -1.0) for group in layout.groups)


def _basis(model: Model, grip: GripLimit) -> Grip:
    """Return a grip with two tangents and its normal."""
    loops = {loop.name: loop for loop in model.loops}
    loop = loops.get(grip.loop)
    if loop is None:
        raise UnknownNameError("loop", grip.loop, list(loops))
    measures = loop.joint.loop_constraints() if isinstance(loop, LoopClosure) else ()
    if sum(isinstance(one, Offset) for one in measures[:3]) < 3:
        raise ModelError(
            f"grip {grip.loop!r}: expected a loop whose joint holds three translations, such as "
            "Spherical, got another; leave the grip out",
            name=grip.loop,
        )
    axes = np.array([one.axis for one in measures[:3] if isinstance(one, Offset)])
    n = np.array(grip.normal)
    t = np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
    t /= np.linalg.norm(t)
    rows = np.array([t, np.cross(n, t), n]) @ axes.T
    return Grip(grip.loop, tuple((float(a), float(b), float(c)) for a, b, c in rows))


def _check_torsion(model: Model, layout: Layout, grips: Sequence[GripLimit]) -> None:
    """Refuse torsion of grips whose loop does not hold the rotation about the normal alone."""
    loops = {loop.name: loop for loop in model.loops if isinstance(loop, LoopClosure)}
    groups = {group.name: group for group in layout.groups}
    for grip in grips:
        measures = [loops[grip.loop].joint.loop_constraints()[k] for k in groups[grip.loop].rows]
        closed = RelativeMotion(IDENTITY3, ZERO3)
        about = [np.array(measure.wrench(closed).n, dtype=np.float64) for measure in measures[3:]]
        turned = [float(np.linalg.norm(np.cross(n, grip.normal))) for n in about]
        if len(about) > 1 or any(sine > 1e-6 for sine in turned):
            raise ModelError(
                f"grip {grip.loop!r}: expected a loop that holds no rotation but that about the "
                f"normal, got {len(about)} moments, not about it; close it by Spherical, or by "
                "Universal with both axes across the normal",
                name=grip.loop,
            )
        if grip.torsion and not about:
            raise ModelError(
                f"grip {grip.loop!r}: torsion of {grip.torsion:g} m needs a loop that holds the "
                "rotation about the normal, got none; close it by Universal with both axes across "
                "the normal, or leave torsion out",
                name=grip.loop,
            )
