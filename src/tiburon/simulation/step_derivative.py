"""Derivatives of a whole step by forward mode: for robots whose steps have no analytical ones.

Compliant contacts are part of the rates. Hulls at a free surface change their inertia with their
pose, bodies with prescribed motion move the contacts, shapes may cross each other within a step,
and bounces change the forces that turn bodies. The step of a run itself is differentiated, once per
direction, as one derived function. After it, a robot with loops moves back onto them: changes of
position by the least motion in the metric of the masses, and velocities with them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.algorithms.tape_calls import scalars
from tiburon.contact.candidates import surfaces_of
from tiburon.contact.rigid import contact_problem, rigid_step
from tiburon.contact.rows import in_frame
from tiburon.loops.projection import projected_velocity
from tiburon.simulation.contact_modes import contact_modes
from tiburon.simulation.integrator_step import IntegratorStep
from tiburon.simulation.integrators.manifold import changes_along
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.linearization import movable_joints
from tiburon.simulation.step import Stepping
from tiburon.simulation.step_end import posed_end
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input
from tiburon.trace.regions import for_each, function


def step_derivative_kernel(system: System) -> Callable[..., Any]:
    """Return a kernel of a step of RK4 with contact: of q, v, tau, dt, discrete states and time.

    Its results are A, B, modes and margins of the contact points, and the residual of impulses.

    Args:
        system: The robot with rigid contact, without continuous states.
    """
    from tiburon.native.kernel import ProgramSource, make_kernel

    found: Callable[..., Any] | None = system.kept.get("derivative")
    if found is not None:
        return found
    model, count = system.model, len(system.z_names)
    n = model.nv

    def run(given: Any) -> Any:
        q, v, tau, z = (tuple(scalars(given[name])) for name in ("q", "v", "tau", "z"))
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        columns = step_columns(system, "rk4", (q, v, tau, z), given["dt"], given["time"], p)
        flat = [x for row in zip(*columns, strict=True) for x in row]
        whole = as_traced(flat).reshape(2 * n, 3 * n)
        u = (*tau, *(0.0,) * (len(system.command_names) - n), *z)
        modes, margin, residual = _modes(system, q, v, u, given["dt"], given["time"], p)
        return {
            "A": whole[:, : 2 * n],
            "B": whole[:, 2 * n :],
            "modes": as_traced(modes),
            "margin": as_traced(margin),
            "residual": residual,
        }

    sizes = {"q": (model.nq,), "v": (n,), "tau": (n,), "dt": (), "z": (count,), "time": ()}
    inputs = [Input(name, shape) for name, shape in sizes.items()]
    program = system.trace(run, inputs, "linearize_step")
    found = make_kernel(ProgramSource(program), system.parameters())
    system.kept["derivative"] = found
    return found


def step_columns(
    system: System,
    method: str,
    state: tuple[Scalars, Scalars, Scalars, Scalars],
    h: Scalar,
    time: Scalar,
    p: Sequence[Scalar],
) -> Sequence[Scalars]:
    """Return the changes of the state after a step along each direction of (dq, v, tau).

    Args:
        system: The robot, without continuous states.
        method: Name of the integrator.
        state: Configuration, joint velocity, joint force and discrete states, which stay the same.
        h: Length of the step [s].
        time: At its start [s].
        p: Run-time parameters of the elements.
    """
    stepping = Stepping(system, METHODS[method], p, settles=False, reuses=False)
    model = system.model
    joints, n = movable_joints(model), model.nv
    idle = (0.0,) * (len(system.command_names) - n)

    @function
    def along(
        q: Scalars,
        v: Scalars,
        tau: Scalars,
        z: Scalars,
        h: Scalar,
        time: Scalar,
        direction: Scalars,
    ) -> Scalars:
        # inside, all of these are leaves of a graph of their own
        q1, w1, _, _ = stepping.step(q, v, (), (*tau, *idle, *z), h, time)
        rates: list[Scalar] = []
        for joint, i, j in joints:
            rates += joint.position_rate(q[i], direction[j])
        changes = changes_along((*q1, *w1), (*q, *v, *tau), (*rates, *direction[n:]))
        moved: list[Scalar] = []
        for joint, i, _ in joints:
            moved += joint.velocity_of_rate(q1[i], changes[i])
        if not model.loops:
            return (*moved, *changes[len(q1) :])
        rates_after = tuple(changes[len(q1) :])
        found: Scalars = settled(tuple(q1), tuple(w1), time + h, tuple(moved), rates_after)
        return found

    @function
    def settled(q: Scalars, v: Scalars, time: Scalar, dq: Scalars, dv: Scalars) -> Scalars:
        """Return changes after the least motion onto the loops, in the metric of the masses."""

        def onto(q: Scalars, v: Scalars) -> Scalars:
            plan = system.plan_at(q, v, time)
            return tuple(
                projected_velocity(model, plan, q, v, tolerance=system.loops.redundancy_tolerance)
            )

        closed = onto(q, dq)
        rates: list[Scalar] = []
        for joint, i, j in joints:
            rates += joint.position_rate(q[i], closed[j])
        return (*closed, *changes_along(onto(q, v), (*q, *v), (*rates, *dv)))

    def column(index: Scalar) -> Scalars:
        direction = tuple(np.where(index == float(k), 1.0, 0.0) for k in range(3 * n))
        found: Scalars = along(*state, h, time, direction)
        return found

    return for_each(3 * n, column)


def _modes(
    system: System,
    q: Scalars,
    v: Scalars,
    u: Scalars,
    h: Scalar,
    time: Scalar,
    p: Sequence[Scalar],
) -> tuple[list[Scalar], list[Scalar], Scalar]:
    """Return modes and margins of the contact points in a step, and the residual of impulses."""
    rigid = system.find(RigidContactElement)
    assert rigid is not None
    element = rigid.element

    def rates(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        return system.rates(q, w, u, time, p)

    manifold = system.held_loops.manifold()
    after = rk4_step(manifold, rates, q, v, h, time)
    step = IntegratorStep(system, manifold, (q, v), after, u, h, time, p)
    posed = posed_end(step, whole=True)
    assert posed.contact is not None
    gaps, points, numbers = posed.contact
    states = element.point_states(u[system.discrete][rigid.z])
    surfaces = surfaces_of(element.candidates, numbers, [point.geometry for point in points])
    ends = posed.v1, posed.v_free, posed.v_start
    problem = contact_problem(gaps, points, surfaces, states, *ends, h)
    found = rigid_step(
        gaps,
        points,
        posed.compliance,
        surfaces,
        states,
        *ends,
        h,
        posed.tolerance,
        bounds=posed.terms.bounds,
        acting=posed.acting,
    )
    impulses = [
        -h * x
        for point, state in zip(points, found.states, strict=True)
        for x in in_frame(point, (state.mean[0], state.mean[1], state.mean[2]))
    ]
    speeds = [x for point in points for x in point.velocity(found.v)]
    modes, margin = contact_modes(problem, impulses, [0.0] * len(states), speeds, h)
    return modes, margin, found.residual
