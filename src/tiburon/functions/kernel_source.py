"""Sources of kernels of public functions: the cache key, the run-time parameters, the trace.

Masses, inertias, gravity and values of water are run-time parameters of a kernel; the structure of
model and world is compiled in and makes the key.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from tiburon.algorithms.setting import Options
from tiburon.algorithms.surroundings import (
    bound,
    gravity_parameters,
    gravity_vector,
    structure_around,
    water_parameters,
)
from tiburon.algorithms.tape_calls import scalars, taping
from tiburon.errors import TiburonError
from tiburon.functions.library import GEOMETRY, GRAVITY, INERTIA, LIBRARY, TIME, depends_on_time
from tiburon.model import Model, Plan, World
from tiburon.model.joints.joint import Joint
from tiburon.native.cache_file import blake2b
from tiburon.record import record
from tiburon.trace.declared import structure_text
from tiburon.trace.dependencies import KeyedCode
from tiburon.trace.graph import ANGLE_LIMIT
from tiburon.trace.program import Input, Program, trace

FLUID, IMMERSION = "fluid", "immersion"

INLINED_BODIES = 40
"""Bodies up to which every visit is inlined; larger models run on the tape."""


@record(slots=False)
class LibrarySource:
    """Where the kernel of public functions comes from: found by key, traced only when needed."""

    model: Model
    names: tuple[str, ...]
    world: World
    options: Options = ()

    def __post_init__(self) -> None:
        # here, since code that is found in the cache is not traced again
        for name in self.names:
            LIBRARY[name].refuse_loops(self.model)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return "_and_".join(self.names)

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is: functions, structure and options."""
        around = structure_text(structure_around(self.model, self.world))
        digest = blake2b(f"{self._asked} {around}".encode(), digest_size=16)
        digest.update(self.model.structure_key())
        return digest.hexdigest()

    @cached_property
    def _asked(self) -> str:
        """Functions and options as a text; some options are long."""
        return structure_text(("library 1", self.names, self.options))

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.model.check_unchanged()
        self.world.traced_key()
        for _, option in self.options:
            if isinstance(option, KeyedCode):
                option.check_unchanged()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with the modules to load, for a process that has not used the functions yet."""
        modules = tuple(LIBRARY[name].module for name in self.names)
        return _arrived, (modules, self.model, self.names, self.world, self.options)

    def _used(self, parameter: str) -> bool:
        return any(parameter in LIBRARY[name].parameters for name in self.names)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters the kernel is bound to."""
        names = [name for name in (INERTIA, GRAVITY) if self._used(name)]
        return parameter_values(self.model, self.world, names)

    def program(self) -> Program:
        """Trace the functions."""
        functions = [LIBRARY[name] for name in self.names]
        each = [function.inputs(self.model, self.options) for function in functions]
        inputs = list(dict.fromkeys(item for items in each for item in items))

        def run(given: Mapping[str, Any]) -> Any:
            results = [
                function.run(self.model, None, self.options, *[given[item.name] for item in items])
                for function, items in zip(functions, each, strict=True)
            ]
            return results[0] if len(results) == 1 else join_results(self.names, results)

        return trace_with_parameters(
            run, inputs, self.model, self.world, self.parameters(), self.name
        )

    def explain(self, given: Mapping[str, Any], where: str) -> TiburonError | None:
        """Return the error of a state that the check of `closure_options` refuses; None of others.

        Args:
            given: Inputs of the failed case by name, parameters included.
            where: Case of a batch, in words.
        """
        is_checked = dict(self.options).get("closure")
        if not is_checked or np.abs(given["q"]).max(initial=0.0) > ANGLE_LIMIT:
            return None
        from tiburon.functions.assembly import open_state
        from tiburon.loops.constraints import constraint_values
        from tiburon.loops.projection import projected_velocity

        plan, v = self.model.plan, given.get("v", ())
        if GEOMETRY in given:
            plan = plan.with_geometry(scalars(given[GEOMETRY]))
        if TIME in given:
            plan = plan.at(float(given[TIME]))
        q, rates = scalars(given["q"]), scalars(v)
        with taping(None):
            terms = constraint_values(self.model, plan, q, rates or None)
            return open_state(
                self.model,
                terms,
                v,
                lambda: projected_velocity(self.model, plan, q, rates),
                where,
            )

    def jacobian(self, *, values: bool) -> Program | None:
        """Trace the derivatives of dynamics by their own algorithm; None where there is none.

        Robots with closed loops, and those whose positions do not change by their velocities,
        have derivatives by steps of position, which are none by the entries of q.

        Args:
            values: Whether to return the function's own results first.
        """
        own = _DERIVATIVES.get(self.names[0]) if len(self.names) == 1 else None
        plain = all(type(j).position_rate is Joint.position_rate for j in self.model.joints)
        if own is None or self.options or self.model.loops or not plain:
            return None
        function = LIBRARY[own[0]]
        inputs = function.inputs(self.model, ())

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            found = function.run(self.model, None, (), *[given[item.name] for item in inputs])
            names = {f"dresult_d{item.name}": f"by_{item.name}" for item in inputs}
            if values:
                names = {"result": own[1], **names}
            return {name: found[part] for name, part in names.items()}

        return trace_with_parameters(
            run, inputs, self.model, self.world, self.parameters(), f"jacobian of {self.name}"
        )


_DERIVATIVES = {
    "forward_dynamics": ("forward_dynamics_derivatives", "vd"),
    "inverse_dynamics": ("inverse_dynamics_derivatives", "tau"),
}
"""Functions whose derivatives have an algorithm of their own, with the name of their result."""


def _arrived(modules: Sequence[str], *parts: Any) -> LibrarySource:
    """Return a source that came from another process."""
    for module in modules:
        import_module(module)
    return LibrarySource(*parts)


def parameter_values(model: Model, world: World, names: Sequence[str]) -> dict[str, Any]:
    """Return the run-time parameters of model and world that are structurally not zero, by name.

    In water, those of the water are always among them: its structure does not include them.
    So is the geometry of robots that take it at run time.
    """
    values = {INERTIA: model.plan.parameters, GRAVITY: gravity_parameters(world)}
    water = dict(zip((FLUID, IMMERSION), water_parameters(model, world), strict=True))
    found: dict[str, Any] = {name: values[name] for name in names if values[name]}
    found |= {name: values for name, values in water.items() if values}
    if model.plan.geometry is not None:
        found[GEOMETRY] = model.plan.geometry.numbers
    if depends_on_time(model, world):
        found[TIME] = 0.0
    return found


def trace_with_parameters(
    run: Callable[[Mapping[str, Any]], Any],
    inputs: Sequence[Input],
    model: Model,
    world: World,
    parameters: Mapping[str, Any],
    name: str,
) -> Program:
    """Trace a function of a model whose inertial parameters and gravity are inputs.

    Args:
        run: Takes the arrays of one case by name.
        inputs: What callers pass.
        model: The robot the parameters belong to.
        world: Its surroundings.
        parameters: Values to take at run time; all others are compiled in.
        name: Name of the program.
    """
    bindable = [Input(key, np.shape(values), parameter=True) for key, values in parameters.items()]
    declared = [*inputs, *bindable]

    def function(*arrays: Any) -> Any:
        given = {item.name: array for item, array in zip(declared, arrays, strict=True)}
        plan: Plan = model.plan
        if GEOMETRY in parameters:
            plan = plan.with_geometry(scalars(given[GEOMETRY]))
        if INERTIA in parameters:
            plan = plan.with_parameters(scalars(given[INERTIA]))
        time: Any = given.get(TIME, 0.0)
        if TIME in parameters:
            plan = plan.at(time)
        gravity = world.gravity
        if GRAVITY in parameters:
            gravity = gravity_vector(world, scalars(given[GRAVITY]))
        water, fluid = None, ()
        if world.fluid is not None:
            from tiburon.algorithms.water.fluid import water_around

            own: dict[str, Sequence[Any]] = dict(
                zip((FLUID, IMMERSION), water_parameters(model, world), strict=True)
            )
            own |= {key: scalars(given[key]) for key in own if key in parameters}
            fluid = tuple(own[FLUID])
            water = water_around(model, world.fluid, fluid, own[IMMERSION], time)
        large = plan if len(plan.bodies) > INLINED_BODIES else None
        with bound(model, world, plan, gravity, water, fluid), taping(large):
            return run(given)

    return trace(function, declared, name=name)


def join_results(names: Sequence[str], results: Sequence[Any]) -> dict[str, Any]:
    """Return the results of several functions as one flat record."""
    joined: dict[str, Any] = {}
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Mapping):
            joined |= {f"{name}.{key}": part for key, part in result.items()}
        elif isinstance(result, tuple):
            joined |= {f"{name}.{place}": part for place, part in enumerate(result)}
        else:
            joined[name] = result
    return joined
