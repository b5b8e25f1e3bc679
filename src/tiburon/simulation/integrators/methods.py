"""All methods of integration, by name."""

from functools import partial

from tiburon.simulation.integrators.dop853 import Dop853, dop853_step
from tiburon.simulation.integrators.dopri5 import Dopri5, dopri5_step
from tiburon.simulation.integrators.euler import euler_step, semi_implicit_euler_step
from tiburon.simulation.integrators.kept_inertia import KEPT_STEPS_INFIX, keep_inertia
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.predictor_corrector import advance_block, start_block
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.integrators.rosenbrock import Rosenbrock, rosenbrock_step


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


class MethodTable(dict[str, Method]):
    """Methods by name; those that keep inertia are made on first use: "rk4_keeping_4"."""

    def __missing__(self, name: str) -> Method:
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
        Method("dopri5", 5, 6, dopri5_step, Dopri5()),
        Method("dop853", 8, 12, dop853_step, Dop853()),
        Method("rosenbrock", 3, 3, rosenbrock_step, Rosenbrock(), is_implicit=True),
        _block(1),
        _block(2),
        _block(4),
    )
)
"""Methods by the name that users give."""
