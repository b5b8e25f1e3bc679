"""Record Pinocchio's answers for every kind of joint, and its derivatives, in its own numbers.

Run from the top of a checkout, with the `bench` extra installed::

    python -m tests.cross.record_joint_kinds
"""

import json
import platform

import numpy as np
import pinocchio as pin

from tests.cross.joint_kinds import (
    ALL,
    COMMAND,
    DATA,
    DIFFERENTIATED,
    GRAVITY,
    PROVENANCE,
    states,
    theirs,
)
from tests.cross.mixture_peers import pin_joint
from tests.cross.recording import numbers_of


def _joint(joint):
    if joint.kind == "cylindrical":
        both = pin.JointModelComposite(pin.JointModelRevoluteUnaligned(np.array(joint.axis)))
        both.addJoint(pin.JointModelPrismaticUnaligned(np.array(joint.axis)))
        return both
    return pin_joint(joint)


def build(model):
    """Build one of our robots, listed depth first and without offsets, for Pinocchio."""
    peer = pin.Model()
    peer.gravity.linear = np.array(GRAVITY)
    # where each of our bodies sits: a joint of the peer, and a placement in its frame
    place = {"world": (0, pin.SE3.Identity())}
    for body in model.bodies:
        parent, within = place[body.parent]
        pose, inertia = body.joint.pose, body.inertia
        at = within * pin.SE3(np.array(pose.rotation), np.array(pose.translation))
        place[body.name] = (parent, at)
        if body.joint.kind != "fixed":
            number = peer.addJoint(parent, _joint(body.joint), at, body.joint.name)
            place[body.name] = (number, pin.SE3.Identity())
        if inertia.mass > 0.0:
            spread = pin.Inertia(inertia.mass, np.array(inertia.com), inertia.matrix)
            peer.appendBodyToJoint(place[body.name][0], spread, place[body.name][1])
    return peer


def compute(peer, differentiate, q, v, acceleration, force):
    """Compute everything that is compared in one state, in Pinocchio's numbers."""
    data = peer.createData()
    upper = np.triu(pin.crba(peer, data, q))
    found = {
        "mass_matrix": upper + np.triu(upper, 1).T,
        "inverse_dynamics": np.array(pin.rnea(peer, data, q, v, acceleration)),
        "forward_dynamics": np.array(pin.aba(peer, data, q, v, force)),
        "gravity_force": np.array(pin.computeGeneralizedGravity(peer, data, q)),
        "kinetic_energy": np.array(pin.computeKineticEnergy(peer, data, q, v)),
    }
    pin.forwardKinematics(peer, data, q, v)
    last = data.oMi[peer.njoints - 1]
    found |= {"rotation": last.rotation.copy(), "translation": last.translation.copy()}
    if differentiate:
        pin.computeRNEADerivatives(peer, data, q, v, acceleration)
        found |= {"tau_by_q": data.dtau_dq.copy(), "tau_by_v": data.dtau_dv.copy()}
        pin.computeABADerivatives(peer, data, q, v, force)
        found |= {"vd_by_q": data.ddq_dq.copy(), "vd_by_v": data.ddq_dv.copy()}
    return found


def answers(name):
    """Return Pinocchio's answers for one robot, one row per state."""
    model = ALL[name]
    peer = build(model)
    cases = []
    for q, v, x in zip(*states(model), strict=True):
        given = theirs(model, q, v, x, x)
        cases.append(compute(peer, name in DIFFERENTIATED, *map(np.array, given)))
    return {key: np.array([case[key] for case in cases]) for key in cases[0]}


def record():
    """Compute all robots and write the arrays, and beside them where they come from."""
    arrays = {}
    for name, model in ALL.items():
        q, v, x = states(model)
        inputs = {"robot": numbers_of(model), "q": q, "v": v, "x": x}
        arrays |= {f"{name}/{key}": array for key, array in {**inputs, **answers(name)}.items()}
    np.savez_compressed(DATA, **arrays)
    provenance = {
        "tool": "Pinocchio",
        "version": pin.__version__,
        "command": COMMAND,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "gravity": GRAVITY,
        "robots": {name: [joint.kind for joint in model.joints] for name, model in ALL.items()},
    }
    PROVENANCE.write_text(json.dumps(provenance, indent=2) + "\n")


if __name__ == "__main__":
    record()
