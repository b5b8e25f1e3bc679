"""Joint wrenches of a shared load: what each joint transmits, as a function of the unknown forces.

Symbols (Nahon 1991, section 4.2.4):
    x       unknown forces
    w'      wrench that each joint transmits without x, by inverse dynamics of the tree
    F       wrench per unit of x: a component of x acts on all bodies that a joint carries

        tau = tau' - J^T x,     w = w' + F^T x                              (4.20), (4.29)

The source transmits wrenches on the moving pole; here x acts on the second body of a contact or
loop, so that joints that carry that body transmit less. All wrenches are taken about the origin of
the world and in its axes, where transmission over a joint changes nothing. Rows of single joints
(`wrench_rows`) have moments about the origin of the joint's body first, then forces, both in axes
of that body; they include the force of the actuator, as in the source.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.kinematics import Place, body_places, jacobian_columns
from tiburon.algorithms.rnea import transmitted
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import ancestors
from tiburon.contact.rows import ContactRow
from tiburon.errors import ModelError, UnknownNameError
from tiburon.load_sharing.problem import Problem, constraint_kinds
from tiburon.loops.constraints import loop_joint_load, traced_wrenches
from tiburon.model import Body, JointCoupling, LoopClosure, Model
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, cross, matrix_vector, subtract, transpose_vector
from tiburon.trace.array import as_traced

WRENCH_NAMES = ("nx", "ny", "nz", "fx", "fy", "fz")
"""Components of a wrench: moments, then forces."""

WrenchRows = list[tuple[ContactRow, Scalar]]
"""Six rows over x, each with its constant."""


class UnitLoad(NamedTuple):
    """What one unit of a component of x does."""

    wrenches: tuple[tuple[int, Force], ...]
    """Plan bodies and the wrenches on them, about the origin of the world [N m, N]."""

    along: ContactRow
    """Forces along joints, by velocity variable: those of gears between joints [N or N m]."""


class JointWrenches(NamedTuple):
    """The wrench that each joint of the tree transmits to its body, one entry per plan body."""

    constant: list[Force]
    """w', about the origin of the world [N m, N]."""

    rows: list[dict[int, Force]]
    """F, by component of x."""


def at_origin(place: Place, wrench: Force) -> Force:
    """Return a wrench given in a body's frame about the origin of the world and in its axes."""
    f = matrix_vector(place.R, wrench.force)
    return Force(add_cross(matrix_vector(place.R, wrench.moment), place.p, f), f)


def unit_loads(problem: Problem, places: Sequence[Place]) -> list[UnitLoad]:
    """Return what each component of x does; nothing where a contact does not touch."""
    plan, model, q = problem.setting.plan, problem.model, problem.q
    layout = problem.layout
    groups = layout.groups[layout.points : layout.points + len(model.loops)]
    # contacts, thrusters and cables push bodies
    pushed = [
        UnitLoad(tuple((body, Force(n, f)) for body, n, f in wrenches), {})
        for wrenches in problem.wrenches
    ]
    start = groups[0].first if groups else layout.size
    found: list[UnitLoad] = pushed[:start]
    for loop, group, on in zip(
        model.loops, groups, problem.touching[layout.points :], strict=False
    ):
        grip = problem.grips.get(group.name)
        for place, row in zip(group.places, group.rows, strict=True):
            column = problem.columns[place]
            if isinstance(loop, JointCoupling):
                found.append(UnitLoad((), dict(column)))
                continue
            unit = [1.0 if k == row else 0.0 for k in range(len(constraint_kinds(loop)))]
            if isinstance(loop, LoopClosure):
                if grip is not None and row < 3:
                    unit[:3] = grip.basis[row]
                on_bodies = loop_joint_load(loop, plan, places, unit).on_bodies
            else:
                on_bodies = traced_wrenches(loop, model, plan, q, places, unit)
            wrenches = [(body, at_origin(places[body], w) * on) for body, w in on_bodies]
            along: ContactRow = {}
            for name in getattr(loop, "seen_joints", ()):
                # what acts along a joint directly is what its wrenches do not explain
                own = model.slice(name, of="v")
                for i in range(own.start, own.stop):
                    rest = column.get(i, 0.0)
                    for body, w in wrenches:
                        columns = jacobian_columns(plan, JointVector(q), places, body, ZERO3)
                        if i in columns:
                            rest = rest - columns[i].dot(w)
                    along[i] = rest
            found.append(UnitLoad(tuple(wrenches), along))
    return [*found, *pushed[len(found) :]]


def joint_wrenches(
    problem: Problem, loads: Sequence[UnitLoad], places: Sequence[Place]
) -> JointWrenches:
    """Return the wrenches of all joints of the tree as functions of x (4.29)."""
    setting, q, v, vd = problem.setting, problem.q, problem.v, problem.vd
    plan = setting.plan
    alone = transmitted(plan, q, v, JointVector(vd), setting.gravity, setting.external)
    constant = [at_origin(place, f) for place, f in zip(places, alone, strict=True)]
    rows: list[dict[int, Force]] = [{} for _ in plan.bodies]
    for k, load in enumerate(loads):
        for body, wrench in load.wrenches:
            for carrier in ancestors(plan, body):
                known = rows[carrier].get(k)
                rows[carrier][k] = -wrench if known is None else known - wrench
    rest: list[Scalar] = [0.0] * plan.nv
    for k, change in enumerate(problem.motions, problem.layout.size - len(problem.motions)):
        # what bodies resist: no velocity, no gravity, no other force
        inertial = transmitted(plan, q, rest, JointVector(change), ZERO3)
        for own, place, wrench in zip(rows, places, inertial, strict=True):
            own[k] = at_origin(place, wrench)
    return JointWrenches(constant, rows)


def recovered(problem: Problem) -> dict[str, Any]:
    """Return w' and F about the origins of the user's bodies, world axes, by name.

    "constant" has shape (joints, 6), "rows" (joints, unknowns, 6); joints in the order of the
    plan's bodies.
    """
    plan, q = problem.setting.plan, problem.q
    places = body_places(plan, JointVector(q))
    wrenches = joint_wrenches(problem, unit_loads(problem, places), places)
    constant: list[Scalar] = []
    rows: list[Scalar] = []
    n = problem.layout.size
    for body, w, own in zip(plan.bodies, wrenches.constant, wrenches.rows, strict=True):
        origin = places[body.index].moved(plan.frame(body.name).transform).p
        constant += _about(origin, w)
        for k in range(n):
            rows += _about(origin, own[k]) if k in own else [0.0] * 6
    count = len(plan.bodies)
    return {
        "constant": as_traced(constant).reshape(count, 6),
        "rows": as_traced(rows).reshape(count, n, 6),
    }


def supported(problem: Problem) -> dict[str, Any]:
    """Return joint wrenches and reactions on the world, about its origin, by name.

    "constant" and "rows" are w' and F as in `recovered`; "reactions" has for each component of x
    the wrench on the world per unit and the place of its group, shape (unknowns, 7). Thrusters push
    the water, not the world.
    """
    plan, layout = problem.setting.plan, problem.layout
    places = body_places(plan, JointVector(problem.q))
    loads = unit_loads(problem, places)
    wrenches = joint_wrenches(problem, loads, places)
    n, count = layout.size, len(plan.bodies)
    constant = [x for wrench in wrenches.constant for x in wrench]
    rows: list[Scalar] = []
    for own in wrenches.rows:
        for k in range(n):
            rows += [*own[k]] if k in own else [0.0] * 6
    reactions: list[Scalar] = []
    held = layout.points + len(problem.model.loops)
    for index, group in enumerate(layout.groups):
        for place in group.places:
            total = Force.zero()
            for _, wrench in loads[place].wrenches if index < held else ():
                total = total - wrench
            reactions += [*total, float(index)]
    return {
        "constant": as_traced(constant).reshape(count, 6),
        "rows": as_traced(rows).reshape(count, n, 6),
        "reactions": as_traced(reactions).reshape(n, 7),
    }


def _about(point: Vec3, wrench: Force) -> list[Scalar]:
    """Return the six elements of a wrench given about the origin, about another point."""
    moment = subtract(wrench.moment, cross(point, wrench.force))
    return [*moment, *wrench.force]


def body_of(model: Model, joint: str) -> Body:
    """Return the body of a joint that can transmit a wrench.

    Raises:
        UnknownNameError: If there is no such joint.
        ModelError: If the joint is rigid, and its wrench is not known.
    """
    known = {body.joint.name: body for body in model.bodies}
    if joint not in known:
        raise UnknownNameError("joint", joint, list(known))
    if known[joint].joint.is_rigid:
        raise ModelError(
            f"joint {joint!r}: expected a joint that moves, got a rigid one, whose bodies are one "
            "link; name a moving joint",
            name=joint,
        )
    return known[joint]


def wrench_rows(problem: Problem, joints: Sequence[str]) -> list[WrenchRows]:
    """Return the wrenches of joints as rows over x."""
    plan = problem.setting.plan
    places = body_places(plan, JointVector(problem.q))
    of_all = joint_wrenches(problem, unit_loads(problem, places), places)
    found: list[WrenchRows] = []
    for joint in joints:
        frame = plan.frame(body_of(problem.model, joint).name)
        place = places[frame.body].moved(frame.transform)
        rows: WrenchRows = [({}, x) for x in _seen_from(place, of_all.constant[frame.body])]
        for component, wrench in of_all.rows[frame.body].items():
            for (row, _), x in zip(rows, _seen_from(place, wrench), strict=True):
                row[component] = x
        found.append(rows)
    return found


def _seen_from(place: Place, wrench: Force) -> tuple[Scalar, ...]:
    """Return a wrench about the origin of the world at a frame and in its axes."""
    moment = subtract(wrench.moment, cross(place.p, wrench.force))
    return (*transpose_vector(place.R, moment), *transpose_vector(place.R, wrench.force))
