"""Record the impulses that Pinocchio's ADMM solver finds for random contact problems with friction.

Run from the top of a checkout, with pin installed::

    python -m tests.cross.record_friction_problems
"""

import json
import platform

import numpy as np
import pinocchio as pin

from tests.cross.friction_problems import COMMAND, DATA, PROVENANCE, problems

TOLERANCE = 1e-12


def solved(A, b, mu):
    """Return the impulses, and whether the solver converged."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "free")
    constraints, states = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for coefficient in mu:
        point = pin.PointContactConstraintModel(
            model, 0, pin.SE3.Identity(), joint, pin.SE3.Identity()
        )
        point.setFriction(float(coefficient))
        constraints.append(pin.ConstraintModel(point))
    for constraint in constraints:
        states.append(constraint.createData())
    solver = pin.ADMMConstraintSolver(len(b))
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = TOLERANCE
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    settings.max_iterations = 100000
    operator = pin.DelassusOperatorDense(A @ A.T)
    solver.solve(operator, b.copy(), constraints, states, settings, result)
    return np.asarray(result.retrieveConstraintImpulses()).ravel(), bool(result.converged)


def main():
    """Write impulses and provenance."""
    answers = [solved(*problem) for problem in problems()]
    np.savez_compressed(
        DATA,
        impulses=np.array([p for p, _ in answers]),
        converged=np.array([converged for _, converged in answers]),
    )
    facts = {
        "tool": "pinocchio",
        "version": pin.__version__,
        "solver": "ADMMConstraintSolver",
        "tolerance": TOLERANCE,
        "python": platform.python_version(),
        "command": COMMAND,
    }
    PROVENANCE.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
