"""Balancing of mechanisms by redundant motors, for users."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, UnknownNameError
from tiburon.functions.load_sharing import LoadSharing
from tiburon.load_sharing.balancing import least_by_levels
from tiburon.load_sharing.objectives.torque_norm import TorqueNorm
from tiburon.model import WORLD, Model, World
from tiburon.model.plan import WORLD_BODY


class FrameBalance(NamedTuple):
    """Efforts of motors that make the forces on the frame of a mechanism least."""

    tau: Array
    """Joint force [N or N m], shape (..., nv)."""

    supports: tuple[str, ...]
    """Joints, loops and contacts between the mechanism and the world."""

    forces: Array
    """Force of the mechanism on the world at each support, world axes [N], (..., supports, 3)."""

    net_force: Array
    """Net force on the world [N], shape (..., 3): no motor changes it (7.5)."""

    net_moment: Array
    """Net moment on the world about its origin [N m], (..., 3): no motor changes it (7.10)."""

    power: Array
    """Power of the motors at the joints [W], shape (...): no sharing changes it (6.43)."""

    x: Array
    """Constraint and contact forces, in the order of the plan's names."""


@public
def balance_frame(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    driven: Iterable[str] | None = None,
    world: World | None = None,
    supports: Iterable[str] | None = None,
    torque_limits: bool | Mapping[str, tuple[float, float]] = True,
) -> FrameBalance:
    """Share the load of a motion among motors so that supports carry the least force.

    The sum of the squares of the support forces is least (Nahon 1991, eq. 7.6), and of all such
    solutions that with the least sum of squares of the efforts. A planar linkage whose center of
    mass stays shakes its frame no more with three motors or more.

    Args:
        model: A mechanism with loops.
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity with J v = 0 [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration that keeps loops closed, shape (..., nv).
        driven: Names of the driven joints; those with actuators by default. `drive_cut_joint` puts
            a motor into a joint that closes a loop.
        world: Surroundings; gravity by default.
        supports: Joints and loops at the world whose forces count; all by default.
        torque_limits: As in `LoadSharing.of`.

    Example:
        ``tb.balance_frame(linkage, q, v, vd, world=tb.World(gravity=(0, 0, 0))).forces``
    """
    for spring in model.springs:
        if WORLD_BODY in (model.plan.frame(end).body for end in (spring.first, spring.second)):
            raise ModelError(
                f"spring {spring.name!r}: is fixed to the world, whose forces from joints, loops "
                "and contacts are balanced; leave it out",
                name=spring.name,
            )
    plan = LoadSharing.of(
        model,
        world=world,
        driven=None if driven is None else list(driven),
        objective=TorqueNorm(),
        torque_limits=torque_limits,
    ).with_pyramids(8)
    known = _supports(model, plan)
    chosen = tuple(known) if supports is None else tuple(supports)
    for name in chosen:
        if name not in known:
            raise UnknownNameError("support", name, list(known))
    if not chosen:
        raise ModelError(f"model {model.name!r}: expected supports at the world, got none")
    arrays = [np.asarray(array, dtype=np.float64) for array in (q, v, vd)]
    cases = np.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    problem = plan.problem(*arrays, formulation="superposition")
    constant, rows, reactions = plan.support_rows(*arrays)
    size, driven_places = len(plan.names), list(plan.layout.driven)
    undriven = list(plan.layout.undriven)
    x = np.zeros((*cases, size))
    forces = np.zeros((*cases, len(known), 3))
    moments = np.zeros((*cases, len(known), 3))
    tau = np.zeros((*cases, model.nv))
    picked = [list(known).index(name) for name in chosen]

    def of(array: Array, core: int) -> Any:
        return np.broadcast_to(array, (*cases, *np.shape(array)[np.ndim(array) - core :]))

    A1, b1, A2, b2 = of(problem.A1, 2), of(problem.b1, 1), of(problem.A2, 2), of(problem.b2, 1)
    w0, F, unit = of(constant, 2), of(rows, 3), of(reactions, 2)
    for case in np.ndindex(*cases):
        G, g = _support_forces(known, w0[case], F[case], unit[case])
        J, needed = A1[case][:, :size], b1[case]
        T, t = -J[driven_places], needed[driven_places]
        # limits of efforts as limits of x
        limits = A2[case][:, :size] + A2[case][:, size:] @ T
        right = b2[case] - A2[case][:, size:] @ t
        own = np.concatenate([G[k, :3] for k in picked]), np.concatenate([g[k, :3] for k in picked])
        try:
            x[case] = least_by_levels([own, (T, t)], J[undriven], needed[undriven], limits, right)
        except DomainError as error:
            names = [model.v_names[i] for i in driven_places]
            raise DomainError(
                "driven",
                "joints whose motors produce the motion within their limits",
                f"{', '.join(names[:6]) or 'none'} ({error})",
                advice="drive more joints, or raise torque_limits",
            ) from error
        tau[case][driven_places] = T @ x[case] + t
        acting = G @ x[case] + g
        forces[case], moments[case] = acting[:, :3], acting[:, 3:]
    power = np.sum(tau * np.broadcast_to(arrays[1], tau.shape), axis=-1)
    return FrameBalance(
        tau, tuple(known), forces, forces.sum(axis=-2), moments.sum(axis=-2), power, x
    )


def _supports(model: Model, plan: LoadSharing) -> dict[str, tuple[str, int]]:
    """Return supports by name: whether of the tree or unknown, and body or group."""
    home = {frame.name: frame.body for frame in model.frames}
    bodies = [body.name for body in model.plan.bodies]
    found: dict[str, tuple[str, int]] = {}
    for k, body in enumerate(model.plan.bodies):
        joint = model.body(bodies[k]).joint
        if body.parent < 0 and joint.nv < 6:
            found[joint.name] = ("joint", k)
    loops = {loop.name: loop for loop in model.loops}
    for k, group in enumerate(plan.layout.groups):
        loop = loops.get(group.name)
        ends = [getattr(loop, "first", WORLD), getattr(loop, "second", WORLD)]
        if WORLD in [home.get(end, end) for end in ends]:
            found[group.name] = ("group", k)
    return found


def _support_forces(
    known: dict[str, tuple[str, int]], constant: Array, rows: Array, unit: Array
) -> tuple[Array, Array]:
    """Return force and moment on the world at each support, as rows over x and constants.

    Args:
        known: Supports by name.
        constant: Wrench of each joint on its body without x, about the origin of the world.
        rows: The same per unit of x.
        unit: Wrench on the world per unit of x of contacts and loops, and their groups.
    """
    n = rows.shape[1]
    G, g = np.zeros((len(known), 6, n)), np.zeros((len(known), 6))
    order = [3, 4, 5, 0, 1, 2]
    for i, (kind, place) in enumerate(known.values()):
        if kind == "joint":
            # the reaction on the frame is opposite to the force on the body
            G[i], g[i] = -rows[place].T[order], -constant[place][order]
        else:
            own = unit[:, 6] == place
            G[i][:, own] = unit[own, :6].T[order]
    return G, g
