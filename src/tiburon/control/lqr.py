"""Linear quadratic regulators: feedback gains about a state, on any configuration space.

Near a state the robot moves as dx/dt = A x + B u, with x = [dq, v - v0] and dq the step away from
q0 (`linearize`), so that quaternions need no special care. The gain K minimizes the integral (or,
with a step dt, the sum) of x^T Q x + u^T R u:

    continuous  A^T S + S A - S B R^-1 B^T S + Q = 0,          K = R^-1 B^T S
    discrete    S = A^T S A - A^T S B (R + B^T S B)^-1 B^T S A + Q,
                K = (R + B^T S B)^-1 B^T S A

The continuous equation is solved by the sign function of its Hamiltonian matrix (Roberts 1980),
the discrete one by doubling (Chu, Fan, Lin and Wang 2004). Both end with a check of the residual
and of the poles. With loops, x is reduced to the motions that keep them closed.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from tiburon.argument_checks import positive, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.closed_loops import loop_inverse_dynamics, loop_jacobian
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.keywords import STATE_CALL, StateCall, takes_conditions, unexpected_keyword
from tiburon.model import Model
from tiburon.record import record
from tiburon.simulation.linearization import linearize
from tiburon.trace.array import as_traced
from tiburon.trace.declared import traced
from tiburon.trace.program import current_graph

EQUILIBRIUM = 1e-6
"""Largest force that joints without input may need at the set point, relative to all forces."""

RESIDUAL = 1e-6
"""Largest residual of a Riccati equation, relative to its terms."""

MOST_STEPS = 100
"""Most steps of an iteration; both converge quadratically."""


@traced
@record(eq=False)
class LinearQuadraticRegulator:
    """Feedback about a set point; what `lqr` returns. It is a controller of `simulate`."""

    model: Model
    q: Array
    """Configuration of the set point, shape (nq,)."""

    v: Array
    """Velocity of the set point, shape (nv,)."""

    force: Array
    """Joint force that holds it, shape (nv,)."""

    gain: Array
    """K, shape (inputs, 2 nv): the inputs change by -K x."""

    inputs: tuple[int, ...]
    """Places of the inputs among joint forces."""

    cost: Array
    """S, shape (2 nv, 2 nv): the cost from x on is x^T S x."""

    poles: NDArray[np.complex128]
    """Eigenvalues of the closed loop: 1/s, or per step in discrete time."""

    dt: float | None
    """Step of the discrete regulator [s]; None in continuous time."""

    @public
    def state(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return x = [dq, v - v0], shape (..., 2 nv); traced in a traced function."""
        moved = self.model.difference(self.q, q)
        if current_graph() is None:
            return np.concatenate([moved, np.asarray(v, dtype=np.float64) - self.v], axis=-1)
        away = as_traced(v) - self.v
        return as_traced([*moved, *away])

    @public
    def tau(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return the joint force, shape (..., nv); traced in a traced function."""
        K = np.zeros((self.model.nv, self.gain.shape[1]))
        K[list(self.inputs)] = self.gain
        x = self.state(q, v)
        if current_graph() is None:
            return np.asarray(self.force - x @ K.T)
        rows = [sum(k * y for k, y in zip(row, x, strict=True) if k) for row in K.tolist()]
        return as_traced([f - r for f, r in zip(self.force.tolist(), rows, strict=True)])

    def __call__(self, state: Any) -> Any:
        """Return the joint force in a run; sampled where a `Sampled` holds it."""
        return self.tau(state.q, state.v)


@public
@takes_conditions
def lqr(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None,
    Q: ArrayLike,
    R: ArrayLike,
    *,
    dt: float | None = None,
    inputs: Sequence[str] | str | None = None,
    **conditions: Unpack[StateCall],
) -> LinearQuadraticRegulator:
    """Return the linear quadratic regulator about a state that the inputs can hold.

    Args:
        model: The robot.
        q: Configuration of the set point [m or rad], shape (nq,).
        v: Its velocity [m/s or rad/s], shape (nv,); None for rest.
        Q: Weight of x = [dq, v - v0], shape (2 nv, 2 nv) or its diagonal (2 nv,); positive
            semidefinite.
        R: Weight of the inputs, shape (m, m), its diagonal (m,), or one value; positive definite.
        dt: Step of a discrete regulator [s], for `Sampled` in a run; None for continuous time.
        inputs: Joints whose forces are inputs, by name; a free joint counts six, as of a vehicle
            whose thrusters are allocated. By default the actuated joints, and with thrusters the
            free ones.
        **conditions: What acts on the robot: `fluid`, `world` and others of `Conditions`.

    Raises:
        ModelError: If joints without input need a force at the set point: it is no equilibrium.
        DomainError: If no gain stabilizes the robot, or weights are not positive.

    Example:
        ``tb.lqr(rov, q, None, Q=np.ones(12), R=0.1, inputs="base", fluid=tb.Water())``
    """
    if not STATE_CALL.issuperset(conditions):
        raise unexpected_keyword("lqr", STATE_CALL, conditions)
    at = np.asarray(model.integrate(q, np.zeros(model.nv)))
    speed = np.zeros(model.nv) if v is None else np.asarray(v, dtype=np.float64)
    if at.ndim != 1 or speed.shape != (model.nv,):
        raise ShapeError("q, v", "one state", f"shapes {at.shape} and {speed.shape}")
    places = _inputs(model, inputs)
    weights = _weight(Q, 2 * model.nv, "Q"), _weight(R, len(places), "R")
    if np.linalg.eigvalsh(weights[1]).min() <= 0.0:
        raise DomainError("R", "a positive definite weight", "one with an eigenvalue of 0 or less")
    if np.linalg.eigvalsh(weights[0]).min() < -1e-12 * np.abs(weights[0]).max():
        raise DomainError("Q", "a positive semidefinite weight", "one with a negative eigenvalue")
    step = None if dt is None else positive("dt", dt, "s")
    force = _holding(model, at, speed, places, conditions)
    A, B = linearize(model, at, speed, force, dt=step, **conditions)
    B = B[:, list(places)]
    N = _closed(model, at, speed)
    back = np.linalg.pinv(N)
    Ar, Br, Qr = back @ A @ N, back @ B, N.T @ weights[0] @ N
    with np.errstate(over="ignore", invalid="ignore"):
        # weights that overflow are refused below
        S = (_discrete if step else _continuous)(Ar, Br, Qr, weights[1])
    M = weights[1] + Br.T @ S @ Br if step else weights[1]
    K = np.linalg.solve(M, Br.T @ S @ Ar if step else Br.T @ S)
    poles = np.linalg.eigvals(Ar - Br @ K).astype(np.complex128)
    slowest = np.abs(poles).max() if step else poles.real.max()
    if not np.isfinite(S).all() or slowest >= (1.0 if step else 0.0):
        raise DomainError(
            "inputs",
            "inputs that reach every motion that does not die out, and Q that weighs it",
            f"a closed loop with the pole {slowest:.3g}",
            advice="add inputs, or weigh all positions and velocities",
        )
    cost = back.T @ S @ back
    return LinearQuadraticRegulator(model, at, speed, force, K @ back, places, cost, poles, step)


def _inputs(model: Model, inputs: Sequence[str] | str | None) -> tuple[int, ...]:
    names = (inputs,) if isinstance(inputs, str) else inputs
    if names is None:
        names = model.actuated_joint_names
        if model.thrusters:
            free = [joint.name for joint in model.joints if joint.kind == "free"]
            names = (*free, *names)
    found = tuple(int(k) for k in model.indices(tuple(names), of="v"))
    if not found:
        raise ModelError(f"model {model.name!r}: expected one input or more, got none; name joints")
    return found


def _weight(value: ArrayLike, size: int, name: str) -> Array:
    refuse_unusable(name, value)
    found = np.asarray(value, dtype=np.float64)
    if found.ndim == 0:
        found = np.full(size, float(found))
    if found.shape == (size,):
        found = np.diag(found)
    if found.shape != (size, size):
        raise ShapeError(name, f"({size}, {size}) or ({size},)", f"shape {found.shape}")
    if not np.isfinite(found).all() or np.abs(found - found.T).max() > 1e-9 * np.abs(found).max():
        raise DomainError(name, "a finite symmetric matrix", "one that is not")
    return np.asarray(0.5 * (found + found.T))


def _holding(
    model: Model, q: Array, v: Array, places: tuple[int, ...], conditions: StateCall
) -> Array:
    """Return the joint force of the inputs that holds the set point."""
    rest = np.zeros(model.nv)
    if model.loops:
        names = [j.name for j in model.joints if set(model.indices(j.name, of="v")) & set(places)]
        found = loop_inverse_dynamics(model, q, v, rest, actuators=names, **conditions)
        return np.asarray(found.tau)
    force = np.asarray(inverse_dynamics(model, q, v, rest, **conditions))
    other = [k for k in range(model.nv) if k not in places]
    if other and np.abs(force[other]).max() > EQUILIBRIUM * max(np.abs(force).max(), 1.0):
        k = max(other, key=lambda k: abs(force[k]))
        raise ModelError(
            f"model {model.name!r}: expected an equilibrium of the inputs, but {model.v_names[k]} "
            f"needs {force[k]:.3g} N or N m; choose another state (`trim` finds one) or more inputs"
        )
    force[other] = 0.0
    return force


def _closed(model: Model, q: Array, v: Array) -> Array:
    """Return a basis of the states x that keep loops closed, shape (2 nv, k)."""
    if not model.loops:
        return np.eye(2 * model.nv)
    if np.abs(v).max() > 0.0:
        raise ModelError(
            f"model {model.name!r}: with loops a set point must be at rest; leave v out"
        )
    J = np.asarray(loop_jacobian(model, q))
    _, sizes, rows = np.linalg.svd(J)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    N = rows[rank:].T
    zero = np.zeros_like(N)
    return np.block([[N, zero], [zero, N]])


def _continuous(A: Array, B: Array, Q: Array, R: Array) -> Array:
    """Return the stabilizing solution of the continuous Riccati equation."""
    n = len(A)
    G = B @ np.linalg.solve(R, B.T)
    Z = np.block([[A, -G], [-Q, -A.T]])
    if not np.isfinite(Z).all():
        raise _no_gain()
    for _ in range(MOST_STEPS):
        try:
            inverse = np.linalg.inv(Z)
        except np.linalg.LinAlgError:
            raise _no_gain() from None
        # scaling by the norms speeds up the first steps
        c = np.sqrt(np.linalg.norm(inverse) / np.linalg.norm(Z))
        after = 0.5 * (c * Z + inverse / c)
        if not np.isfinite(after).all():
            raise _no_gain()
        change = np.linalg.norm(after - Z) / np.linalg.norm(after)
        Z = after
        if change < 1e-14:
            break
    W = Z
    left = np.concatenate([W[:n, n:], W[n:, n:] + np.eye(n)])
    right = -np.concatenate([W[:n, :n] + np.eye(n), W[n:, :n]])
    S = np.linalg.lstsq(left, right, rcond=None)[0]
    S = 0.5 * (S + S.T)
    terms = (A.T @ S, S @ A, S @ G @ S, Q)
    return _checked(S, terms[0] + terms[1] - terms[2] + terms[3], terms)


def _discrete(A: Array, B: Array, Q: Array, R: Array) -> Array:
    """Return the stabilizing solution of the discrete Riccati equation."""
    n = len(A)
    G, H, F = B @ np.linalg.solve(R, B.T), Q.copy(), A.copy()
    for _ in range(MOST_STEPS):
        W = np.linalg.inv(np.eye(n) + G @ H)
        more = F.T @ H @ W @ F
        G = G + F @ W @ G @ F.T
        F = F @ W @ F
        H = H + more
        if not np.isfinite(H).all():
            raise _no_gain()
        if np.linalg.norm(more) <= 1e-15 * np.linalg.norm(H):
            break
    S = 0.5 * (H + H.T)
    SB = S @ B
    terms = (S, A.T @ S @ A, A.T @ SB @ np.linalg.solve(R + B.T @ SB, SB.T @ A), Q)
    return _checked(S, terms[1] - terms[2] + terms[3] - terms[0], terms)


def _checked(S: Array, residual: Array, terms: Sequence[Array]) -> Array:
    if not np.linalg.norm(residual) <= RESIDUAL * max(np.linalg.norm(x) for x in terms):
        raise _no_gain()
    return S


def _no_gain() -> DomainError:
    return DomainError(
        "inputs",
        "inputs that reach every motion that does not die out, and Q that weighs it",
        "a Riccati equation without a stabilizing solution",
        advice="add inputs, or weigh all positions and velocities",
    )
