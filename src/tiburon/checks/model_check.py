"""Checks of one model: algorithm agreement, conservation laws, power balance, step sizes.

Symbols of the power balance:
    h       step of a run, and interval between its rows [s]
    e_h     energy residual at each row of such a run, divided by all energy exchanged

Forces are continuous functions of the state, so powers are continuous in time, with kinks where a
joint reaches a stop or reverses. Their trapezoidal sum over rows is then of order 2: e_h = e + c
h^2 + ..., where e is the residual in the limit of small steps. Two runs with steps h and h/2 give
e to the next order, e_h/2 + (e_h/2 - e_h) / 3 (Richardson's extrapolation: Hairer, Norsett and
Wanner 1993, "Solving ordinary differential equations I", sec. II.9), and an error bound that also
holds where kinks reduce the order to 1: |e_h/2 - e_h|. The balance fails if e is larger than this
bound and than rounding. Steps are halved until the bound is small; a robot whose light links hit
stops within a step is of order 1 throughout, and its bound stays larger.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.defaults import elements_of
from tiburon.actuation.element import per_degree_of_freedom
from tiburon.actuation.joint_laws import ended_laws
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops, apparent_joint_inertia
from tiburon.actuation.passive import FRICTION_SPEED
from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.checks.energy_flow import EnergyFlow, energy_flow, without_losses
from tiburon.errors import LoopError, RunFileError, TiburonError, UnknownNameError
from tiburon.functions.assembly import assemble, is_closed
from tiburon.functions.closed_loops import (
    constraint_residual,
    loop_dynamics,
    loop_jacobian,
    project_configuration,
    project_velocity,
)
from tiburon.functions.derivatives import forward_dynamics_derivatives
from tiburon.functions.dynamics import bias_force, forward_dynamics, inverse_dynamics, mass_matrix
from tiburon.functions.kinematics import kinetic_energy, momentum, potential_energy
from tiburon.model import WORLD, Model, Water, World
from tiburon.model.closure import joints_of, places_of
from tiburon.model.closure_kinds import ConstraintFunction
from tiburon.model.model_warnings import model_warnings
from tiburon.record import record
from tiburon.results.quantities import values_of
from tiburon.results.record import Record
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.modes import modes
from tiburon.simulation.simulate import simulate
from tiburon.version import installed_version
from tiburon.viewer.report import Section, Verdict, report_html, table_markup
from tiburon.written_file import write_file

PASSED, FAILED, WARNING, SKIPPED = "passed", "failed", "warning", "skipped"
"""Verdicts: correct; incorrect; probably unintended; not applicable."""


@record
class Finding:
    """The verdict of one check, with its reason."""

    name: str
    """What was checked."""

    verdict: str
    """"passed", "failed", "warning" (possible but probably unintended) or "skipped"."""

    text: str
    """The result in one sentence."""

    measured: float | None = None
    """The error, relative unless the text has a unit; None for findings without a value."""

    bound: float | None = None
    """Largest error that passes."""

    def as_data(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self)


def judged(name: str, measured: float, bound: float, text: str) -> Finding:
    """Return the finding for an error and its bound; a NaN fails."""
    return Finding(name, PASSED if measured <= bound else FAILED, text, float(measured), bound)


POSITION_DEVIATION = 0.2
"""Standard deviation of random positions about the initial one [rad or m]."""

CLOSURE_TOLERANCE, MAX_HALVINGS = 1e-9, 8
"""Residual of closed loops [m or rad]; halvings of a displacement that cannot be projected."""

VELOCITY_DEVIATION = 0.5
"""Standard deviation of random velocities [rad/s or m/s]."""


class Kicked(NamedTuple):
    """Random states of a robot that satisfy its loop closures."""

    q: Array
    """Positions [m or rad], shape (n, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, nv)."""


def start_position(model: Model, pose: str | None = None) -> Array:
    """Return a named configuration; by default the neutral one, or with loops the first named one.

    Raises:
        UnknownNameError: If there is no such pose.
    """
    if pose is None and model.loops and model.poses:
        pose = next(iter(model.poses))
    if pose is None:
        return model.neutral()
    if pose not in model.poses:
        raise UnknownNameError("pose", pose, tuple(model.poses))
    return np.array(model.poses[pose])


def kicked_states(model: Model, q: Array, count: int, seed: int) -> Kicked:
    """Return random states about a configuration, within joint limits.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        count: Number of states.
        seed: Seed of the random generator.
    """
    random = np.random.default_rng(seed)
    steps = POSITION_DEVIATION * random.standard_normal((count, model.nv))
    position = model.integrate(np.broadcast_to(q, (count, model.nq)), steps)
    for joint in model.joints:
        # limits bound the single coordinate of revolute and prismatic joints
        if joint.nq == 1 and joint.limits is not None:
            where = model.slice(joint.name, of="q")
            lower, upper = (
                float(np.min(np.asarray(x))) for x in (joint.limits.lower, joint.limits.upper)
            )
            inside = 0.05 * (upper - lower) if np.isfinite(upper - lower) else 0.0
            position[:, where] = np.clip(position[:, where], lower + inside, upper - inside)
    v = VELOCITY_DEVIATION * random.standard_normal((count, model.nv))
    if model.loops:
        position = _closed(model, q, position)
        v = project_velocity(model, position, v)
    return Kicked(position, v)


def _closed(model: Model, q: Array, kicked: Array) -> Array:
    """Project displaced configurations onto the loop closures, halving displacements that fail.

    Args:
        model: The robot.
        q: Closed configuration [m or rad], shape (nq,).
        kicked: Configurations about it, shape (n, nq).
    """
    start = np.broadcast_to(q, kicked.shape)
    share = np.ones((len(kicked), 1))
    displacement = np.asarray(model.difference(start, kicked))
    for _ in range(MAX_HALVINGS):
        found = project_configuration(model, model.integrate(start, share * displacement))
        left_open = ~(np.asarray(found.residual) <= CLOSURE_TOLERANCE)
        if not left_open.any():
            break
        share[left_open] *= 0.5
    return np.where(left_open[:, None], start, found.q)


ROUNDING = 1e-9
"""Largest difference between algorithms, relative to the forces: 1e6 rounding errors, because mass
matrices amplify them."""

STEP = 1e-5
"""Step of finite differences [rad, m or their rates]: truncation and rounding errors are about
1e-10 of the largest derivative, kinks of drag laws within a step up to 1e-5."""

DERIVATIVE_TOLERANCE = 2e-5
"""Largest difference between derivatives and finite differences, relative to the larger of the
largest derivative and the accelerations."""

MAX_CONDITION = 1e10
"""Condition number of a mass matrix that leaves six correct digits of accelerations."""

MAX_DERIVATIVE_DOF = 40
"""Most degrees of freedom for which derivatives are checked: larger models compile for minutes."""


def agreements(model: Model, world: World, states: Kicked) -> Iterator[Finding]:
    """Check that recursive algorithms and matrices give the same dynamics."""
    q, v = states
    # matrices and recursions are those of the tree; constraint forces are added
    tree = model.without_loops() if model.loops else model
    random = np.random.default_rng(1)
    H = mass_matrix(tree, q, fluid=world.fluid)
    bias = bias_force(tree, q, v, world=world)
    tau = bias + np.einsum("nij,nj->ni", H, random.standard_normal(v.shape))
    if model.loops:
        answer = loop_dynamics(model, q, v, tau, world=world)
        vd = answer.acceleration
        J = loop_jacobian(model, q)
        constraint_force = np.einsum("nci,nc->ni", J, answer.constraint_force)
    else:
        vd = forward_dynamics(model, q, v, tau, world=world)
        constraint_force = np.zeros_like(tau)
    sizes = (
        np.abs(np.einsum("nij,nj->ni", np.abs(H), np.abs(vd)))
        + np.abs(bias)
        + np.abs(constraint_force)
    )
    scale = np.max(sizes, axis=-1) + np.finfo(np.float64).tiny
    needed = inverse_dynamics(tree, q, v, vd, world=world) - constraint_force
    yield judged(
        "forward and inverse dynamics",
        _largest(needed - tau, scale),
        ROUNDING,
        "inverse dynamics of the accelerations from forward dynamics returns the joint forces "
        "applied",
    )
    rows = np.einsum("nij,nj->ni", H, vd) + bias - constraint_force
    yield judged(
        "mass matrix and bias force",
        _largest(rows - tau, scale),
        ROUNDING,
        "H vd + C = tau, by composite bodies and by recursion",
    )
    yield _kinetic(model, world, states, H)
    yield _positive(H)


def _kinetic(model: Model, world: World, states: Kicked, H: Array) -> Finding:
    """Check the kinetic energy from the mass matrix against the sum over bodies."""
    name = "kinetic energy"
    if model.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints driven by time have kinetic energy at v = 0")
    q, v = states
    kinetic = np.asarray(kinetic_energy(model, q, v, fluid=world.fluid))
    half = 0.5 * np.einsum("ni,nij,nj->n", v, H, v)
    return judged(
        name,
        float(np.max(np.abs(kinetic - half) / np.maximum(np.abs(kinetic), 1e-300))),
        ROUNDING,
        "v H v / 2 equals the sum over bodies",
    )


def _positive(H: Array) -> Finding:
    """Check that the mass matrix is positive definite, and its condition number."""
    values = np.linalg.eigvalsh(H)
    least, largest = float(values.min()), float(values.max())
    spread = largest / least if least > 0.0 else float("inf")
    verdict = FAILED if least <= 0.0 else WARNING if spread > MAX_CONDITION else PASSED
    text = f"eigenvalues from {least:.3g} to {largest:.3g}, condition number {spread:.2g}"
    if verdict == WARNING:
        text += "; links of such different inertia cost accuracy"
    return Finding("mass matrix is positive", verdict, text, spread, MAX_CONDITION)


def derivative_agreement(model: Model, world: World, states: Kicked) -> Finding:
    """Check derivatives of forward dynamics against finite differences."""
    name = "derivatives"
    if model.loops:
        return Finding(name, SKIPPED, "the robot has loops")
    if model.nv > MAX_DERIVATIVE_DOF:
        return Finding(
            name, SKIPPED, f"{model.nv} degrees of freedom; up to {MAX_DERIVATIVE_DOF} are checked"
        )
    q, v = states.q[0], states.v[0]
    vd = np.random.default_rng(2).standard_normal(model.nv)
    tau = inverse_dynamics(model, q, v, vd, world=world)
    found: Any = forward_dynamics_derivatives(model, q, v, tau, world=world)
    nv = model.nv
    step = STEP * np.eye(nv)
    by_q = _differences(
        forward_dynamics(model, model.integrate(np.tile(q, (nv, 1)), step), v, tau, world=world),
        forward_dynamics(model, model.integrate(np.tile(q, (nv, 1)), -step), v, tau, world=world),
    )
    by_v = _differences(
        forward_dynamics(model, q, v + step, tau, world=world),
        forward_dynamics(model, q, v - step, tau, world=world),
    )
    # where derivatives vanish, differences are rounding errors of the accelerations
    size = float(np.abs(vd).max())
    errors = [
        float(np.abs(ours - theirs).max()) / max(float(np.abs(theirs).max()), size)
        for ours, theirs in ((found.by_q, by_q), (found.by_v, by_v))
    ]
    return judged(
        name,
        max(errors),
        DERIVATIVE_TOLERANCE,
        "of forward dynamics, against central differences with steps of 1e-5",
    )


def _differences(after: Array, before: Array) -> Array:
    """Return central differences, one column per variable."""
    return np.asarray((after - before).T / (2.0 * STEP))


def _largest(errors: Array, scale: Array) -> float:
    return float(np.max(np.abs(errors) / scale[:, None]))


DURATION = 0.5
"""Duration of a run [s]."""

MAX_DRIFT = 1e-8
"""Largest relative change of a conserved quantity: rk4 at 1 ms drifts less for most robots."""

REFINEMENT = 4
"""Ratio of the steps of the first run and of a second one, for runs that drift more."""

MIN_ORDER = 3.0
"""Order with which the drift must decrease with the step; rk4 has order 4."""

RESIDUAL_TOLERANCE = 1e-9
"""Largest loop-closure error during a run [m or rad]."""


def run_of(model: Model, states: Kicked, dt: float, world: World, **options: Any) -> Trajectory:
    """Simulate from the first state without contact, which is checked apart; record every step."""
    return simulate(
        model,
        DURATION,
        q=states.q[0],
        v=states.v[0],
        world=world,
        method=RK4(dt=dt),
        contact=None,
        record=Record(every=1),
        execution=Execution(progress=False),
        **options,
    )


def ended_early(name: str, run: Trajectory) -> Finding | None:
    """Return the finding about a run that stopped early, or None."""
    if run.outcome.status == "finished":
        return None
    return Finding(name, FAILED, f"the run ended early: {run.outcome.message}")


def _conserved(
    name: str, model: Model, states: Kicked, world: World, measure: Any, what: str
) -> Finding:
    """Check that a quantity is conserved in a simulation.

    Args:
        name: Name of the finding.
        model: The robot, without losses.
        states: The first is the initial state.
        world: Its surroundings.
        measure: Function that returns the largest relative change in a run.
        what: Name of the conserved quantity.
    """
    dt = 1e-3
    model = model.without_passive().without_limits()
    run = run_of(model, states, dt, world)
    bad = ended_early(name, run)
    if bad is not None:
        return bad
    drift = measure(run)
    text = f"{what} over {DURATION:g} s by rk4 at {1e3 * dt:g} ms"
    if drift <= MAX_DRIFT:
        return judged(name, drift, MAX_DRIFT, text)
    finer = measure(run_of(model, states, dt / REFINEMENT, world))
    bound = max(MAX_DRIFT, drift / REFINEMENT**MIN_ORDER)
    text += f" changes by {drift:.1e}; with steps of {1e3 * dt / REFINEMENT:g} ms by {finer:.1e}"
    return judged(name, finer, bound, text)


def energy_conservation(model: Model, world: World, states: Kicked, name: str) -> Finding:
    """Check that total energy is conserved without drag and friction."""
    if model.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints driven by time do work")

    def change(run: Trajectory) -> float:
        kinetic = np.asarray(kinetic_energy(model, run.q, run.v, fluid=world.fluid))
        potential = np.asarray(potential_energy(model, run.q, world=world))
        total = kinetic + potential
        scale = float(kinetic.max()) + float(np.ptp(potential)) + np.finfo(np.float64).tiny
        return float(np.abs(total - total[0]).max()) / scale

    return _conserved(name, without_losses(model), states, world, change, "energy")


def momentum_conservation(model: Model, states: Kicked) -> Finding:
    """Check that a robot floating in free space conserves linear and angular momentum."""
    name = "momentum in free space"
    bases = [body.joint for body in model.bodies if body.parent == "world"]
    if len(bases) != 1 or bases[0].kind != "free":
        return Finding(
            name, SKIPPED, "the robot is fixed to the world, which exchanges momentum with it"
        )
    if _constrained_to_world(model):
        return Finding(
            name, SKIPPED, "loops connect the robot to the world, which exchanges momentum with it"
        )
    if model.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints are driven by time")
    space = World(gravity=(0.0, 0.0, 0.0))

    def change(run: Trajectory) -> float:
        h = np.asarray(momentum(model, run.q, run.v))
        parts = [h[:, :3], h[:, 3:]]
        return max(
            float(np.abs(part - part[0]).max()) / max(float(np.abs(part[0]).max()), 1e-300)
            for part in parts
        )

    return _conserved(name, without_losses(model), states, space, change, "momentum")


def _constrained_to_world(model: Model) -> bool:
    """Return whether loops may transmit force to the world: those that end there, and functions."""
    on_world = {WORLD, *(frame.name for frame in model.frames if frame.body == WORLD)}
    base = next(body.joint.name for body in model.bodies if body.parent == WORLD)
    return any(
        isinstance(loop, ConstraintFunction)
        or base in joints_of(loop)
        or on_world.intersection(places_of(loop))
        for loop in model.loops
    )


def loops_stay_closed(model: Model, run: Trajectory) -> Finding:
    """Check the loop-closure error during a run."""
    residuals = np.abs(constraint_residual(model, run.q))
    where = int(np.argmax(residuals.max(axis=0)))
    return judged(
        "loops in a run",
        float(residuals.max()),
        RESIDUAL_TOLERANCE,
        f"largest residual [m or rad] of {residuals.shape[1]} constraints, at constraint "
        f"{where + 1}",
    )


BOUND_TOLERANCE = 1e-4
"""Bound at which halving stops, relative to all energy exchanged."""

MAX_BOUND = 1e-2
"""Largest conclusive bound: above it, one percent of the energy could be missing unnoticed."""

MAX_ROWS = 50_000
"""Most rows of a run; halving of steps stops there."""

MIN_ROWS = 40
"""Fewest rows of a run whose energy is balanced."""

COMMAND = 0.3
"""Constant command of motors and thrusters, each in its own unit."""

SIGN_TOLERANCE = 1e-9
"""Energy that dissipative elements may supply through rounding, relative to the largest energy
exchanged between two rows: hydrodynamic powers are differences of forces, exact to 1e-12."""


class _Account(NamedTuple):
    """Residual of the energy balance of a run."""

    error: Array
    """e_h at each row."""

    floor: float
    """Bound of its rounding error."""


def power_balance(
    model: Model, world: World, states: Kicked, dt: float, fastest: str = ""
) -> Iterator[Finding]:
    """Check that the work of all elements equals stored energy plus dissipation in water.

    Motors and thrusters are commanded; friction and springs act, and stops as springs: impacts take
    energy in no time.

    Args:
        model: The robot.
        world: Its surroundings; still water.
        states: The first is the start.
        dt: Longest step [s].
        fastest: What has the fastest response, which decides the step; named where that fails.
    """
    name = "power balance"
    if model.plan.depends_on_time:
        yield Finding(name, SKIPPED, "joints driven by time do work")
        return
    names = [part.name for part in model.actuators] + [part.name for part in model.thrusters]
    stops = JointStops.of(model)
    options: dict[str, Any] = {
        "command": dict.fromkeys(names, COMMAND) or None,
        "elements": () if stops is None else (stops,),
    }
    model = model.without_limits()
    run = run_of(model, states, dt, world, **options)
    bad = ended_early(name, run)
    end = None
    if bad is not None:
        # from a random state, loops may reach a singular configuration
        if not model.loops or len(run) < MIN_ROWS:
            yield bad
            return
        yield Finding("run with all elements", WARNING, f"{bad.text}; its first half is balanced")
        # the last rows before a failure are not physical
        end = 0.5 * run.outcome.time
        run = run.part(stop=end)
    flow = energy_flow(run)
    text = (
        f"{flow.driven[-1]:.3g} J of work by {len(run.header.elements)} elements, "
        f"{flow.stored[-1]:.3g} J stored, {flow.lost[-1]:.3g} J dissipated in water"
    )
    coarse, h = _account(run, flow), dt
    because = f"; the fastest response is that of {fastest}" if fastest else ""
    finding = Finding(
        name,
        WARNING,
        f"{text}; not judged: steps of {1e3 * 0.5 * h:.3g} ms would be too many{because}",
    )
    while not _is_conclusive(finding) and DURATION / h <= 0.5 * MAX_ROWS:
        h *= 0.5
        whole = run_of(model, states, h, world, **options)
        last = whole.outcome
        if last.status != "finished" and (end is None or last.time < end):
            # its few rows would agree with the first ones of any other run
            verdict = WARNING if model.loops else FAILED
            yield Finding(name, verdict, f"steps of {1e3 * h:.3g} ms ended early: {last.message}")
            return
        finer = whole.part(stop=end)
        fine = _account(finer, energy_flow(finer))
        finding = _verdict(name, coarse, fine, f"{text}; steps of {1e3 * h:.3g} ms")
        coarse = fine
    if finding.verdict == FAILED:
        # what is faster than the steps, or the element whose work is not accounted for
        finding = replace(finding, text=finding.text + because)
    yield finding
    yield from _losses(run, flow)
    if model.loops:
        yield loops_stay_closed(model, run)


def _is_conclusive(finding: Finding) -> bool:
    """Return whether a finding needs no shorter steps."""
    bound = finding.bound
    return finding.verdict == PASSED and bound is not None and bound <= BOUND_TOLERANCE


def _verdict(name: str, coarse: _Account, fine: _Account, text: str) -> Finding:
    """Return the finding from two runs, the second with half the step."""
    both = min(len(coarse.error), (len(fine.error) + 1) // 2)
    before, after = coarse.error[:both], fine.error[::2][:both]
    change = after - before
    left = float(np.abs(after + change / 3.0).max())
    bound = float(np.abs(change).max()) + fine.floor
    text = (
        f"{text} leave a residual of {np.abs(after).max():.1e}, steps twice as long "
        f"{np.abs(before).max():.1e}; in the limit {left:.1e}"
    )
    found = judged(name, left, bound, text)
    if found.verdict == PASSED and bound > MAX_BOUND:
        return Finding(
            name, WARNING, f"{text}: the error bound is too large to decide", left, bound
        )
    return found


def _account(run: Trajectory, flow: EnergyFlow) -> _Account:
    """Return the residual of the energy balance, relative to the largest energy exchanged."""
    kinetic = np.abs(np.asarray(kinetic_energy(run.model, run.q, run.v, fluid=run.world.fluid)))
    potential = np.abs(np.asarray(potential_energy(run.model, run.q, world=run.world)))
    flows = max(float(np.abs(part).max()) for part in flow)
    scale = max(flows, float(kinetic.max()), float(np.finfo(np.float64).tiny))
    # rounding of sums over rows and of differences of energies
    eps = float(np.finfo(np.float64).eps)
    floor = eps * (len(run) * flows + 100.0 * float((kinetic + potential).max())) / scale
    return _Account((flow.driven - flow.stored - flow.lost) / scale, floor)


def _losses(run: Trajectory, flow: EnergyFlow) -> Iterator[Finding]:
    """Yield the check that dissipative elements (still water, friction, heat) supply no energy."""
    most = max(float(np.abs(np.diff(part)).max()) for part in flow)
    supplied: dict[str, float] = {}
    if np.any(flow.lost):
        supplied["water"] = -float(np.diff(flow.lost).min()) / most
    system = run.system
    assert system is not None
    dt = float(run.time[1] - run.time[0])
    for output in system.output_names:
        if output.endswith(".loss"):
            power = values_of(run, output)
            largest = max(most, dt * float(np.abs(power).max()), float(np.finfo(np.float64).tiny))
            supplied[output.removesuffix(".loss")] = -dt * float(power.min()) / largest
    if supplied:
        worst = max(supplied, key=lambda name: supplied[name])
        text = (
            f"energy supplied by {', '.join(map(repr, supplied))} between two rows, "
            f"most by {worst!r}"
        )
        yield judged("losses", max(supplied[worst], 0.0), SIGN_TOLERANCE, text)


STABILITY_LIMIT = 2.78
"""Largest |lambda| dt that rk4 damps, along the negative real axis (Hairer and Wanner 1996,
"Solving ordinary differential equations II", sec. IV.2); 2.83 along the imaginary one."""

ACCURATE_STEP = 0.5
"""|lambda| dt at which the error of an rk4 step is about 1e-4 of the fastest motion."""

MAX_STEP = 0.01
"""Longest recommended step [s]."""

DEFAULT_STEP = 1e-3
"""Default step of `simulate` [s]."""


class StepAdvice(NamedTuple):
    """A recommended step for rk4, with its reason."""

    dt: float
    """Recommended step [s]."""

    stable: float
    """Longest stable step [s]; infinite without restoring forces."""

    rate: float
    """Largest eigenvalue magnitude [1/s]."""

    cause: str
    """Mode or element of this eigenvalue."""

    ended: tuple[str, ...] = ()
    """Joints with laws that runs with the default step take at the ends of steps."""

    def finding(self) -> Finding:
        """Return the advice as a finding: a warning if the default step is too long."""
        fits = self.stable >= DEFAULT_STEP
        text = f"{self.cause}; recommended: dt = {self.dt:g} s"
        if self.rate:
            text = (
                f"fastest response {self.rate:.3g} 1/s ({self.cause}); rk4 is stable up to "
                f"{1e3 * self.stable:.3g} ms; recommended: dt = {self.dt:g} s"
            )
        if not fits:
            text += ", or method=tb.Rosenbrock()"
            if self.ended:
                text += (
                    "; runs with longer steps take friction, damping, stops and servos of "
                    f"{len(self.ended)} joints at the ends of steps, and are stable on these"
                )
        return Finding("step size", PASSED if fits else WARNING, text, self.dt)


def advise_step(model: Model, world: World, q: Array) -> StepAdvice:
    """Find the fastest response of a robot with all its elements, and a step that resolves it.

    Eigenvalues are those of the linearized motion at rest in q. Coulomb friction and stops, absent
    from a linearization at rest, count with their largest slope.

    Args:
        model: The robot.
        world: Its surroundings.
        q: Position [m or rad], shape (nq,).
    """
    found: list[tuple[float, str]] = [(0.0, "no restoring forces")]
    # frequencies of a mechanism with loops lie between those of its tree
    tree = model.without_loops() if model.loops else model
    near = modes(tree, q, world=world, solve=False)
    if len(near.members):
        fastest = max(near.members, key=lambda mode: abs(mode.eigenvalue))
        moving = np.concatenate([fastest.shape, fastest.states])
        place = int(np.argmax(np.abs(moving)))
        if abs(fastest.eigenvalue):
            inner = place >= model.nv
            label = "an internal state" if inner else f"{model.v_names[place]!r}"
            found.append((abs(fastest.eigenvalue), f"{fastest.kind} of {label}"))
    inertia = apparent_joint_inertia(model)
    for joint in model.joints:
        if joint.passive is None or joint.dof == 0:
            continue
        own = inertia[model.slice(joint.name, of="v")]
        for f, m in zip(per_degree_of_freedom(joint.passive.friction, joint), own, strict=False):
            if f > 0.0:
                rate = f / (FRICTION_SPEED * float(m))
                found.append((rate, f"Coulomb friction of {joint.name!r}"))
    if any(isinstance(element, JointStops) for element in elements_of(model)):
        found.append((STOP_FREQUENCY, "joint stops"))
    rate, cause = max(found)
    if not rate:
        return StepAdvice(MAX_STEP, float("inf"), 0.0, cause)
    ended = tuple(dict.fromkeys(one.joint for one in ended_laws(model, DEFAULT_STEP)))
    longest = _round(min(MAX_STEP, ACCURATE_STEP / rate))
    return StepAdvice(longest, STABILITY_LIMIT / rate, rate, cause, ended)


def _round(step: float) -> float:
    """Round a step down to 1, 2 or 5 times a power of ten [s]."""
    power = 10.0 ** np.floor(np.log10(step))
    best = max(k for k in (1.0, 2.0, 5.0) if k * power <= step * (1.0 + 1e-12))
    return float(f"{best * power:.1g}")


Check = tuple[str, Callable[[], list[Finding]]]
"""Name of a check, and the function that runs it."""

STATE_COUNT = 4
"""Random states in which algorithms are compared."""

POSE_TOLERANCE = 1e-5
"""Largest loop-closure error in a named pose [m or rad]: digits of values in files."""


@public
@record(eq=False)
class ModelCheck:
    """Findings of all checks of a robot."""

    model: Model
    """The robot."""

    findings: tuple[Finding, ...]
    """In the order of the checks."""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not any(finding.verdict == FAILED for finding in self.findings)

    @property
    def clean(self) -> bool:
        """Whether there are neither failures nor warnings."""
        return self.passed and not any(finding.verdict == WARNING for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """Return all findings as plain data."""
        return {
            "name": self.model.name,
            "passed": self.passed,
            "findings": [finding.as_data() for finding in self.findings],
        }

    def page(self, sections: Sequence[Section] = ()) -> str:
        """Return all findings as an HTML page."""
        counts = Counter(finding.verdict for finding in self.findings)
        cards = [
            Verdict("passed" if self.passed else "failed", "verdict", _color_class(self.passed)),
            Verdict(str(counts[PASSED]), "checks passed"),
            Verdict(str(counts[FAILED]), "failed", _color_class(not counts[FAILED])),
            Verdict(str(counts[WARNING]), "warnings"),
        ]
        rows = [
            (f.name, f.verdict, _number(f.measured), _number(f.bound), f.text)
            for f in self.findings
        ]
        table = table_markup(rows, ("check", "verdict", "measured", "bound", "result"))
        return report_html(
            f"Checks of {self.model.name}",
            self.model.about.strip(),
            cards,
            [Section("Checks", body=table), *sections],
            f"tiburon {installed_version()}",
        )

    def save_page(self, path: Path, sections: Sequence[Section] = ()) -> None:
        """Write the page to a file.

        Raises:
            RunFileError: If it cannot be written.
        """
        write_file(path, self.page(sections), RunFileError)


def _color_class(good: bool) -> str:
    return "good" if good else "bad"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


@public
def check_model(
    model: Model,
    *,
    pose: str | None = None,
    fluid: Water | None = None,
    world: World | None = None,
    warnings: Sequence[str] = (),
    motion: bool = True,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ModelCheck:
    """Check a model: plausible parameters, algorithms, conservation laws, power balance, steps.

    Every check runs on this model itself, from random states about a pose, in compiled code.

    Args:
        model: The robot.
        pose: Name of the initial configuration; the neutral one by default, or, with loops, the
            first named one.
        fluid: Water for additional checks of bodies with hydrodynamic coefficients; its current is
            ignored.
        world: Surroundings with ground, for checks of contact; level ground with friction 0.8 for
            robots with contact points by default, none for others.
        warnings: Warnings raised when its file was read, reported as findings.
        motion: Whether to compute and simulate; False checks parameters only.
        seed: Seed of the random states.
        progress: Called with the name of each check before it runs.

    Raises:
        UnknownNameError: If there is no such pose.

    Example:
        ``assert tb.check_model(robot).passed``
    """
    at_least("seed", seed, 0)
    if fluid is not None:
        fluid.refuse_cases("check_model")
    start = start_position(model, pose)
    found: list[Finding] = []
    checks = _parameter_checks(model, warnings)
    if motion:
        checks = chain(
            checks,
            _motion_checks(model, start, fluid, seed),
            _contact_checks(model, start, world, seed),
        )
    for name, check in checks:
        if progress is not None:
            progress(name)
        try:
            found += check()
        except (TiburonError, ArithmeticError, np.linalg.LinAlgError) as error:
            # a check that cannot be computed is a finding about the model
            found.append(Finding(name, FAILED, f"could not be computed: {error}"))
    return ModelCheck(model, tuple(found))


def _parameter_checks(model: Model, warnings: Sequence[str]) -> Iterator[Check]:
    """Yield checks of model parameters."""
    yield "plausible parameters", lambda: list(_implausible(model, warnings))


def _motion_checks(model: Model, start: Array, fluid: Water | None, seed: int) -> Iterator[Check]:
    """Yield checks of dynamics and motion."""
    if model.loops:
        yield "loops in poses", lambda: list(_poses(model))
    if model.immovable_joint_names:
        listed = ", ".join(map(repr, model.immovable_joint_names))
        text = f"no inertia resists {listed}: accelerations are undefined"
        yield "dynamics", lambda: [Finding("dynamics", FAILED, text)]
        return
    if model.nv == 0:
        yield (
            "dynamics",
            lambda: [Finding("dynamics", SKIPPED, "the robot has no degrees of freedom")],
        )
        return
    if model.loops and not is_closed(model, start, POSE_TOLERANCE):
        try:
            start = assemble(model, start).q
        except LoopError as error:
            text = f"loops cannot be closed: {error}"
            yield "dynamics", lambda: [Finding("dynamics", FAILED, text)]
            return
    states = kicked_states(model, start, STATE_COUNT, seed)
    wet = fluid is not None and any(body.fluid is not None for body in model.bodies)
    water = replace(fluid, current=(0.0, 0.0, 0.0)) if fluid is not None and wet else None
    land, world = World(), World(fluid=water)
    yield "algorithms", lambda: list(agreements(model, world, states))
    yield "derivatives", lambda: [derivative_agreement(model, world, states)]
    yield "energy", lambda: [energy_conservation(model, land, states, "energy, on land")]
    if wet:
        yield "energy", lambda: [energy_conservation(model, world, states, "energy, in water")]
    yield "momentum", lambda: [momentum_conservation(model, states)]
    dt, cause = DEFAULT_STEP, ""
    try:
        advice = advise_step(model, world, start)
    except TiburonError as error:
        text = f"the fastest response is unknown: {error}"
        yield "step size", lambda: [Finding("step size", SKIPPED, text)]
    else:
        dt, cause = min(advice.dt, DEFAULT_STEP), advice.cause if advice.rate else ""
        yield "step size", lambda: [advice.finding()]
    yield "power balance", lambda: list(power_balance(model, world, states, dt, cause))


def _contact_checks(model: Model, start: Array, world: World | None, seed: int) -> Iterator[Check]:
    """Yield checks of contact, where the robot has contact points or the world has ground."""
    from tiburon.checks.contact_check import contact_checks, default_world

    if (world is None or world.ground is None) and not model.contacts:
        return
    if model.nv == 0 or model.immovable_joint_names:
        return
    around = default_world() if world is None or world.ground is None else world
    # water is checked apart
    yield from contact_checks(model, start, World(around.gravity, around.ground), seed)


def _implausible(model: Model, warnings: Sequence[str]) -> Iterator[Finding]:
    """Yield parameters that are probably unintended."""
    name = "plausible parameters"
    doubts = [*warnings, *map(str, model_warnings(model))]
    for doubt in doubts:
        yield Finding(name, WARNING, doubt)
    if not doubts:
        yield Finding(name, PASSED, "masses, inertias, lengths and limits are plausible")


def _poses(model: Model) -> Iterator[Finding]:
    """Yield the loop-closure errors of named poses, or of the neutral configuration."""
    if not model.poses:
        neutral = model.neutral()
        if is_closed(model, neutral, POSE_TOLERANCE):
            text = "there is no named pose; the neutral configuration satisfies the closures"
            yield Finding("loops in the neutral configuration", PASSED, text)
            return
        away = float(np.abs(model.difference(neutral, assemble(model, neutral).q)).max())
        text = (
            f"open; joints must move by up to {away:.3g} m or rad to close them: add a pose "
            "'home' to the model in which they are closed"
        )
        yield Finding("loops in the neutral configuration", WARNING, text)
        return
    for name, pose in model.poses.items():
        q = np.array(pose)
        closed = project_configuration(model, q).q
        away = float(np.abs(model.difference(q, closed)).max())
        text = "distance to the nearest closed configuration [m or rad]"
        yield judged(f"loops in pose {name!r}", away, POSE_TOLERANCE, text)
