"""Derivatives of forward dynamics with respect to inertial parameters.

Symbols:
    H       mass matrix
    Y       joint forces per inertial parameter at given accelerations

From H vd + C = tau at constant tau: d vd = -H^-1 Y. Y is the regressor of inverse dynamics, with a
column per armature beside it.
"""

from typing import Any

from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import crba
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.regressor import regressor_rows
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import scalars
from tiburon.model import Coupled, Joint, Model
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.tree import solve_tree, solve_tree_columns


def forces_per_parameter(around: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    """Compute Y, one row per velocity variable, one column per name of `Model.parameter_names`.

    External forces and added mass do not depend on these parameters.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    model, plan = around.model, around.plan
    rows = regressor_rows(plan, model.body_names, q, v, vd, around.gravity)
    columns = [column for joint in model.joints for column in _armature_columns(model, joint, vd)]
    entries = [x for i, row in enumerate(rows) for x in (*row, *(column[i] for column in columns))]
    return as_traced(entries).reshape(plan.nv, len(model.parameter_names))


def _armature_columns(model: Model, joint: Joint, vd: Scalars) -> list[list[Scalar]]:
    """Return the joint forces per armature of a joint; a follower's acts on its leader."""
    found: list[list[Scalar]] = []
    if joint.dof:
        share = joint.ratio * joint.ratio if isinstance(joint, Coupled) else 1.0
        for row in model.indices(joint.name, of="v"):
            found.append([share * x if k == row else 0.0 for k, x in enumerate(vd)])
    return found


def derivatives_by_inertia(around: Setting, position: Scalars, rate: Scalars, tau: Scalars) -> Any:
    """Compute joint accelerations and their derivatives with respect to inertial parameters."""
    plan, gravity = around.plan, around.gravity
    C = bias(plan, position, rate, gravity, around.external)
    n = plan.nv
    parents = expanded_parents(plan)
    H = as_traced([x for row in crba(plan, position) for x in row]).reshape(n, n)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    vd = solve_tree(parents, H, as_traced(free))
    Y = forces_per_parameter(around, position, rate, scalars(vd))
    return {"vd": vd, "by_inertia": solve_tree_columns(parents, H, -Y)}
