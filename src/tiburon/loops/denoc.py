"""A platform on legs by the decoupled natural orthogonal complement (DeNOC; Khan 2002, chapter 3).

Each leg projects out what its passive joints can do, from the platform to the base:

    p~ = Phi p,     Phi <- Phi - p~ p~^T / (p~ . p~)                    (3.4)-(3.9), C7

so that Phi xi = Phi (S_a x_a - b) holds for the twist xi of the platform, whatever they do. The sum
over all legs determines xi from the motors (3.10), (3.28), and back substitution in each leg the
passive joints (3.11)-(3.13):

    K xi = sum_j lambda_j Phi_j (S_a x_a - b)_j,     K = sum_j lambda_j Phi_j

K is singular exactly where the motors do not hold the platform. Weights lambda change nothing in
this; they share the load of the platform where motors are redundant, since the platform is cut into
one piece per leg (L633-638, L909-911): where all joints of a leg are driven, it carries its piece.

Inverse dynamics projects the joint forces of all legs and the wrench of the platform on the motors
(3.40). Forward dynamics forms the inertia seen by the motors, a sum over legs (3.41)-(3.45), and
eliminates from the last motor to the first (3.46)-(3.48).

Differences from the source. Twists are taken at one point fixed to the base, in its axes, so that
the propagation matrices B are unity and rates of p and B need no terms of their own; accelerations
are xi plus biases of the loops. Legs are spatial or planar, with joints of any kind, cut anywhere:
where a leg is cut at a joint without variables, its Phi starts as the projector on the directions
which that joint resists, W^+ W, instead of unity. Motors may be anywhere in a leg, several or none.

Moving bases. The joints that carry the base are independent. They move legs and platform as one
body: xi is the twist relative to the base, and the equations of motion have that of the base, too.

Choice of the independent joints. Independent velocities are z = U^T x in each leg, with columns U
of unit vectors. They are constant for the motors. Where motors do not hold the platform, U is an
argument (`Selected`), one for each state, and all joints of a leg are passive in turn, with a mark
m of 0 or 1: Phi <- Phi - m p~ p~^T / (p~ . p~).

What a leg computes alone, sends and receives is a round of `parts`.

Symbols (Khan 2002, chapter 3):
    p, S        screws of a joint, of all joints of a leg; d components
    Phi, P      projector of a leg; rates of its passive joints by twist
    xi, x       twist of the platform relative to the base or its rate; rates of joints
    N           rates of all joints by independent ones (J in the source)
    W, b        constraint wrenches of the joint that cuts a leg, its bias
    U, m        independent joints of a leg by column, marks of dependent ones
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_places, world_from_robot
from tiburon.algorithms.rnea import rnea, transmitted
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.algorithms.traversal import ancestors
from tiburon.loops.constraints import (
    Constraints,
    closure_values,
    end_of,
    jacobian_pattern,
    loop_joint_load,
    loop_rows,
)
from tiburon.loops.legs import Leg, PlatformOnLegs, platform_on_legs, selectable_legs
from tiburon.loops.metric import ConstrainedMotion, max_abs, rank_cut, scattered
from tiburon.loops.parts import (
    Exchanged,
    Outcome,
    PartMethod,
    Round,
    ordered_sum,
    part_function,
    run,
)
from tiburon.loops.star import part_of
from tiburon.model import LoopClosure, Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import matrix_product, subtract, transpose, transpose_vector
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.free_columns import free_columns
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.regions import where_needed
from tiburon.trace.value import require

MIN_SQUARE = 1e-16
"""Squared length of a passive screw, projected, relative to its own, below which other joints of
the leg make the same motion: it is not determined."""

DOUBTFUL_RATIO = 1e-6
"""Relative pivot of K, and squared length of a passive screw, below which other joints are selected
in place of the motors: half of the digits may be lost."""

VIOLATION_FRACTION = 1e-6
"""Largest relative violation of J vd + bias = 0 by a motion."""

MIN_RATIO = 1e-12
"""Relative pivot of K below which motors do not hold the platform; it has the squares of the
angles between legs."""

RELATIVE_SHIFT = 2.0**-46
"""Added to the diagonal of K, relative to itself: rounding error makes no pivot negative."""

WRENCH_CUT = 1e-8
"""Relative length below which a constraint wrench of a joint is redundant within a leg."""

MAX_INLINED = 12
"""Motors up to which the reverse elimination is straight-line code."""

MAX_INLINED_VARIABLES = 12
"""Velocity variables up to which the functions of legs are inlined."""

Vector = Scalars
Matrix = Sequence[Scalars]


class Part(NamedTuple):
    """Bodies of a leg or of the center, with those that carry the platform, in given surroundings.

    Bodies that carry the platform and belong to others have no inertia in it.
    """

    plan: Plan
    platform: int
    """Body of the platform in this plan."""

    basis: tuple[tuple[float, ...], ...]
    point: tuple[float, float, float]
    """See `PlatformOnLegs`."""

    gravity: Vec3
    external: Sequence[Force] | None
    q: tuple[int, ...]
    """Position variables of the plan in the robot's."""

    v: tuple[int, ...]
    """Velocity variables of the plan in the robot's."""

    base: int
    """Body of the base in this plan, or the world."""

    moving: tuple[int, ...]
    """Velocity variables of the base in this plan."""


class LegPart(NamedTuple):
    """What is fixed about a leg while a kernel is traced."""

    leg: Leg
    part: Part
    variables: tuple[int, ...]
    """Variables of the leg in its plan, in the order of `Leg.variables`, then those of the base."""

    near: int
    far: int
    """See `Leg`; bodies of its plan."""

    loop: LoopClosure | None
    """The loop that cuts it."""

    live: tuple[int, ...]
    """Constraints of the loop that joints can violate."""

    armature: tuple[Scalar, ...]
    """Inertia of the rotor of each variable; that of the base belongs to the part of the base."""

    base: tuple[int, ...]
    """Places of the variables of the base in `variables`."""

    slots: tuple[int, ...] | None
    """Number of the independent velocity that each variable is, -1 for dependent ones; None where
    they are selected in each state."""

    decay: float = 0.0
    """Rate at which an opening velocity of the loop decays [1/s]."""

    @property
    def robot_variables(self) -> tuple[int, ...]:
        """Its variables in the robot."""
        return tuple(self.part.v[i] for i in self.variables)

    def columns(self, rows: Matrix, count: int) -> list[list[Scalar]]:
        """Return U: for each variable, its part in each of some independent velocities.

        Args:
            rows: Rows of the selection for these variables; empty where it is fixed.
            count: Number of independent velocities.
        """
        if self.slots is None:
            return [list(column) for column in zip(*rows, strict=True)]
        return [[1.0 if slot == a else 0.0 for a in range(count)] for slot in self.slots]

    def marks(self, rows: Matrix) -> list[Scalar]:
        """Return 1 for each dependent variable and 0 for each independent one; see `columns`."""
        if self.slots is None:
            return [1.0 - sum(column, start=0.0) for column in zip(*rows, strict=True)]
        return [1.0 if slot < 0 else 0.0 for slot in self.slots]

    def numbers(self, count: int) -> tuple[int, ...]:
        """Return the numbers of the independent velocities in which the leg takes part."""
        if self.slots is None:
            return tuple(range(count))
        return tuple(slot for slot in self.slots if slot >= 0)

    def sent(self, count: int) -> tuple[int, ...]:
        """Return those of them that move the platform relative to the base."""
        if self.slots is None:
            return tuple(range(count)) if self.leg.joints else ()
        moved = self.slots if self.leg.is_carrier else self.slots[: len(self.leg.driven)]
        return tuple(slot for slot in moved if slot >= 0) if self.leg.joints else ()


class LegState(NamedTuple):
    """State of a leg's plan."""

    q: list[Scalar]
    v: list[Scalar]
    given: list[Scalar]
    """Forward the joint forces of its variables; inverse the accelerations of its plan; in
    kinematics the rates of its variables, of which independent ones count."""

    opening: list[Scalar]
    """In kinematics one value per constraint of its loop, see `denoc_rates`."""

    rows: list[list[Scalar]]
    """Rows of the selection for its variables; empty where it is fixed."""


class LegTerms(NamedTuple):
    """Terms of a leg in one state; variables in the order of `Leg.variables`."""

    S: Matrix
    """Screws, one row of d components per variable; zero for branches."""

    W: Matrix
    """Constraint wrenches of the joint that cuts the leg, d components each."""

    bias: Vector
    """Its bias: W (xi - S^T x) + bias = 0 [m/s^2 or rad/s^2]."""

    M: Matrix
    """Inertia of the leg, without the platform."""

    Mx: Matrix
    """Its coupling with the twist of the platform, a row of d components per variable."""

    force: Vector
    """Joint forces: forward those applied minus the bias force, inverse those needed [N or N m]."""

    base: Matrix = ()
    """Twists of the base by its variables, d components."""

    hanging: "PlatformTerms | None" = None
    """Bodies of the leg that the platform carries, moving with it; None if there are none."""


class PlatformTerms(NamedTuple):
    """Terms of bodies that move with the platform."""

    inertia: Matrix
    """Inertia, d times d."""

    force: Vector
    """Wrench: forward that applied, inverse that needed; d components [N m, N]."""

    base: Matrix = ()
    """At the center, twists of a moving base, d components: forward by independent velocity,
    inverse by its own variables."""


def _dot(x: Vector, y: Vector) -> Scalar:
    return sum((a * b for a, b in zip(x, y, strict=True)), start=0.0)


def _plus(x: Vector, factor: Scalar, y: Vector) -> list[Scalar]:
    return [a + factor * b for a, b in zip(x, y, strict=True)]


def _is_zero(x: Scalar) -> bool:
    return isinstance(x, float) and x == 0.0


def _is_one(x: Scalar) -> bool:
    return isinstance(x, float) and x == 1.0


def _combined(factors: Iterable[Scalar], rows: Matrix, size: int) -> list[Scalar]:
    """Return the sum of rows times factors, of which constant zeros are left out."""
    found: list[Scalar] = [0.0] * size
    for factor, row in zip(factors, rows, strict=True):
        if not _is_zero(factor):
            found = _plus(found, factor, row)
    return found


# -- parts -----------------------------------------------------------------------------------------


def _part(
    around: Setting, structure: PlatformOnLegs, own: Iterable[int], ends: Iterable[int] = ()
) -> tuple[Part, dict[int, int], dict[int, int]]:
    """Return some bodies and the ends they need as a part, with the places of all its variables."""
    plan, inside = around.plan, frozenset(own)
    met = {*inside, *(k for k in (*ends, structure.base) if k >= 0), structure.platform}
    bodies = sorted(frozenset().union(*(ancestors(plan, k) for k in met)))
    q, v = (
        tuple(sorted({i for k in bodies for i in _range(getattr(plan.bodies[k], of))}))
        for of in ("q", "v")
    )
    external = None
    if around.external is not None:
        external = [around.external[k] if k in inside else Force.zero() for k in bodies]
    place = {k: n for n, k in enumerate(bodies)}
    at = {i: n for n, i in enumerate(v)}
    found = Part(
        part_of(plan, bodies, inside, q, v),
        place[structure.platform],
        structure.basis,
        structure.point,
        around.gravity,
        external,
        q,
        v,
        place.get(structure.base, structure.base),
        tuple(at[i] for i in structure.moving),
    )
    return found, place, at


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def leg_parts(
    around: Setting, structure: PlatformOnLegs, decay: float = 0.0, *, is_selected: bool = False
) -> tuple[LegPart, ...]:
    """Return the legs of a platform in given surroundings.

    Args:
        around: Surroundings.
        structure: Platform and legs.
        decay: Rate at which opening velocities of loops decay [1/s].
        is_selected: Whether independent joints are selected in each state.
    """
    rotors: dict[int, Scalar] = {}
    for body in around.plan.bodies:
        for i, rotor in zip(_range(body.v), body.armature or (), strict=False):
            rotors[i] = rotor
    loops = {loop.name: loop for loop in around.model.loops if isinstance(loop, LoopClosure)}
    used = jacobian_pattern(around.model)
    slot_of = {i: a for a, i in enumerate(structure.independent)}
    found = []
    for leg in structure.legs:
        part, place, at = _part(around, structure, leg.bodies, (leg.near, leg.far))
        loop = None if leg.loop is None else loops[leg.loop]
        rows = () if leg.loop is None else loop_rows(around.model, leg.loop)
        own = leg.variables
        every = (*own, *(i for i in structure.moving if i not in own))
        found.append(
            LegPart(
                leg,
                part,
                tuple(at[i] for i in every),
                place.get(leg.near, leg.near),
                place.get(leg.far, leg.far),
                loop,
                tuple(n for n, row in enumerate(rows) if used[row]),
                tuple(rotors.get(i, 0.0) if i in own else 0.0 for i in every),
                tuple(every.index(i) for i in structure.moving),
                None if is_selected else tuple(slot_of.get(i, -1) for i in every),
                decay,
            )
        )
    return tuple(found)


def center_part(around: Setting, structure: PlatformOnLegs) -> Part:
    """Return the platform alone as a part."""
    return _part(around, structure, (structure.platform,))[0]


# -- terms of parts --------------------------------------------------------------------------------


class World:
    """Screws, inertias and wrenches of all bodies of a part in axes of the base at one point."""

    def __init__(self, part: Part, q: Vector) -> None:
        """Compute poses and screws."""
        plan = part.plan
        self.part, self.plan, self.q = part, plan, JointVector(q)
        # positions relative to a base that moves keep their digits far from the origin
        start = (
            WORLD_PLACE if part.base == WORLD_BODY else world_from_robot(plan, self.q, part.base)
        )
        self.places = body_places(plan, self.q, world=start)
        self.frames = [self.frame(place) for place in self.places]
        self.body_of: dict[int, int] = {}
        self.screws: dict[int, list[Scalar]] = {}
        for body in plan.bodies:
            subspace = body.joint.subspace(self.q[body.q])
            for i, S in zip(range(body.v.start, body.v.stop), subspace, strict=True):
                moved = self.frames[body.index].motion_to_parent(S)
                self.screws[i] = [*moved.angular, *moved.linear]
                self.body_of[i] = body.index
        self.above = [ancestors(plan, body.index) for body in plan.bodies]

    def frame(self, place: Place) -> Transform:
        """Return the transform from axes of the base at its point to a frame."""
        R, p = place
        if self.part.base != WORLD_BODY:
            base = self.places[self.part.base]
            R = matrix_product(transpose(base.R), R)
            p = transpose_vector(base.R, subtract(p, base.p))
        return Transform.from_pose(R, subtract(p, self.part.point))

    def base_screws(self) -> list[list[Scalar]]:
        """Return the twists of the base by its variables."""
        return [self.reduced(self.screws[i]) for i in self.part.moving]

    def carries_platform(self, body: int) -> bool:
        """Return whether a body is the platform, or carries it."""
        return body in self.above[self.part.platform]

    def hangs_on_platform(self, body: int) -> bool:
        """Return whether the platform carries a body."""
        return body != self.part.platform and self.part.platform in self.above[body]

    def reduced(self, x: Vector) -> list[Scalar]:
        """Return the components of a twist or wrench along motions of the platform."""
        basis = self.part.basis
        if len(basis) == 6:
            return list(x)
        return [sum((b * y for b, y in zip(e, x, strict=True) if b), start=0.0) for e in basis]

    def spread(self, x: Vector) -> list[Scalar]:
        """Return a twist of the platform from its components."""
        basis = self.part.basis
        if len(basis) == 6:
            return list(x)
        columns = zip(*basis, strict=True)
        return [sum((b * y for b, y in zip(e, x, strict=True) if b), start=0.0) for e in columns]

    def wrenches(self, v: Vector, vd: Vector) -> list[list[Scalar]]:
        """Return the wrench that each body and all it carries need, without the platform."""
        part = self.part
        given = (part.plan, self.q, JointVector(v), JointVector(vd))
        found = transmitted(*given, part.gravity, part.external)
        moved = []
        for frame, f in zip(self.frames, found, strict=True):
            w = frame.force_to_parent(f)
            moved.append([*w.moment, *w.force])
        return self._without_platform(moved)

    def inertias(self) -> list[ArticulatedInertia]:
        """Return the inertia of each body and all it carries, without the platform."""
        total: list[Any] = [
            frame.inertia_to_parent(_articulated(body.effective_inertia))
            for frame, body in zip(self.frames, self.plan.bodies, strict=True)
        ]
        for body in reversed(self.plan.bodies):
            if body.parent >= 0 and body.index != self.part.platform:
                total[body.parent] = total[body.parent] + total[body.index]
        return total

    def _without_platform(self, found: list[list[Scalar]]) -> list[list[Scalar]]:
        top = found[self.part.platform]
        return [
            _plus(w, -1.0, top) if self.carries_platform(k) and k != self.part.platform else w
            for k, w in enumerate(found)
        ]


def _articulated(inertia: Any) -> ArticulatedInertia:
    found: ArticulatedInertia = inertia.articulated()
    return found


def forward_terms(part: LegPart, state: LegState) -> LegTerms:
    """Return the terms of a leg under joint forces."""
    q, v = JointVector(state.q), JointVector(state.v)
    world = World(part.part, q)
    bias: list[Scalar] = []
    if part.loop is not None:
        terms = closure_values([part.loop], part.part.plan, q, v)
        bias = [terms.bias[n] for n in part.live]
        if part.decay:
            bias = _plus(bias, part.decay, [terms.rate[n] for n in part.live])
    wrenches = world.wrenches(v, [0.0] * part.part.plan.nv)
    own = _leg_terms(part, world, bias, wrenches, world.inertias())
    force = [given - f for given, f in zip(state.given, own.force, strict=True)]
    hanging = own.hanging
    if hanging is not None:
        hanging = hanging._replace(force=[-x for x in hanging.force])
    return own._replace(force=force, hanging=hanging)


def inverse_terms(part: LegPart, state: LegState) -> LegTerms:
    """Return the terms of a leg in a given motion."""
    world = World(part.part, state.q)
    wrenches = world.wrenches(state.v, state.given)
    # no bias: the accelerations keep its loop closed
    own = _leg_terms(part, world, [0.0] * len(part.live), wrenches, None)
    turning = [state.given[i] for i in part.variables]
    force = [
        f if isinstance(rotor, float) and rotor == 0.0 else f + rotor * rate
        for f, rotor, rate in zip(own.force, part.armature, turning, strict=True)
    ]
    return own._replace(force=force)


def _leg_terms(
    part: LegPart,
    world: World,
    bias: Vector,
    wrenches: Sequence[Vector],
    inertias: Sequence[ArticulatedInertia] | None,
) -> LegTerms:
    """Return the terms of a leg.

    Args:
        part: The leg.
        world: Screws of its bodies.
        bias: One value per live constraint of its loop.
        wrenches: Wrench that each body needs, from `World.wrenches`.
        inertias: From `World.inertias`; None for inverse dynamics.
    """
    top, variables = part.part.platform, part.variables
    zero = [0.0] * len(part.part.basis)
    force = []
    M: list[list[Scalar]] = [[0.0] * len(variables) for _ in variables]
    Mx: list[list[Scalar]] = []
    for n, i in enumerate(variables):
        body = world.body_of[i]
        is_top = body == top
        force.append(0.0 if is_top else _dot(world.screws[i], wrenches[body]))
        if inertias is None:
            continue
        S_i = world.screws[i]
        f = inertias[body].apply(Motion(tuple(S_i[:3]), tuple(S_i[3:])))
        F = [0.0] * 6 if is_top else [*f.moment, *f.force]
        Mx.append(world.reduced(F) if world.hangs_on_platform(body) else list(zero))
        for m, k in enumerate(variables):
            other = world.body_of[k]
            cut = world.carries_platform(other) and world.hangs_on_platform(body)
            if other in world.above[body] and not cut and (other != body or k <= i):
                M[n][m] = M[m][n] = _dot(world.screws[k], F)
        M[n][n] = M[n][n] + part.armature[n]
    hanging = None
    if any(world.hangs_on_platform(body.index) for body in world.plan.bodies):
        hanging = _platform_terms(world, wrenches, inertias)
    S, W = _screws(part, world), _cut(part, world)
    return LegTerms(S, W, bias, M, Mx, force, world.base_screws(), hanging)


def _screws(part: LegPart, world: World) -> list[list[Scalar]]:
    """Return the screws of a leg relative to the base, from there to the platform.

    They are zero for branches and for the base, which moves a leg as one body; the free joint of
    the platform stands on the world and is left behind by the base.
    """
    zero = [0.0] * len(part.part.basis)
    moving: set[int] = set()
    for end in (part.near, part.far, part.part.platform):
        if end >= 0:
            moving |= world.above[end]
    S: list[list[Scalar]] = []
    for n, i in enumerate(part.variables):
        body, own = world.body_of[i], world.reduced(world.screws[i])
        # joints on the side of the platform move the base away from it
        sign = -1.0 if n in part.base or world.hangs_on_platform(body) else 1.0
        is_moving = part.leg.is_carrier if n in part.base else body in moving
        S.append([sign * x for x in own] if part.leg.joints and is_moving else list(zero))
    return S


def _cut(part: LegPart, world: World) -> list[list[Scalar]]:
    """Return the constraint wrenches of the joint that cuts a leg."""
    loop, plan = part.loop, part.part.plan
    if loop is None:
        return []
    pose = plan.end(loop.name, 1, loop.second_pose)
    _, end = end_of(plan, loop.second, pose, world.places, None)
    frame = world.frame(end.place)
    sign = -1.0 if part.leg.turned else 1.0
    count = len(loop.joint.loop_constraints())
    W = []
    for n in part.live:
        unit = [1.0 if k == n else 0.0 for k in range(count)]
        f = frame.force_to_parent(loop_joint_load(loop, plan, world.places, unit).wrench)
        W.append([sign * x for x in world.reduced([*f.moment, *f.force])])
    return W


def _platform_terms(
    world: World, wrenches: Sequence[Vector], inertias: Sequence[ArticulatedInertia] | None
) -> PlatformTerms:
    """Return inertia and wrench of the platform with everything that hangs on it in a part."""
    top = world.part.platform
    rows: list[list[Scalar]] = []
    if inertias is not None:
        size = len(world.part.basis)
        for k in range(size):
            e = world.spread([1.0 if k == n else 0.0 for n in range(size)])
            f = inertias[top].apply(Motion(tuple(e[:3]), tuple(e[3:])))
            rows.append(world.reduced([*f.moment, *f.force]))
    return PlatformTerms(rows, world.reduced(wrenches[top]))


def _forward_center(
    part: Part, motors: Matrix, q: Vector, v: Vector, tau: Vector, rows: Matrix
) -> PlatformTerms:
    """Return the terms of the platform, with the forces of a free joint that carries it.

    Args:
        part: The platform.
        motors: Variables of the base by independent velocity, 0 or 1.
        q: Configuration of its plan [m or rad].
        v: Velocity of its plan [m/s or rad/s].
        tau: Forces of the free joint [N or N m]; empty without.
        rows: The same as `motors` where joints are selected; else empty.
    """
    world = World(part, q)
    found = _platform_terms(world, world.wrenches(v, [0.0] * part.plan.nv), world.inertias())
    pushed = [-x for x in found.force]
    if tau:
        w = world.frames[part.platform].force_to_parent(
            Force((tau[0], tau[1], tau[2]), (tau[3], tau[4], tau[5]))
        )
        pushed = _plus(pushed, 1.0, world.reduced([*w.moment, *w.force]))
    screws = world.base_screws()
    base = [_combined(row, screws, len(part.basis)) for row in rows or motors] if screws else []
    return found._replace(force=pushed, base=base)


def _inverse_center(part: Part, q: Vector, v: Vector, vd: Vector) -> PlatformTerms:
    """Return the terms of the platform in a given motion."""
    world = World(part, q)
    found = _platform_terms(world, world.wrenches(v, vd), None)
    return found._replace(base=world.base_screws())


def _carrier_rates(part: Part, q: Vector, xi: Vector, moving: Vector) -> list[Scalar]:
    """Return rates of the platform's free joint from its twist, or their rates from its rate.

    Args:
        part: The platform.
        q: Configuration of its plan [m or rad].
        xi: Twist relative to the base, d components.
        moving: Rates of the variables of the base.
    """
    world = World(part, q)
    e = world.spread(_plus(xi, 1.0, _combined(moving, world.base_screws(), len(xi))))
    moved = world.frames[part.platform].motion(Motion((e[0], e[1], e[2]), (e[3], e[4], e[5])))
    return [*moved.angular, *moved.linear]


def _taken(x: Vector, places: Sequence[int]) -> list[Scalar]:
    return [x[i] for i in places]


# -- projection in a leg ---------------------------------------------------------------------------


class Projected(NamedTuple):
    """A leg with its passive joints projected out."""

    Phi: list[list[Scalar]]
    """Projector on the twists that passive joints cannot make, d times d."""

    P: list[list[Scalar]]
    """Rates of the passive joints by twist: rows of d components."""

    b: list[Scalar]
    """Bias of the leg as a twist, d components."""

    held: Scalar
    """Smallest squared length of a projected screw, relative to its own."""


def project(leg: Leg, own: LegTerms, size: int, marks: Vector | None = None) -> Projected:
    """Project out the passive joints of a leg, from the platform (`size` motions) to the base.

    Args:
        leg: The leg.
        own: Its terms.
        size: Motions of the platform.
        marks: 1 or 0 for each passive joint: those with 0 are independent, and P is zero for them.
            All are passive by default.
    """
    b: list[Scalar] = [0.0] * size
    Phi: list[list[Scalar]] = [[1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    if not leg.joints:
        Phi = [[0.0] * size for _ in range(size)]
    elif own.W:
        Phi, b = _resisted(own.W, own.bias)
    held: Scalar = 1.0
    screws: list[Vector] = []
    lengths: list[list[Scalar]] = []
    for n in range(len(leg.passive)):
        p = own.S[len(leg.driven) + n]
        turned = [_dot(row, p) for row in Phi]
        square = _dot(turned, turned)
        sine = square / (_dot(p, p) + MIN_SQUARE * MIN_SQUARE)
        safe = np.where(square > 0.0, square, 1.0)
        scaled = [x / safe for x in turned]
        if marks is not None:
            sine = np.where(marks[n] > 0.5, sine, 1.0)
            scaled = [np.where(marks[n] > 0.5, x, 0.0) for x in scaled]
        held = np.minimum(held, sine)
        Phi = [_plus(row, -x, scaled) for x, row in zip(turned, Phi, strict=True)]
        screws.append(p)
        lengths.append(scaled)
    P: list[list[Scalar]] = []
    for n in reversed(range(len(screws))):
        row = list(lengths[n])
        for later, found in zip(screws[n + 1 :], P, strict=True):
            row = _plus(row, -_dot(lengths[n], later), found)
        P.insert(0, row)
    return Projected(Phi, P, b, held)


def _marked(part: LegPart, rows: Matrix) -> list[Scalar] | None:
    """Return marks of the passive joints of a leg; None where all are."""
    first = len(part.leg.driven)
    return part.marks(rows)[first : first + len(part.leg.passive)] if rows else None


def _resisted(W: Matrix, bias: Vector) -> tuple[list[list[Scalar]], list[Scalar]]:
    """Return the projector on the directions that a joint resists, W^+ W, and W^+ bias.

    Wrenches are orthogonalized one after the other; those that are redundant are left out.
    """
    size = len(W[0])
    Phi: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    b: list[Scalar] = [0.0] * size
    longest: Scalar = 0.0
    for w in W:
        longest = np.maximum(longest, _dot(w, w))
    for w, value in zip(W, bias, strict=True):
        turned = _plus(w, -1.0, _times(Phi, w))
        # once more: the first pass leaves the rounding error of w
        turned = _plus(turned, -1.0, _times(Phi, turned))
        square = _dot(turned, turned)
        counts = square > (WRENCH_CUT * WRENCH_CUT) * longest
        inverse = np.where(counts, 1.0, 0.0) / np.where(counts, square, 1.0)
        scaled = [inverse * x for x in turned]
        b = _plus(b, value - _dot(w, b), scaled)
        Phi = [_plus(row, x, scaled) for x, row in zip(turned, Phi, strict=True)]
    return Phi, b


def _upper(matrix: Matrix) -> list[Scalar]:
    return [matrix[i][j] for i in range(len(matrix)) for j in range(i, len(matrix))]


def _full(upper: Vector, size: int) -> list[list[Scalar]]:
    found: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    entries = iter(upper)
    for i in range(size):
        for j in range(i, size):
            found[i][j] = found[j][i] = next(entries)
    return found


def _times(matrix: Matrix, x: Vector) -> list[Scalar]:
    return [_dot(row, x) for row in matrix]


# -- inverse dynamics ------------------------------------------------------------------------------


class Pull(NamedTuple):
    """Message of a leg in inverse dynamics."""

    Phi: list[Scalar]
    """Projector, its upper triangle."""

    wrench: list[Scalar]
    """What its passive joints need, as a wrench on the platform: p-bar of (3.40); and what its
    bodies need that hang on the platform."""

    held: Scalar

    base: list[Scalar]
    """What its bodies need along the variables of the base."""


class Held(NamedTuple):
    """Factorization of K at the center."""

    ratio: Scalar
    """Smallest pivot of K, relative to its diagonal element; zero if K is singular."""

    held: Scalar
    """Smallest of all legs."""


def _held_by(K: Matrix, held: Scalars) -> tuple[Callable[[Vector], list[Scalar]], Held]:
    """Return what solves with K, and whether it can."""
    shifted = [
        [x + RELATIVE_SHIFT * x if i == j else x for j, x in enumerate(row)]
        for i, row in enumerate(K)
    ]
    factor = factor_spd(as_traced(shifted), inline=True)
    ratio: Scalar = 1.0
    for i, pivot in enumerate(factor.pivots):
        ratio = np.minimum(ratio, pivot / shifted[i][i])
    least: Scalar = 1.0
    for one in held:
        least = np.minimum(least, one)

    def solve(b: Vector) -> list[Scalar]:
        found = list(factor.solve(as_traced(list(b))))
        # one step of refinement removes the error of the shift
        left = _plus(b, -1.0, _times(K, found))
        return _plus(found, 1.0, list(factor.solve(as_traced(left))))

    return solve, Held(np.where(ratio > MIN_RATIO, ratio, 0.0), least)


def inverse_method(
    structure: PlatformOnLegs, parts: tuple[LegPart, ...], weights: Sequence[float] | None = None
) -> PartMethod:
    """Return inverse dynamics of a platform on legs as rounds.

    A leg starts with its `LegState`, the center with `PlatformTerms`; the result of a leg are the
    forces of its driven joints (3.40).

    Args:
        structure: Platform and legs.
        parts: The legs in given surroundings.
        weights: Share of each leg in the load of the platform; None for the condition of its
            screws (L909-911).
    """
    size = len(structure.basis)
    shares = dict(zip((leg.name for leg in structure.legs), weights or (), strict=False))

    def local(part: LegPart, state: LegState, _: Any) -> tuple[Pull, Any]:
        leg, own = part.leg, inverse_terms(part, state)
        weight: Scalar = shares.get(leg.name, 1.0)
        if weights is None and leg.joints and own.S:
            weight = factor_orthogonal(as_traced([list(s) for s in own.S])).ratio
        found = project(leg, own, size)
        wrench: list[Scalar] = [0.0] * size
        first = len(leg.driven)
        for row, force in zip(found.P, own.force[first : first + len(found.P)], strict=True):
            wrench = _plus(wrench, force, row)
        Phi = [[weight * x for x in row] for row in found.Phi]
        sent, base = wrench, [own.force[n] for n in part.base]
        if own.hanging is not None:
            sent = _plus(wrench, 1.0, own.hanging.force)
            base = _plus(base, 1.0, [_dot(s, own.hanging.force) for s in own.base])
        return Pull(_upper(Phi), sent, found.held, base), (own, Phi, wrench)

    def solve(center: PlatformTerms, messages: Sequence[Pull]) -> tuple[list[Any], Held]:
        K = _full(ordered_sum([m.Phi for m in messages], [0.0] * (size * (size + 1) // 2)), size)
        solved, held = _held_by(K, [m.held for m in messages])
        total = ordered_sum([m.wrench for m in messages], list(center.force))
        on_base = [_dot(s, center.force) for s in center.base]
        answer = solved(total), ordered_sum([m.base for m in messages], on_base)
        return [answer] * len(messages), held

    def recover(part: LegPart, known: Any, answer: Any) -> list[Scalar]:
        (own, Phi, wrench), (carried, on_base) = known, answer
        on_leg = _plus(_times(Phi, carried), -1.0, wrench)
        count = len(part.leg.driven)
        forces = [f + _dot(s, on_leg) for f, s in zip(own.force[:count], own.S, strict=False)]
        for n, force in zip(part.base, on_base, strict=True):
            if n < count:
                forces[n] = force
        return forces

    return PartMethod("denoc_inverse", parts, (Round("pull", local, solve),), recover)


# -- kinematics ------------------------------------------------------------------------------------


class Moved(NamedTuple):
    """Message of a leg in kinematics."""

    Phi: list[Scalar]
    """Projector, its upper triangle."""

    twist: list[Scalar]
    """Phi (S_a x_a - b)."""

    held: Scalar


def kinematics_method(structure: PlatformOnLegs, parts: tuple[LegPart, ...]) -> PartMethod:
    """Return rates of all joints from those of the driven ones as a round (3.10)-(3.13).

    On velocity level, or on acceleration level with the bias of the loops (3.28). A leg starts with
    its `LegState`, the center needs nothing. The result of a leg are the rates of its variables;
    the center returns xi and K.
    """
    size = len(structure.basis)

    def local(part: LegPart, state: LegState, _: Any) -> tuple[Moved, Any]:
        world = World(part.part, state.q)
        S, W = _screws(part, world), _cut(part, world)
        own = LegTerms(S, W, state.opening, (), (), ())
        found = project(part.leg, own, size, _marked(part, state.rows))
        given = [
            0.0 if _is_one(mark) else rate * (1.0 - mark)
            for rate, mark in zip(state.given, part.marks(state.rows), strict=True)
        ]
        towards = [-x for x in found.b]
        for rate, s in zip(given, S, strict=True):
            if not _is_zero(rate):
                towards = _plus(towards, rate, s)
        message = Moved(_upper(found.Phi), _times(found.Phi, towards), found.held)
        return message, (given, found.P, towards)

    def solve(_: Any, messages: Sequence[Moved]) -> tuple[list[Any], Any]:
        K = _full(ordered_sum([m.Phi for m in messages], [0.0] * (size * (size + 1) // 2)), size)
        solved, held = _held_by(K, [m.held for m in messages])
        total = ordered_sum([m.twist for m in messages], [0.0] * size)
        xi = solved(total)
        return [xi] * len(messages), (xi, held)

    def recover(part: LegPart, known: Any, xi: Vector) -> list[Scalar]:
        given, P, towards = known
        left, first = _plus(xi, -1.0, towards), len(part.leg.driven)
        return [*given[:first], *_plus(given[first : first + len(P)], 1.0, _times(P, left))]

    return PartMethod("denoc_motion", parts, (Round("twist", local, solve),), recover)


def leg_openings(
    model: Model, plan: Plan, structure: PlatformOnLegs, q: Vector
) -> list[list[Scalar]]:
    """Return the residuals of each leg's loop [m or rad], computed by the legs.

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration [m or rad], nq scalars.
    """

    def opening(part: LegPart, position: Vector) -> list[Scalar]:
        if part.loop is None:
            return []
        still = JointVector([0.0] * part.part.plan.nv)
        value = closure_values([part.loop], part.part.plan, JointVector(position), still).value
        return [value[n] for n in part.live]

    with taping(None):
        return [
            part_function(opening, part, name=f"denoc_opening_{k}", inline=_is_inlined(plan))(
                _taken(q, part.part.q)
            )
            for k, part in enumerate(leg_parts(_at_rest(model, plan), structure))
        ]


def _at_rest(model: Model, plan: Plan) -> Setting:
    """Return surroundings for kinematics."""
    return Setting(model, (), (), plan, (0.0, 0.0, 0.0))


class Selected(NamedTuple):
    """Independent joints that are selected in a state, in place of the motors."""

    structure: PlatformOnLegs
    """Platform and legs, all of whose joints may be independent: `selectable_legs`."""

    rows: Matrix
    """Unit rows with nv scalars, one for each independent velocity."""

    def differ(self, motors: PlatformOnLegs) -> Any:
        """Return whether they are others than the motors."""
        chosen = sum((row[i] for row in self.rows for i in motors.independent), start=0.0)
        return chosen < len(motors.independent) - 0.5

    def of(self, part: LegPart) -> list[list[Scalar]]:
        """Return the rows for the variables of a leg."""
        return [_taken(row, part.robot_variables) for row in self.rows]


def denoc_rates(
    model: Model,
    plan: Plan,
    structure: PlatformOnLegs,
    q: Vector,
    rates: Vector,
    openings: Sequence[Vector] | None = None,
    selected: Selected | None = None,
) -> tuple[list[Scalar], Held]:
    """Return rates of all joints from those of the independent ones: A x + opening = 0.

    With the constraint residual as opening and zero rates this is a Newton step of the
    displacement analysis; with sigma times the residual the velocity with which it decays; with the
    bias of the loops the accelerations.

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration [m or rad], nq scalars.
        rates: Rates of all joints, of which the independent ones count, nv scalars.
        openings: For each leg one value per constraint of its loop, in the order of
            `leg_openings`; zero by default.
        selected: Independent joints; the motors by default.

    Returns:
        Rates of all joints, nv scalars, and whether they are determined.
    """
    around = _at_rest(model, plan)
    of_loops = {}
    if openings is not None:
        of_loops = dict(zip((leg.loop for leg in structure.legs), openings, strict=True))

    def computed(legs: PlatformOnLegs, chosen: Selected | None) -> tuple[list[Scalar], Held]:
        parts = leg_parts(around, legs, is_selected=chosen is not None)
        states = [
            LegState(
                _taken(q, part.part.q),
                [],
                _taken(rates, part.robot_variables),
                list(of_loops.get(part.leg.loop) or [0.0] * len(part.live)),
                [] if chosen is None else chosen.of(part),
            )
            for part in parts
        ]
        found = run(kinematics_method(legs, parts), (), states, inline=_is_inlined(plan))
        xi, held = found.center
        return _joined(around, legs, q, found, xi), held

    with taping(None):
        found: tuple[list[Scalar], Held] = by_motors_or(structure, selected, computed)
    return found


def by_motors_or(
    structure: PlatformOnLegs, selected: Selected | None, computed: Callable[..., Any]
) -> Any:
    """Return what follows from the motors, or from other joints where these are selected.

    Args:
        structure: Platform and legs, with motors as independent joints.
        selected: Independent joints of this state; the motors by default.
        computed: Called with platform and legs, and with the selection or None.
    """
    if selected is None:
        return computed(structure, None)
    if len(selected.rows) != len(structure.independent):
        return computed(selected.structure, selected)
    return where_needed(
        selected.differ(structure),
        lambda: computed(selected.structure, selected),
        computed(structure, None),
    )


# -- forward dynamics ------------------------------------------------------------------------------


class Reach(NamedTuple):
    """First message of a leg: d(d+1)/2 values, and d for each of its motors."""

    Phi: list[Scalar]
    """Projector, its upper triangle."""

    driven: list[list[Scalar]]
    """Phi S of each of its motors, d components."""

    held: Scalar


class Share(NamedTuple):
    """Last message of a leg: n_a(n_a+1)/2 values for n_a motors, and one for each of its own."""

    inertia: list[Scalar]
    """Its share of the inertia that motors see, upper triangle."""

    force: list[Scalar]
    """Its share of the force that is left to accelerate each of its motors (3.40), (3.41)."""


class _Center(NamedTuple):
    """State of the center between rounds."""

    platform: PlatformTerms
    K: list[Scalar]
    inverse: list[Scalar]
    """K and K^-1, upper triangles."""

    held: Held
    by_motor: list[list[Scalar]]
    """Twist of the platform relative to the base by rate of each motor: S b of the source."""

    bias: list[Scalar]
    """Rate of its twist while no motor accelerates."""

    left: list[Scalar]
    """Wrench that is left on the platform alone while no motor accelerates."""


class _Resting(NamedTuple):
    """State of a leg while no motor accelerates."""

    own: LegTerms
    rows: list[list[Scalar]]
    """See `LegState`."""

    N: list[list[Scalar]]
    """Rates of its variables by those of all motors."""

    by_motor: list[list[Scalar]]
    gamma: list[Scalar]
    """Accelerations of its variables."""

    left: list[Scalar]
    """Joint forces that are left."""

    carried: list[Scalar]
    """Those of its passive joints as a wrench on the platform."""

    hung: list[Scalar]
    """Wrench that is left on the platform by bodies that hang on it."""


def forward_method(
    structure: PlatformOnLegs, parts: tuple[LegPart, ...], selected: Selected | None = None
) -> PartMethod:
    """Return forward dynamics of a platform on legs as four rounds (Khan 2002, section 3.4).

    A leg starts with its `LegState`, the center with `PlatformTerms`; the result of a leg are the
    accelerations of its variables. "Motors" are the independent joints.

    Counted for three motors that move a platform in a plane.

    Args:
        structure: Platform and legs.
        parts: The legs in given surroundings.
        selected: Independent joints; the motors by default.
    """
    size = len(structure.basis)
    count = len(structure.independent) if selected is None else len(selected.rows)

    def made(part: LegPart, own: LegTerms, U: Matrix) -> dict[int, list[Scalar]]:
        """Return the twists that independent velocities make in a leg, by number."""
        return {a: _combined([row[a] for row in U], own.S, size) for a in part.sent(count)}

    def reach(part: LegPart, state: LegState, _: Any) -> tuple[Reach, Any]:
        own = forward_terms(part, state)
        found = project(part.leg, own, size, _marked(part, state.rows))
        twists = made(part, own, part.columns(state.rows, count))
        driven = [_times(found.Phi, x) for x in twists.values()]
        return Reach(_upper(found.Phi), driven, found.held), (own, found, state.rows)

    def twists(center: PlatformTerms, messages: Sequence[Reach]) -> tuple[list[Any], _Center]:
        K = _full(ordered_sum([m.Phi for m in messages], [0.0] * (size * (size + 1) // 2)), size)
        solved, held = _held_by(K, [m.held for m in messages])
        moved: dict[int, list[Scalar]] = {}
        for part, m in zip(parts, messages, strict=True):
            for a, x in zip(part.sent(count), m.driven, strict=True):
                moved[a] = _plus(moved[a], 1.0, x) if a in moved else x
        by_motor = [solved(moved[a]) if a in moved else [0.0] * size for a in range(count)]
        inverse = [solved([1.0 if i == k else 0.0 for i in range(size)]) for k in range(size)]
        known = _Center(center, _upper(K), _upper(inverse), held, by_motor, [], [])
        return [by_motor] * len(messages), known

    def rate(_: LegPart, known: Any, by_motor: Matrix) -> tuple[list[Scalar], Any]:
        _, found, _ = known
        return _times(found.Phi, found.b), (*known, by_motor)

    def at_rest(center: _Center, messages: Sequence[Vector]) -> tuple[list[Any], _Center]:
        total = ordered_sum(messages, [0.0] * size)
        K, inverse = _full(center.K, size), _full(center.inverse, size)
        found = _times(inverse, total)
        # one step of refinement: an inverse alone has the square of the condition in its error
        left = _plus(total, -1.0, _times(K, found))
        bias = [-x for x in _plus(found, 1.0, _times(inverse, left))]
        return [bias] * len(messages), center._replace(bias=bias)

    def pull(part: LegPart, known: Any, bias: Vector) -> tuple[list[Scalar], _Resting]:
        own, found, rows, by_motor = known
        drives, U = len(part.leg.driven), part.columns(rows, count)
        directly = made(part, own, U)
        y = [_plus(x, -1.0, directly[a]) if a in directly else x for a, x in enumerate(by_motor)]
        last = drives + len(found.P)
        N = [
            *U[:drives],
            *(
                _plus(unit, 1.0, [_dot(row, x) for x in y])
                for row, unit in zip(found.P, U[drives:last], strict=True)
            ),
            *U[last:],
        ]
        towards = _plus(bias, 1.0, found.b)
        gamma = [0.0] * drives + [_dot(row, towards) for row in found.P]
        gamma += [0.0] * (len(U) - last)
        needed = _plus(_times(own.M, gamma), 1.0, _times(own.Mx, bias))
        left = _plus(own.force, -1.0, needed)
        carried = _transposed_times(found.P, left[drives:last], size)
        hung = [-x for x in _transposed_times(own.Mx, gamma, size)]
        if own.hanging is not None:
            needed = _times(own.hanging.inertia, bias)
            hung = _plus(hung, 1.0, _plus(own.hanging.force, -1.0, needed))
        resting = _Resting(own, rows, N, by_motor, gamma, left, carried, hung)
        return _plus(carried, 1.0, hung), resting

    def pulled(center: _Center, messages: Sequence[Vector]) -> tuple[list[Any], _Center]:
        platform = center.platform
        left = _plus(platform.force, -1.0, _times(platform.inertia, center.bias))
        total = ordered_sum(messages, left)
        return [total] * len(messages), center._replace(left=left)

    def share(part: LegPart, known: _Resting, total: Vector) -> tuple[Share, Any]:
        own, rows, N, by_motor, gamma, left, carried, hung = known
        U = part.columns(rows, count)
        columns = [[row[a] for row in N] for a in range(count)]
        based = [_combined([U[n][a] for n in part.base], own.base, size) for a in range(count)]
        moved = [_plus(x, 1.0, y) for x, y in zip(by_motor, based, strict=True)]
        # forces that accelerations of each motor need
        needed = [
            _plus(_times(own.M, column), 1.0, _times(own.Mx, x))
            for column, x in zip(columns, moved, strict=True)
        ]
        on_platform = [_transposed_times(own.Mx, column, size) for column in columns]
        if own.hanging is not None:
            on_platform = [
                _plus(have, 1.0, _times(own.hanging.inertia, x))
                for have, x in zip(on_platform, moved, strict=True)
            ]
        inertia = [
            _dot(columns[a], needed[b]) + _dot(moved[a], on_platform[b])
            for a in range(count)
            for b in range(a, count)
        ]
        directly = made(part, own, U)
        force = []
        for a in part.numbers(count):
            unit = [row[a] for row in U]
            found = _dot(unit, left) + _dot(based[a], hung)
            # the platform counts once: for the leg of the motor
            owned = sum(unit[: len(part.leg.variables)], start=0.0)
            found = found + owned * _dot(by_motor[a], total)
            force.append(found - _dot(directly[a], carried) if a in directly else found)
        return Share(inertia, force), (N, gamma)

    def solve(center: _Center, messages: Sequence[Share]) -> tuple[list[Any], Any]:
        based = center.platform.base or [[0.0] * size for _ in range(count)]
        twist = [_plus(x, 1.0, y) for x, y in zip(center.by_motor, based, strict=True)]
        moved = [_times(center.platform.inertia, x) for x in twist]
        start = [_dot(twist[a], moved[b]) for a in range(count) for b in range(a, count)]
        G = _full(ordered_sum([m.inertia for m in messages], start), count)
        right = [_dot(x, center.left) for x in based]
        for part, m in zip(parts, messages, strict=True):
            for a, force in zip(part.numbers(count), m.force, strict=True):
                right[a] = right[a] + force
        if count <= MAX_INLINED:
            x = reverse_elimination(G, right)
        else:
            x = list(factor_spd(as_traced(G)).solve(as_traced(right)))
        xi = list(center.bias)
        for moving, one in zip(x, center.by_motor, strict=True):
            xi = _plus(xi, moving, one)
        return [x] * len(messages), (x, xi, center.held)

    def recover(_: LegPart, known: Any, x: Vector) -> list[Scalar]:
        N, gamma = known
        return [g + _dot(row, x) for g, row in zip(gamma, N, strict=True)]

    rounds = (
        Round("reach", reach, twists),
        Round("rate", rate, at_rest),
        Round("pull", pull, pulled),
        Round("share", share, solve),
    )
    return PartMethod("denoc_forward", parts, rounds, recover)


def _transposed_times(matrix: Matrix, x: Vector, size: int) -> list[Scalar]:
    found: list[Scalar] = [0.0] * size
    for factor, row in zip(x, matrix, strict=True):
        found = _plus(found, factor, row)
    return found


def reverse_elimination(G: Matrix, right: Vector) -> list[Scalar]:
    """Solve G x = right by elimination from the last unknown to the first (3.46)-(3.48), C10."""
    A, r = [list(row) for row in G], list(right)
    for k in range(len(r) - 1, 0, -1):
        inverse = 1.0 / A[k][k]
        for i in range(k):
            factor = A[i][k] * inverse
            for j in range(k):
                A[i][j] = A[i][j] - factor * A[k][j]
            r[i] = r[i] - factor * r[k]
    x: list[Scalar] = []
    for k in range(len(r)):
        x.append((r[k] - _dot(A[k][:k], x)) / A[k][k])
    return x


# -- whole mechanisms ------------------------------------------------------------------------------


def not_held(model: Model, structure: PlatformOnLegs) -> str:
    """Return the expectation that a configuration violates in which motors hold no platform."""
    names = [name for i, name in enumerate(model.v_names) if i in structure.independent]
    listed = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return (
        f"a configuration in which {listed}, or others in their place, hold the platform and all "
        "legs; this one is singular: use method='augmented'"
    )


def is_held(held: "Held") -> Any:
    """Return whether independent joints determine all others."""
    return (held.ratio > 0.0) & (held.held > MIN_SQUARE)


def denoc_motion(
    around: Setting,
    terms: Constraints,
    q: Vector,
    v: Vector,
    tau: Vector,
    structure: PlatformOnLegs | None = None,
    selected: Selected | None = None,
    *,
    decay: float = 0.0,
    exchange: Exchanged | None = None,
) -> ConstrainedMotion:
    """Compute accelerations and constraint forces of a platform on legs.

    Args:
        around: Surroundings in this state.
        terms: Constraints in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        structure: Platform and legs of a run; by default they are found, and where the motors
            hardly hold the platform, other joints are selected in this state.
        selected: Independent joints of a run; the motors by default.
        decay: Rate at which opening velocities of loops decay [1/s].
        exchange: How messages of legs that other processes compute arrive; none by default. With
            other joints than the motors each process computes all legs.

    Returns:
        The motion; `ratio` is that of K.
    """
    model = around.model
    legs = structure or platform_on_legs(model)

    def computed(own: PlatformOnLegs, chosen: Selected | None) -> tuple[list[Scalar], Held]:
        parts = leg_parts(around, own, decay, is_selected=chosen is not None)
        states = forward_states(around, own, parts, q, v, tau, chosen)
        partners = exchange if chosen is None else None
        inline = partners is None and _is_inlined(around.plan)
        method = forward_method(own, parts, chosen)
        found = run(method, *states, inline=inline, exchange=partners)
        _, xi, held = found.center
        return _joined(around, own, q, found, xi), held

    with taping(None):
        if structure is None:
            vd, held, good = _in_any_state(model, legs, terms, computed)
        else:
            vd, held = by_motors_or(legs, selected, computed)
            good = is_held(held)
        expected = not_held(model, legs)
        vd = [require(good, x, expected) for x in vd]
        multipliers, rank = loop_forces(around, terms, q, v, vd, tau)
    return ConstrainedMotion(tuple(vd), multipliers, lambda: (rank, held.ratio))


def _in_any_state(
    model: Model, legs: PlatformOnLegs, terms: Constraints, computed: Callable[..., Any]
) -> tuple[list[Scalar], "Held", Any]:
    """Return accelerations by the motors, or by joints that hold the platform better.

    Returns:
        Accelerations, factorization of K, and whether the loops stay closed: in a configuration
        with other degrees of freedom than the mechanism has elsewhere they do not.
    """
    count = len(legs.independent)
    others = selectable_legs(model, model.plan.bodies[legs.platform].name)
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    # joints of the base stay independent
    rows = [{i: x for i, x in terms.jacobian[k].items() if i not in legs.moving} for k in live]
    A = [[row.get(i, 0.0) for i in range(model.nv)] for row in rows]
    vd, held = computed(legs, None)
    doubtful = (held.ratio < DOUBTFUL_RATIO) | (held.held < DOUBTFUL_RATIO)

    def selected() -> tuple[list[Scalar], Held]:
        chosen, _ = free_columns(as_traced(A), model.nv - count)
        found: tuple[list[Scalar], Held] = computed(others, Selected(others, chosen))
        return found

    vd, held = where_needed(doubtful, selected, (vd, held))
    left = [
        sum((x * vd[i] for i, x in terms.jacobian[k].items()), start=terms.bias[k]) for k in live
    ]
    # off the manifold, redundant constraints are inconsistent by about the cut
    allowed = np.maximum(VIOLATION_FRACTION, rank_cut(model, terms.value))
    closed = max_abs(left) <= allowed * (1.0 + max_abs(vd) + max_abs(terms.bias))
    return vd, held, is_held(held) & closed


def forward_states(
    around: Setting,
    structure: PlatformOnLegs,
    parts: Sequence[LegPart],
    q: Vector,
    v: Vector,
    tau: Vector,
    selected: Selected | None = None,
) -> tuple[PlatformTerms, list[LegState]]:
    """Return the initial states of center and legs of `forward_method`."""
    legs = []
    for part in parts:
        own = _taken(tau, part.leg.variables)
        # forces at the base belong to the part of the base
        forces = own + [0.0] * (len(part.variables) - len(own))
        rows = [] if selected is None else selected.of(part)
        legs.append(LegState(*_state_of(part.part, q, v), forces, [], rows))
    middle, moving = center_part(around, structure), structure.moving
    motors = [[float(i == k) for k in moving] for i in structure.independent]
    rows = [] if selected is None else [_taken(row, moving) for row in selected.rows]
    terms = part_function(
        _forward_center, middle, motors, name="denoc_center", inline=_is_inlined(around.plan)
    )
    return terms(*_state_of(middle, q, v), _taken(tau, structure.carrier), rows), legs


def _state_of(part: Part, q: Vector, v: Vector) -> tuple[list[Scalar], list[Scalar]]:
    return _taken(q, part.q), _taken(v, part.v)


def _is_inlined(plan: Plan) -> bool:
    """Return whether a platform on legs is small enough for one piece of code."""
    return plan.nv <= MAX_INLINED_VARIABLES


def _joined(
    around: Setting, structure: PlatformOnLegs, q: Vector, found: Outcome, xi: Vector | None
) -> list[Scalar]:
    """Return results of legs by velocity variable, with the rates of the platform's free joint."""
    values: list[Scalar] = [0.0] * around.plan.nv
    for leg, result in zip(structure.legs, found.results, strict=True):
        for i, x in zip(leg.variables, result, strict=False):
            values[i] = x
    if structure.carrier and xi is not None:
        middle = center_part(around, structure)
        rates = part_function(
            _carrier_rates, middle, name="denoc_carrier", inline=_is_inlined(around.plan)
        )
        moving = _taken(values, structure.moving)
        found_rates = rates(_taken(q, middle.q), list(xi), moving)
        for i, x in zip(structure.carrier, found_rates, strict=True):
            values[i] = x
    return values


def loop_forces(
    around: Setting, terms: Constraints, q: Vector, v: Vector, vd: Vector, tau: Vector
) -> tuple[tuple[Scalar, ...], Scalar]:
    """Return the constraint forces of least norm of a motion, and the rank of the constraints."""
    model = around.model
    given = (around.plan, JointVector(q), JointVector(v), JointVector(vd))
    needed = rnea(*given, around.gravity, around.external)
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    rows = [[terms.jacobian[k].get(i, 0.0) for i in range(model.nv)] for k in live]
    factor = factor_orthogonal(as_traced(rows), cut=rank_cut(model, terms.value))
    left = [a - b for a, b in zip(needed, tau, strict=True)]
    forces = list(factor.solve_transpose(as_traced(left)))
    return scattered(forces, live, len(terms.value)), factor.rank


def denoc_forces(
    around: Setting,
    q: Vector,
    v: Vector,
    vd: Vector,
    structure: PlatformOnLegs,
    weights: Sequence[float] | None = None,
) -> tuple[list[Scalar], Held]:
    """Compute the forces of driven joints that produce a motion of a platform on legs (3.40).

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration that keeps loops closed [m/s^2 or rad/s^2], nv scalars.
        structure: Platform and legs with driven and passive joints.
        weights: Share of each leg in the load of the platform; None for the condition of its
            screws (L909-911).

    Returns:
        Joint force, nv scalars, zero at passive joints; and whether the motors hold the platform.
    """
    with taping(None):
        parts = leg_parts(around, structure)
        states = [
            LegState(*_state_of(part.part, q, v), _taken(vd, part.part.v), [], []) for part in parts
        ]
        middle = center_part(around, structure)
        terms = part_function(_inverse_center, middle, name="denoc_center")
        center = terms(*_state_of(middle, q, v), _taken(vd, middle.v))
        found = run(inverse_method(structure, parts, weights), center, states)
        return _joined(around, structure, q, found, None), found.center
