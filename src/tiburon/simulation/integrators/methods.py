"""All methods of integration, by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tiburon.errors import ModelError, OptionError, shown
from tiburon.simulation.integrators.dop853 import Dop853, Dop853Pair, dop853_step
from tiburon.simulation.integrators.dopri5 import Dopri5Pair, DormandPrince, dopri5_step
from tiburon.simulation.integrators.euler import (
    Euler,
    SemiImplicitEuler,
    euler_step,
    semi_implicit_euler_step,
)
from tiburon.simulation.integrators.integrator import (
    DEFAULT_ATOL,
    DEFAULT_DT,
    DEFAULT_RTOL,
    OWN,
    FixedIntegrator,
    Integrator,
)
from tiburon.simulation.integrators.kept_inertia import KEPT_STEPS_INFIX, keep_inertia
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.predictor_corrector import (
    PredictorCorrector,
    advance_block,
    start_block,
)
from tiburon.simulation.integrators.rk4 import RK4, rk4_step
from tiburon.simulation.integrators.rosenbrock import Rosenbrock, RosenbrockPair, rosenbrock_step
from tiburon.spatial import Scalars


def _block(points: int) -> Method:
    """Return the predictor-corrector with so many points in a block."""
    return Method(
        f"b{points}pc5",
        order=5,
        evaluations=2,
        step=dopri5_step,
        starts=partial(start_block, points),
        advances=partial(advance_block, points),
        points=points,
    )


def _own_step(integrator: FixedIntegrator, *state: Any) -> tuple[Scalars, Scalars]:
    """Take a step of an integrator of users; arguments as of `FixedIntegrator.step`."""
    found: Any = integrator.step(*state)
    parts = tuple(map(tuple, found)) if isinstance(found, (tuple, list)) else ()
    if tuple(map(len, parts)) != tuple(map(len, state[2:4])):
        raise ModelError(
            f"{type(integrator).__name__}.step: expected q and w one step later, "
            f"{len(state[2])} and {len(state[3])} numbers, got {shown(found)}; return both"
        )
    q, w = parts
    return q, w


class MethodTable(dict[str, Method]):
    """Methods by name; those that keep inertia are made on first use: "rk4_keeping_4".

    Methods of users are found among their integrators.
    """

    def __missing__(self, name: str) -> Method:
        if name in OWN:
            return Method(name, OWN[name].order, 1, partial(_own_step, OWN[name]))
        method, _, steps = name.partition(KEPT_STEPS_INFIX)
        if method not in self or not steps.isdigit():
            raise KeyError(name)
        return keep_inertia(self[method], int(steps))


METHODS = MethodTable(
    (method.name, method)
    for method in (
        Method("euler", 1, 1, euler_step),
        Method("semi_implicit_euler", 1, 1, semi_implicit_euler_step),
        Method("rk4", 4, 4, rk4_step),
        Method("dopri5", 5, 6, dopri5_step, Dopri5Pair()),
        Method("dop853", 8, 12, dop853_step, Dop853Pair()),
        Method("rosenbrock", 3, 3, rosenbrock_step, RosenbrockPair(), is_implicit=True),
        _block(1),
        _block(2),
        _block(4),
    )
)
"""Methods by name."""

FIXED: dict[str, Callable[[float], FixedIntegrator]] = {
    "euler": Euler,
    "semi_implicit_euler": SemiImplicitEuler,
    "rk4": RK4,
}

ADAPTIVE: dict[str, type[DormandPrince] | type[Dop853] | type[Rosenbrock]] = {
    "dopri5": DormandPrince,
    "dop853": Dop853,
    "rosenbrock": Rosenbrock,
}

BLOCKS = {"b1pc5": 1, "b2pc5": 2, "b4pc5": 4}
"""Points of predictor-correctors by name."""


def integrator_named(
    name: str,
    dt: float = DEFAULT_DT,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    adaptive: bool = True,
) -> Integrator:
    """Return the integrator of a name, as the command line has it.

    Args:
        name: Name in `METHODS`.
        dt: Step, or spacing of recorded times [s].
        rtol: Relative tolerance, of adaptive methods only.
        atol: Absolute tolerance, of adaptive methods only.
        adaptive: Whether methods that can adapt do.

    Raises:
        OptionError: If there is no such method, or tolerances are given for equal steps.
    """
    if name not in (*FIXED, *ADAPTIVE, *BLOCKS):
        raise OptionError("method", METHODS, name)
    if name in ADAPTIVE and adaptive:
        kind = ADAPTIVE[name]
        return kind(
            DEFAULT_RTOL if rtol is None else rtol, DEFAULT_ATOL if atol is None else atol, dt
        )
    if rtol is not None or atol is not None:
        raise OptionError("method with tolerances", tuple(ADAPTIVE), name)
    if name in ADAPTIVE:
        return ADAPTIVE[name].fixed(dt)
    return PredictorCorrector(BLOCKS[name], dt) if name in BLOCKS else FIXED[name](dt)


def method_of(setup: Mapping[str, Any]) -> Integrator:
    """Return the integrator that the setup of a run in its header stands for."""
    name, _, kept = str(setup["method"]).partition(KEPT_STEPS_INFIX)
    tolerances = (setup["rtol"], setup["atol"]) if setup["adaptive"] else (None, None)
    found = integrator_named(name, setup["dt"], *tolerances, adaptive=setup["adaptive"])
    return replace(found, keep_inertia=int(kept)) if kept else found  # type: ignore[type-var]
