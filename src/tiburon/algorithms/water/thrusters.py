"""Joint forces of thrusters.

Thruster wrenches on bodies are projected onto the joints from the tips to the root (Featherstone
1987, eqs. 4.14 and 4.15 without inertial forces).
"""

from collections.abc import Sequence

from tiburon.algorithms.traversal import by_velocity, inward, joint_transforms
from tiburon.hydro.thrust import thrust_of, thruster_wrench
from tiburon.model import Model, Plan, PlanBody, Thruster
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Scalars, Transform


def thrusts(thrusters: Sequence[Thruster], commands: Scalars) -> tuple[Scalar, ...]:
    """Return the steady thrust of each thruster for its command [N]."""
    return tuple(thrust_of(t, u) for t, u in zip(thrusters, commands, strict=True))


def projected(plan: Plan, q: Scalars, forces: Sequence[Force]) -> tuple[Scalar, ...]:
    """Compute the joint forces equivalent to forces on bodies.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        forces: On each plan body, in its frame [N m, N].

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def transmit(body: PlanBody, f: Force, X: Transform) -> tuple[tuple[Scalar, ...], Force]:
        return body.joint.project(q[body.q], f), X.force_to_parent(f)

    return by_velocity(plan, inward(plan, transmit, list(forces), joint_transforms(plan, q)))


def thruster_joint_forces(
    model: Model, plan: Plan, q: Scalars, thrust: Scalars
) -> tuple[Scalar, ...]:
    """Compute the joint forces of given thrusts [N], one per thruster of the model."""
    forces = [Force.zero() for _ in plan.bodies]
    for thruster, push in zip(model.thrusters, thrust, strict=True):
        frame = plan.frame(thruster.body)
        # forces on the world have no effect
        if frame.body != WORLD_BODY:
            wrench = frame.transform.force_to_parent(thruster_wrench(thruster, push))
            forces[frame.body] = forces[frame.body] + wrench
    return projected(plan, q, forces)
