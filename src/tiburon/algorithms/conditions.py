"""What acts on a robot apart from its joints: one set of keywords for all of its dynamics.

Public functions of dynamics take `DynamicsCall` as keywords and hand them to `call_under`. Inside,
their algorithms meet a `Setting`: what the keywords come to in one state. A new influence on the
bodies is one more entry of `Conditions`, read in `_forces` and felt in `Setting.at`.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from tiburon.algorithms.closed_form import closed_form
from tiburon.algorithms.external import (
    check_by_name,
    external_inputs,
    external_options,
    given_forces,
    inertia_options,
    with_given_inertias,
)
from tiburon.algorithms.surroundings import surroundings, wetted
from tiburon.algorithms.tape_calls import scalars
from tiburon.functions.keywords import DYNAMICS_CALL
from tiburon.functions.library import LibraryFunction, Options, inputs_of
from tiburon.model import Model, Plan, World
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import WaterAround

__all__ = ["Setting", "dynamics_function"]

Arrays = Sequence[Any]


class Setting(NamedTuple):
    """What an algorithm runs under, in one state."""

    model: Model
    """The robot as its user built it."""

    options: Options
    """Choices that change the code."""

    arrays: Arrays
    """The arrays that conditions brought, as `condition_inputs` lists them."""

    plan: Plan
    """Layout of the model, with the numbers that its bodies have under these conditions."""

    gravity: Vec3
    """Acceleration of free fall, world axes [m/s^2]."""

    water: "WaterAround | None" = None
    """The water around it; None on land."""

    external: tuple[Force, ...] | None = None
    """Force on each plan body from outside, in its frame [N m, N]; None for no force at all."""

    @property
    def is_rigid(self) -> bool:
        """Whether bodies feel their own inertia and given forces alone, as rigid bodies on land do.

        Otherwise water acts on them, or a force that goes with acceleration has joined what they
        feel: recursions that know the ten numbers of a rigid body alone would leave that out.
        """
        return self.water is None and all(body.added is None for body in self.plan.bodies)

    @property
    def now(self) -> tuple[Scalar, ...]:
        """The time [s], as `at` takes it: nothing where nothing depends on it."""
        if self.water is not None:
            return (self.water.time,)
        return (self.plan.time,) if self.plan.depends_on_time else ()

    def at(self, q: Sequence[Scalar], v: Sequence[Scalar], *time: Scalar) -> "Setting":
        """Return what acts in a state, and at a time [s] where one is given."""
        plan = self.plan.at(*time) if time else self.plan
        water = self.water
        external = given_forces(plan, q, v, self.gravity, self.options, self.arrays)
        if water is not None:
            from tiburon.algorithms.water.fluid import water_forces

            water = water._replace(time=time[0]) if time else water
            plan, water = wetted(plan, q, water)
            felt = water_forces(plan, q, v, self.gravity, water)
            external = felt if external is None else tuple(map(add, external, felt))
        return self._replace(plan=plan, water=water, external=external)


def condition_inputs(model: Model, options: Options) -> list[Input]:
    """Return the arrays that conditions add to those of a function."""
    return external_inputs(model, options)


def dynamics_function(
    name: str,
    inputs: Sequence[str | Input],
    run: Callable[..., Any],
    *,
    more: Callable[[Model, Options], Sequence[Input]] | None = None,
    of_trees: bool = True,
) -> LibraryFunction:
    """Make a public function of dynamics that runs under any conditions.

    Args:
        name: Name of the public function.
        inputs: Its arrays as `inputs_of` takes them, "q" and "v" first.
        run: Called as ``run(setting, q, ...)`` with the scalars of each array of one case.
        more: Further arrays of the function's own that depend on its options.
        of_trees: Whether `run` itself heeds no loops.
    """
    usual = inputs_of(*inputs)

    def own_inputs(model: Model, options: Options) -> list[Input]:
        return [*usual(model, options), *(more(model, options) if more else ())]

    def all_inputs(model: Model, options: Options) -> list[Input]:
        return [*own_inputs(model, options), *condition_inputs(model, options)]

    def run_under(model: Model, world: World | None, options: Options, *arrays: Any) -> Any:
        count = len(own_inputs(model, options)) if more else len(inputs)
        own = [scalars(array) for array in arrays[:count]]
        given = arrays[count:]
        plan, gravity, water = surroundings(model, world)
        plan = with_given_inertias(plan, options, given)
        here = Setting(model, options, given, plan, gravity, water)
        closed = closed_form(name) if model.loops and of_trees else None
        return (closed or run)(here.at(*own[:2]), *own)

    # a kernel that travels to another process names the module that makes its function
    run_under.__module__ = run.__module__
    return LibraryFunction(
        name, all_inputs, run_under, of_trees=of_trees, keywords=DYNAMICS_CALL, forces=_forces
    )


def _forces(
    external_force: Mapping[str, ArrayLike] | None = None,
    external_axes: str = "frame",
    external_inertia: Mapping[str, ArrayLike] | None = None,
    **_: Any,
) -> tuple[Options, Arrays]:
    """Return the options and arrays that keywords of forces from outside come to."""
    for name, given in (("external_force", external_force), ("external_inertia", external_inertia)):
        check_by_name(name, given)
    options = external_options(external_force, external_axes)
    options += inertia_options(external_inertia)
    return options, (*(external_force or {}).values(), *(external_inertia or {}).values())
