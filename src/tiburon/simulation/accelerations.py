"""Joint accelerations of a robot in a run under given forces, by the method that it needs.

Symbols are those of `tiburon.simulation.system`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiburon.actuation.piecewise import Prescribed
from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import ModelError
from tiburon.functions.dynamics import tree_motion
from tiburon.loops.inverse import hybrid_with_loops
from tiburon.loops.loop_method import Guided
from tiburon.spatial import Scalar, Scalars

if TYPE_CHECKING:
    from tiburon.simulation.system import System


def accelerations(
    system: "System",
    here: Setting,
    q: JointVector,
    v: JointVector,
    x: Scalars,
    force: Scalars,
    prescribed: Sequence[Prescribed] = (),
    guided: Guided | None = None,
) -> tuple[Scalars, Scalars]:
    """Return joint accelerations and constraint forces.

    Args:
        system: The system.
        here: Conditions with all external forces.
        q: Configuration.
        v: Joint velocity.
        x: Continuous states.
        force: Joint forces.
        prescribed: Joints on paths.
        guided: What independent velocities determine in this state; see `LoopMethod.motion`.
    """
    if system.partition is not None and system.partition.computes:
        if prescribed:
            raise ModelError(
                "partition: joints follow paths, which parts that compute accelerations do not "
                "know; simulate the robot undivided"
            )
        found_in_parts: tuple[Scalars, Scalars] = system.partition.accelerations(
            system, here, q, v, x, force
        )
        return found_in_parts
    if prescribed:
        vd, _, forces = hybrid_motion(system, here, q, v, x, JointVector(force), prescribed)
        return vd, forces
    if system.model.loops:
        return system.held_loops.motion(here, q, v, x, force, guided)
    return tree_motion(here, q, v, force), ()


def hybrid_motion(
    system: "System",
    here: Setting,
    q: JointVector,
    v: JointVector,
    x: Scalars,
    tau: JointVector,
    prescribed: Sequence[Prescribed],
) -> tuple[Scalars, Scalars, Scalars]:
    """Return accelerations, joint forces and constraint forces with prescribed joints.

    Joint forces at prescribed joints are those that their motion takes in total.
    """
    plan, wanted = here.plan, {i: a for joint in prescribed for i, a in joint.accelerations}
    vd: list[Scalar] = [wanted.get(i, 0.0) for i in range(plan.nv)]
    if not system.model.loops:
        known = [i in wanted for i in range(plan.nv)]
        solve = hybrid_crba if plan.has_couplings else hybrid_aba
        found = solve(plan, q, v, tau, JointVector(vd), known, here.gravity, here.external)
        return (*found, ())
    loops = system.held_loops
    return hybrid_with_loops(
        here, q, v, tau, wanted, loops.constraints(here, q, v, x), loops.min_cut
    )
