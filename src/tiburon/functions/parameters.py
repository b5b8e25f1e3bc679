"""Parameters by name in calls of functions: values of a robot and its world for each batch element.

Compiled code takes parameters as tables that leave out zeros. Named ones are in these tables
whatever their value (`Model.at_run_time`, `World.at_run_time`): code is compiled once for a set of
names. Values are checked as those of a model are, before anything runs. Surfaces of contacts, and
those of the ground, are parameters by name as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.arrays import Array
from tiburon.contact.candidates import Candidate, numbers_of
from tiburon.errors import ModelError, TiburonError, TraceError
from tiburon.functions.library import GEOMETRY
from tiburon.model import Coupled, Ground, Model, Water, World
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.composition import with_placements
from tiburon.model.contact_kinds import MATERIAL, ContactMaterial
from tiburon.model.model import per_model
from tiburon.model.parameters import (
    LISTING,
    PLACEMENT,
    ROWS,
    Parameter,
    model_parameters,
    parameter,
    plain,
    read_values,
    run_time_leaves,
    with_value,
)
from tiburon.model.placements import placed_parts
from tiburon.model.plan import INERTIAL_PARAMETERS, WORLD_BODY, RunTime
from tiburon.record import record
from tiburon.spatial import RigidInertia
from tiburon.trace.program import current_graph

PASSIVE = ("damping", "friction", "stiffness", "rest")
"""What joints do by themselves."""


class CaseRows(dict[str, Array]):
    """Tables of run-time parameters as code takes them, by the names of its inputs."""


class Varied(NamedTuple):
    """A robot and its world of which some parameters differ from case to case."""

    model: Model
    """The robot; what is named is taken at run time."""

    world: World
    """Its surroundings, likewise; water of the first case."""

    rows: CaseRows
    """The values, with leading dimensions of cases where they differ."""


def at_run_time(model: Model, world: World, parameters: Iterable[Parameter]) -> tuple[Model, World]:
    """Return a robot and its world of which code takes all that is named at run time."""
    listed = list(parameters)

    def owners(part: str, *words: str) -> frozenset[str]:
        return frozenset(
            x.owner for x in listed if x.part == part and (not words or x.path[0] in words)
        )

    run_time = RunTime(
        inertias=owners("body"),
        fluids=owners("water"),
        armatures=owners("joint", "armature"),
        passives=frozenset(x.name for x in listed if x.part == "joint" and x.path[-1] in PASSIVE),
        placements=frozenset(x.name for x in listed if x.part == PLACEMENT),
    )
    around = [part for part in ("gravity", "fluid") if owners(part)]
    return _known(model, run_time), world.at_run_time(around) if around else world


@per_model
def _known(model: Model, run_time: RunTime) -> Model:
    """Return a robot with parameters at run time: the same one for the same names."""
    return model.at_run_time(run_time)


def vary(model: Model, world: World | None, given: Mapping[str, Any]) -> Varied:
    """Return a robot and its world with parameters by name in place of their own.

    Args:
        model: The robot.
        world: Its surroundings, whose water may differ from case to case; the default ones if None.
        given: Values by name, one or one per case.

    Raises:
        ModelError: If a value is not one that a model can have; the message names the case.
    """
    around = DEFAULT_WORLD if world is None else world
    known = dynamics_parameters(model, around)
    return lowered(model, around, read_values(known, given), known)


def vary_call(
    function: str, model: Model, world: World | None, given: Mapping[str, Any] | None
) -> tuple[Model, World | None, Mapping[str, Any]]:
    """Return robot, world and parameter tables for values by name, in a call of a function."""
    if isinstance(given, CaseRows):
        return model, world, given
    if current_graph() is not None:
        raise TraceError(
            f"{function}: inside a traced function parameters are those of one case, got "
            "parameters= or water that differs from case to case; give them to the compiled "
            "kernel, or to simulate",
            function=function,
        )
    return vary(model, world, {} if given is None else given)


def dynamics_parameters(model: Model, world: World) -> dict[str, Parameter]:
    """Return the parameters that dynamics depends on, by name."""
    found: dict[str, Parameter] = {}
    wet = _body_fluid_parameters(model) if world.fluid is not None else ()
    for item in (*model_parameters(model, world), *wet):
        if item.name in found:
            raise ModelError(
                f"parameters: {item.name!r} is a number of two parts of model {model.name!r}; give "
                "bodies and joints names of their own"
            )
        found[item.name] = item
    return found


def _body_fluid_parameters(model: Model) -> Iterator[Parameter]:
    """Iterate over the hydrodynamic coefficients of bodies."""
    # loaded where there is water
    from tiburon.hydro.immersion import immersion_of

    none = np.zeros((6, 6))
    for body in model.bodies:
        frame = model.plan.frame(body.name)
        if frame.body == WORLD_BODY:
            continue
        fluid = body.fluid or BodyFluid()
        for word in ("volume", "center_of_buoyancy"):
            yield parameter("water", body.name, word, getattr(fluid, word), ("fluid", word))
        for word in ("added_mass", "linear_damping", "quadratic_damping"):
            found = getattr(fluid, word)
            value = plain(none) if found is None else found
            yield parameter("water", body.name, word, value, ("fluid", word))

        def code(given: BodyFluid, X: Any = frame.transform) -> tuple[object, Sequence[float]]:
            met = replace(immersion_of([(given, X)]), run_time=True)
            return met.structure(), met.parameters()

        shapes = replace(BodyFluid(), drag=fluid.drag, fins=fluid.fins)
        for word, value, path in run_time_leaves(shapes, code):
            if path[0] in ("drag", "fins"):
                yield parameter("water", body.name, word, value, ("fluid", *path))


def lowered(
    model: Model, world: World, values: Mapping[str, Array], known: Mapping[str, Parameter]
) -> Varied:
    """Return what `vary` returns, for values that have been read."""
    named = [known[name] for name in values]
    fluid = world.fluid
    template = world
    several = world.cases is not None
    if fluid is not None and several:
        template = replace(world, fluid=fluid.case(0))
    wide, around = at_run_time(model, template, named)
    if several and "fluid" not in around.run_time:
        around = around.at_run_time((*around.run_time, "fluid"))
    rows = CaseRows()
    by_part: dict[str, dict[Parameter, Array]] = {}
    for item in named:
        by_part.setdefault(item.part, {})[item] = values[item.name]
    armatures = {x: a for x, a in by_part.get("joint", {}).items() if x.path[0] == "armature"}
    if "body" in by_part or armatures:
        rows["inertia"] = _inertia_rows(wide, by_part.get("body", {}), armatures)
    if PLACEMENT in by_part:
        rows[GEOMETRY] = _geometry_rows(wide, by_part[PLACEMENT])
    if "gravity" in by_part:
        gravity = by_part["gravity"]
        rows["gravity"] = rows_of(
            gravity,
            lead_of(gravity),
            lambda _, values: replace(template, gravity=next(iter(values.values()))).gravity,
        )
    if "fluid" in by_part or several:
        assert fluid is not None
        rows["fluid"] = _fluid_rows(fluid, by_part.get("fluid", {}))
    if "water" in by_part:
        rows["immersion"] = _immersion_rows(wide, around, by_part["water"])
    return Varied(wide, around, rows)


def case_message(error: TiburonError, index: tuple[int, ...]) -> ModelError:
    """Return an error about a value of one case, with the case in front."""
    case = index[0] if len(index) == 1 else index
    return ModelError(f"parameters, case {case}: {error}" if index else f"parameters: {error}")


def lead_of(arrays: Mapping[Parameter, Array]) -> tuple[int, ...]:
    """Return the common leading dimensions of values."""
    leads = {x.name: a.shape[: a.ndim - len(x.shape)] for x, a in arrays.items()}
    try:
        return np.broadcast_shapes(*leads.values())
    except ValueError:
        listed = ", ".join(f"{name} {lead}" for name, lead in leads.items())
        raise ModelError(
            f"parameters: expected as many cases in each, or one value, got {listed}; give every "
            "array the same number of cases"
        ) from None


def by_case(
    arrays: Mapping[Parameter, Array], lead: tuple[int, ...], places: Any = None
) -> Iterator[tuple[tuple[int, ...], dict[Parameter, Any]]]:
    """Go through cases: the index of each, with its values as parts hold them.

    Args:
        arrays: Values with leading dimensions of cases or none.
        lead: Shape of the cases.
        places: Indices of the cases to go through; all of them by default.
    """
    whole = {x: np.broadcast_to(a, (*lead, *x.shape)) for x, a in arrays.items()}
    for place in np.ndindex(*lead) if places is None else places:
        index = tuple(int(k) for k in place)
        yield index, {x: plain(a[index]) for x, a in whole.items()}


def model_of_case(model: Model, values: Mapping[Parameter, Any]) -> Model:
    """Return a robot with the values of one case in place of its own, checked as every robot is."""
    parts = model._parts
    fields = {"actuator": "actuators", "thruster": "thrusters", "spring": "springs"}
    fields |= {"cylinder": "cylinders", "cable": "cables"}
    owned: dict[tuple[str, str], list[tuple[Parameter, Any]]] = {}
    placed: dict[str, dict[str, Any]] = {}
    for item, value in values.items():
        if item.part == PLACEMENT:
            placed.setdefault(item.owner, {})[str(item.path[0])] = value
            continue
        kind = "body" if item.part == "water" else item.part
        owned.setdefault((kind, item.owner), []).append((item, value))

    def changed(kind: str, part: Any) -> Any:
        for item, value in owned.get((kind, part.name), ()):
            try:
                part = with_value(part, item.path, value)
            except ModelError as error:
                if error.name is not None:
                    raise
                raise ModelError(f"{kind} {part.name!r}, {error}", name=part.name) from None
        return part

    bodies = []
    for body in parts.bodies:
        joint = changed("joint", body.joint)
        bodies.append(changed("body", body if joint is body.joint else replace(body, joint=joint)))
    others = {
        field: tuple(changed(kind, part) for part in getattr(parts, field))
        for kind, field in fields.items()
    }
    parts = parts._replace(bodies=tuple(bodies), **others)
    if placed:
        parts = with_placements(parts, placed_parts(model), placed)
    found = Model._of(model.name, parts, model.about, not model.immovable_joint_names)
    return found.at_run_time(model.run_time)


def robot_of_case(
    model: Model, given: Mapping[str, Any] | None, cases: tuple[int, ...], case: tuple[int, ...]
) -> Model:
    """Return a robot with the values that one case of a call on dry land has.

    Args:
        model: The robot.
        given: Values by name, one or one per case; None for its own.
        cases: Shape of the cases.
        case: Index of the case.
    """
    if given is None:
        return model
    known = dynamics_parameters(model, DEFAULT_WORLD)
    values = {known[name]: array for name, array in read_values(known, given).items()}
    (_, own), *_ = by_case(values, cases, [case])
    return model_of_case(model, {x: value for x, value in own.items() if x.part != "gravity"})


def geometry_of(rows: Mapping[str, Array] | None, cases: Any = ...) -> CaseRows | None:
    """Return the table of placements alone, of some cases; None if there is none.

    Args:
        rows: All tables, shape (values,) or (cases, values).
        cases: Which cases; all by default.
    """
    if not rows or GEOMETRY not in rows:
        return None
    table = rows[GEOMETRY]
    return CaseRows({GEOMETRY: table if table.ndim == 1 else table[cases]})


def with_geometry_of(model: Model, rows: Mapping[str, Array] | None, case: int) -> Model:
    """Return a robot with the placements that it has in one case, as constants."""
    found = geometry_of(rows, case)
    geometry = model.plan.geometry
    if found is None or geometry is None:
        return model
    numbers = found[GEOMETRY].tolist()
    given: dict[str, dict[str, Any]] = {}
    for k, name in enumerate(geometry.names):
        word, _, field = name.rpartition(".")
        given.setdefault(word, {})[field] = numbers[3 * k : 3 * k + 3]
    parts = with_placements(model._parts, placed_parts(model), given)
    return Model._of(model.name, parts, model.about, not model.immovable_joint_names)


def without_closures(
    model: Model, rows: Mapping[str, Array] | None
) -> tuple[Model, CaseRows | None]:
    """Return the tree of a robot with loops, and tables of run-time parameters for it."""
    tree, run_time = model.without_loops(), model.run_time
    names = sorted(run_time.placements)
    known = placed_parts(tree)
    kept = [k for k, name in enumerate(names) if name.rpartition(".")[0] in known]
    tree = tree.at_run_time(run_time._replace(placements=frozenset(names[k] for k in kept)))
    if not rows:
        return tree, None
    found = CaseRows(rows)
    if GEOMETRY in found:
        places = [3 * k + axis for k in kept for axis in range(3)]
        table = found.pop(GEOMETRY)[..., places]
        if kept:
            found[GEOMETRY] = table
    return tree, found


def _geometry_rows(model: Model, given: Mapping[Parameter, Array]) -> Array:
    """Return the geometry of the plan, all cases at once."""
    geometry = model.plan.geometry
    assert geometry is not None
    lead = lead_of(given)
    values = {item.name: np.broadcast_to(array, (*lead, 3)) for item, array in given.items()}
    return np.concatenate([values[name] for name in geometry.names], axis=-1)


def _inertia_rows(
    model: Model, inertias: Mapping[Parameter, Array], armatures: Mapping[Parameter, Array]
) -> Array:
    """Return the inertial parameters of the plan, all cases at once."""
    lead = lead_of({**inertias, **armatures})
    bodies = {body.name: body for body in model.bodies}
    own: dict[str, dict[str, Array]] = {}
    for item, array in inertias.items():
        whole = np.broadcast_to(array, (*lead, *item.shape))
        own.setdefault(item.owner, {})[str(item.path[-1])] = whole
    felt = _armatures(model, armatures)
    found: dict[str, RigidInertia] = {}
    odd = np.zeros(lead, dtype=bool)
    for name, given in own.items():
        inertia = bodies[name].inertia
        mass = given.get("mass", np.broadcast_to(inertia.mass, lead))
        com = given.get("com", np.broadcast_to(inertia.com, (*lead, 3)))
        tensor = given.get("tensor", np.broadcast_to(inertia.tensor, (*lead, 6)))
        odd |= ~(mass > 0.0)
        if "tensor" in given:
            odd |= ~_plainly_right(tensor)
        elif "com" in given and not inertia.is_definite:
            # a point on the axis of its joint is one that nothing resists
            odd[...] = True
        axes = (tuple(np.moveaxis(array, -1, 0)) for array in (com, tensor))
        found[name] = RigidInertia.from_mass(mass, *axes)
    # what is not plainly right is for a model to judge
    given_here = {**inertias, **armatures}
    for index, values in by_case(given_here, lead, np.argwhere(odd)):
        try:
            model_of_case(model, values)
        except TiburonError as error:
            raise case_message(error, index) from None
    used = inertia_numbers(model, found, felt)
    return np.stack([np.broadcast_to(np.asarray(x, dtype=np.float64), lead) for x in used], axis=-1)


def inertia_numbers(
    model: Model, inertias: Mapping[str, RigidInertia], armatures: Mapping[int, Sequence[Any]]
) -> list[Any]:
    """Return the inertial parameters of the plan that code takes; floats, arrays or traced values.

    Args:
        model: The robot, with parameters at run time.
        inertias: Inertias of bodies in place of their own, by name.
        armatures: Armatures by the first velocity variable of their joint.
    """
    plan = model.plan
    links = {plan.frame(name).body for name in inertias}
    numbers: list[Any] = []
    for link in plan.bodies:
        total = link.inertia
        if link.index in links:
            total = RigidInertia.zero()
            for body in model.bodies:
                frame = plan.frame(body.name)
                if frame.body == link.index:
                    rigid = inertias.get(body.name, body.inertia.rigid)
                    total = total + frame.transform.inertia_to_parent(rigid)
        numbers += list(total)
    assert len(numbers) == len(INERTIAL_PARAMETERS) * len(plan.bodies)
    for link in plan.bodies:
        if link.armature is not None:
            numbers += list(armatures.get(link.v.start, link.armature))
    return [x for x, taken in zip(numbers, plan._used, strict=True) if taken]


def _plainly_right(tensor: Array) -> Any:
    """Return which tensors are physical by a wide margin, so that no exact check is needed."""
    xx, xy, xz, yy, yz, zz = np.moveaxis(tensor, -1, 0)
    good = np.ones(xx.shape, dtype=bool)
    # eigenvalues of tr(I) 1 - 2 I are positive where the triangle inequality holds
    spread = (yy + zz - xx, -2.0 * xy, -2.0 * xz, xx + zz - yy, -2.0 * yz, xx + yy - zz)
    for a, b, c, d, e, f in ((xx, xy, xz, yy, yz, zz), spread):
        second = a * d - b * b
        determinant = f * second - a * e * e - d * c * c + 2.0 * b * c * e
        trace = a + d + f
        good = good & (a > 0.0) & (second > 0.0) & (trace > 0.0)
        good = good & (determinant > 1e-9 * trace * trace * trace)
    return good


def _armatures(model: Model, given: Mapping[Parameter, Array]) -> dict[int, list[Any]]:
    """Return armatures by the first velocity variable of the joint on which they act."""
    values: dict[str, list[Any]] = {}
    for item, array in given.items():
        low = np.argwhere(array < 0.0)
        if len(low):
            index = tuple(low[0].tolist())
            case = index[: array.ndim - len(item.shape)]
            error = ModelError(
                f"joint {item.owner!r}: armature must be at least 0, got {array[index]:g}; check "
                "its sign"
            )
            raise case_message(error, case)
        own = [array] if not item.shape else [array[..., k] for k in range(item.shape[0])]
        values[item.owner] = own
    return felt_armatures(model, values)


def felt_armatures(model: Model, given: Mapping[str, Sequence[Any]]) -> dict[int, list[Any]]:
    """Return armatures by the first velocity variable of the joint on which they act.

    Args:
        model: The robot.
        given: Armatures of joints in place of their own, by name: floats, arrays or traced values.
    """
    felt: dict[int, list[Any]] = {}
    for joint in model.joints:
        if not joint.dof:
            continue
        own: list[Any] = list(given.get(joint.name, joint.armatures))
        start = model.slice(joint.name, of="v").start
        if isinstance(joint, Coupled):
            first = felt.get(start, [0.0])[0]
            felt[start] = [first + joint.ratio * joint.ratio * own[0]]
        else:
            others = felt.get(start, [0.0] * len(own))
            felt[start] = [a + b for a, b in zip(own, others, strict=True)]
    return felt


def _fluid_rows(fluid: Water, given: Mapping[Parameter, Array]) -> Array:
    """Return the parameters of the water in each case."""
    cases = () if fluid.cases is None else (fluid.cases,)
    lead = np.broadcast_shapes(cases, lead_of(given)) if _fits(cases, given) else ()

    def water(index: tuple[int, ...], values: Mapping[Parameter, Any]) -> Sequence[float]:
        one = fluid
        if fluid.cases is not None:
            one = fluid.case(index[-1] if fluid.cases > 1 else 0)
        for item, value in values.items():
            one = with_value(one, item.path, value)
        return one.at_run_time().parameters()

    return rows_of(given, lead, water)


def _fits(cases: tuple[int, ...], given: Mapping[Parameter, Array]) -> bool:
    lead = lead_of(given)
    try:
        np.broadcast_shapes(cases, lead)
    except ValueError:
        listed = ", ".join(item.name for item in given)
        raise ModelError(
            f"parameters: expected as many cases of {listed} as the water has, {cases[0]}, got "
            f"{lead}; give one value, or one per case"
        ) from None
    return True


def rows_of(
    given: Mapping[Parameter, Array],
    lead: tuple[int, ...],
    row: Callable[[tuple[int, ...], Mapping[Parameter, Any]], Sequence[float]],
) -> Array:
    """Return one row of values per case; errors name the case."""
    found = []
    for index, values in by_case(given, lead):
        try:
            found.append(tuple(row(index, values)))
        except TiburonError as error:
            raise case_message(error, index) from None
    return np.array(found, dtype=np.float64).reshape(*lead, -1)


def _immersion_rows(model: Model, world: World, given: Mapping[Parameter, Array]) -> Array:
    """Return the hydrodynamic coefficients of the bodies in each case."""
    from tiburon.algorithms.water.fluid import immersions, link_in_water, members_in_water

    assert world.fluid is not None
    apart = world.fluid.meets_bodies_apart
    run_time = model.run_time.fluids
    links = immersions(model, apart)
    members = members_in_water(model, run_time)
    touched = {model.plan.frame(item.owner).body for item in given}
    own = {
        index: tuple(x for part in link for x in part.parameters())
        for index, link in enumerate(links)
    }
    forms = {index: [part.structure() for part in links[index]] for index in touched}

    def row(_: tuple[int, ...], values: Mapping[Parameter, Any]) -> Sequence[float]:
        numbers = dict(own)
        for index in touched:
            changed = []
            for name, fluid, X in members[index]:
                for item, value in values.items():
                    if item.owner == name:
                        fluid = with_value(fluid, item.path[1:], value)
                changed.append((name, fluid, X))
            link = link_in_water(changed, apart, run_time)
            if [part.structure() for part in link] != forms[index]:
                names = ", ".join(item.name for item in values)
                raise ModelError(
                    f"{names}: expected values that leave the form of the shapes as it is, got "
                    "others, such as equal ends of a cylinder that differ in the model; run these "
                    "cases with a model of their own"
                )
            numbers[index] = tuple(x for part in link for x in part.parameters())
        return [x for index in range(len(links)) for x in numbers[index]]

    return rows_of(given, lead_of(given), row)


@record
class KernelParameters:
    """Values by name for a kernel that was compiled for some names."""

    model: Model
    """The robot."""

    world: World
    """Its surroundings."""

    names: tuple[str, ...]
    """What the kernel was compiled for."""

    def known(self) -> dict[str, Parameter]:
        """Return all parameters that a kernel may be compiled for, by name."""
        return dynamics_parameters(self.model, self.world)

    def declared(self, known: Mapping[str, Parameter]) -> dict[str, Array]:
        """Return the own values of all that the kernel takes; a component stands for its vector."""
        return read_values(known, dict.fromkeys(self.names, 0.0), reading=False)

    def at_run_time(self) -> tuple[Model, World]:
        """Return robot and world of which code takes all that is named at run time."""
        known = self.known()
        return at_run_time(self.model, self.world, [known[name] for name in self.declared(known)])

    def rows(self, given: Any) -> CaseRows:
        """Return the parameter tables for values by name."""
        known = self.known()
        values = read_values(known, given)
        declared = self.declared(known)
        for name in values:
            if name not in declared:
                listed = ", ".join(map(repr, self.names)) or "none"
                raise ModelError(
                    f"parameters[{name!r}]: expected a name that the kernel was compiled for, got "
                    f"one beyond {listed}; compile it with parameters=({name!r}, ...)"
                )
        own = {name: np.array(known[name].value) for name in declared if name not in values}
        return lowered(self.model, self.world, {**own, **values}, known).rows

    def refusal(self, table: str) -> Exception | None:
        """Return the error for a parameter table: its layout depends on which values are zero."""
        if table not in ROWS:
            return None
        return ModelError(
            f"{table}: expected values by name, got a table of numbers, whose places depend on "
            "which numbers are zero; compile(..., parameters=names) and call with "
            f"parameters={{name: values}} ({LISTING} lists all names)"
        )


GROUND = "ground"
"""Name of the ground as the owner of parameters."""

CONTACT = "contact"
"""Name of the contacts of a robot as the owner of parameters, as in runs."""

ELEMENT = "element"
"""Kind of parameters that belong to what acts on a robot."""


def contact_parameters(
    candidates: Sequence[Candidate], owner: str = CONTACT
) -> Iterator[Parameter]:
    """Yield the surface of each contact."""
    for k, candidate in enumerate(candidates):
        for word in MATERIAL:
            value, path = getattr(candidate.material, word), ("candidates", k, "material", word)
            yield parameter(ELEMENT, owner, f"{candidate.name}.{word}", value, path)


def ground_parameters(ground: Ground | None) -> Iterator[Parameter]:
    """Yield the surface of the ground, outside of its patches."""
    if ground is not None:
        for word in MATERIAL:
            yield parameter(GROUND, GROUND, word, getattr(ground, word), (word,))


def with_surfaces(
    candidates: Sequence[Candidate],
    ground: Ground | None,
    values: Mapping[Parameter, Any],
    owner: str = CONTACT,
) -> tuple[Candidate, ...]:
    """Return contacts with the surfaces of one case.

    Args:
        candidates: The shapes that may touch.
        ground: The ground, whose surface counts outside of its patches.
        values: Values of the case; those of other parts are left alone.
        owner: Name of the contacts as the owner of parameters.

    Raises:
        ModelError: If a surface cannot have such values.
    """
    found = list(candidates)
    below = {str(item.path[0]): x for item, x in values.items() if item.part == GROUND}
    if below:
        assert ground is not None
        surface = _changed(ground.material, below)
        found = [candidate.over(surface) for candidate in found]
    # all values of one surface together: single ones may contradict those that are replaced
    own: dict[int, dict[str, Any]] = {}
    for item, value in values.items():
        if item.part == ELEMENT and item.owner == owner:
            own.setdefault(int(item.path[1]), {})[str(item.path[3])] = value
    for k, given in own.items():
        found[k] = replace(found[k], material=_changed(found[k].material, given))
    return tuple(found)


def _changed(material: ContactMaterial, given: Mapping[str, Any]) -> ContactMaterial:
    """Return a surface with other coefficients."""
    own: dict[str, Any] = dict(zip(MATERIAL, material.values, strict=True))
    if "static_friction" in given and own["kinetic_friction"] == own["static_friction"]:
        # one coefficient for both: kinetic friction follows
        given = {"kinetic_friction": given["static_friction"], **given}
    return replace(material, **{**own, **given})


class Surfaces(NamedTuple):
    """Dimensions and surfaces of contacts in a call, and what else is given by name."""

    numbers: Array
    """As `numbers_of` lists them, with leading dimensions of cases where they differ."""

    others: Mapping[str, Any] | None
    """Values of other parameters by name; None if there are none."""


def surfaces_by_name(
    function: str,
    words: Sequence[str],
    model: Model,
    world: World,
    candidates: Sequence[Candidate],
    given: Mapping[str, Any] | None,
) -> Surfaces:
    """Return what contacts are made of, with values by name in place of their own.

    Args:
        function: Name of the function that is called, for messages.
        words: Coefficients of surfaces that enter its result.
        model: The robot.
        world: Its surroundings.
        candidates: The shapes that may touch.
        given: Values by name, one or one per case; also those of robot and surroundings.

    Raises:
        UnknownNameError: If there is no such parameter.
        ModelError: If a surface cannot have a value, with the case, or a value enters nothing.
    """
    if given is None or isinstance(given, CaseRows):
        return Surfaces(np.array(numbers_of(candidates)), given)
    own = (*contact_parameters(candidates), *ground_parameters(world.ground))
    named = {item.name: item for item in own}
    values = read_values({**dynamics_parameters(model, world), **named}, given)
    # where one coefficient is for both, kinetic friction follows
    entering = set(named)
    for item in own:
        kinetic = named.get(item.name.replace(".static_", ".kinetic_"), item)
        follows = kinetic.value == item.value and str(kinetic.path[-1]) in words
        if str(item.path[-1]) not in words and not follows:
            entering.remove(item.name)
    for name in values:
        if name in named and name not in entering:
            raise ModelError(
                f"parameters[{name!r}]: expected values that enter {function} (of surfaces "
                f"{', '.join(words)}), got one that does not; leave it out"
            )
    arrays = {named[name]: array for name, array in values.items() if name in named}
    others = {name: value for name, value in given.items() if name not in named}
    if not arrays:
        return Surfaces(np.array(numbers_of(candidates)), others or None)

    def row(_: tuple[int, ...], values: Mapping[Parameter, Any]) -> tuple[float, ...]:
        return numbers_of(with_surfaces(candidates, world.ground, values))

    return Surfaces(rows_of(arrays, lead_of(arrays), row), others or None)
