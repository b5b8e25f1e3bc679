"""Least heat in the windings of motors."""

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.model import Actuator, Model, Motor
from tiburon.record import record
from tiburon.spatial import Scalars


@public
@record
class MotorLoss(Objective):
    """Least heat in the windings of the motors (6.44)-(6.54) [W].

    A motor carries the joint force, the inertia of its rotor as far as the joint's armature does
    not include it, and its own friction.
    """

    friction: bool = True
    """Whether inertia and friction of the motors count; without them, the joint's armature
    included, the objective is that of Kopf, which leaves out the linear term."""

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse driven joints without actuators, motors without resistance or torque constant."""
        driven = {model.v_names[i] for i in layout.driven}
        for actuator in model.actuators:
            if not self._counts(model, actuator, layout):
                continue
            own = {model.v_names[i] for i in model.indices([actuator.joint], of="v")}
            if len(own) > 1 or not own <= driven:
                got = f"{len(own)} of them" if len(own) > 1 else "a second motor"
                raise ModelError(
                    f"actuator {actuator.name!r}: MotorLoss needs one motor per joint of one "
                    f"degree of freedom, got {got} at joint {actuator.joint!r}; use TorqueNorm()",
                    name=actuator.name,
                )
            driven -= own
            motor = actuator.motor
            missing = None
            if motor is None:
                missing = "a Motor"
            elif not motor.resistance:
                missing = "a resistance"
            elif not motor.torque_constant:
                missing = "a torque constant"
            if missing is not None:
                raise ModelError(
                    f"actuator {actuator.name!r}: MotorLoss needs {missing}, got none; give it "
                    "Motor(resistance=..., torque_constant=...), or use TorqueNorm()",
                    name=actuator.name,
                )
        if driven:
            name = sorted(driven)[0]
            raise ModelError(
                f"joint {name!r}: MotorLoss needs an actuator with a motor at each driven joint, "
                "got none; give it one, or use TorqueNorm()",
                name=name,
            )

    @staticmethod
    def _counts(model: Model, actuator: Actuator, layout: Layout) -> bool:
        """Return whether an actuator drives its joint."""
        return set(map(int, model.indices([actuator.joint], of="v"))) <= set(layout.driven)

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return weight, inertia beyond the armature, damping, friction, armature per actuator."""
        found: list[float] = []
        for actuator in model.actuators:
            motor, n = actuator.motor or Motor(0.0, 1.0), actuator.ratio
            constant = motor.torque_constant or 1.0
            armature = float(np.ravel(model.joint(actuator.joint).armature or 0.0)[0])
            found += (
                2.0 * motor.resistance / (n * constant) ** 2,
                n * n * actuator.rotor_inertia - armature,
                n * n * motor.damping,
                abs(n) * motor.friction,
                armature,
            )
        return tuple(found)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the loss in each winding."""
        found = []
        for k, actuator in enumerate(problem.model.actuators):
            if not self._counts(problem.model, actuator, problem.layout):
                continue
            index = problem.model.slice(actuator.joint, of="v").start
            weight, inertia, damping, friction, armature = p[5 * k : 5 * k + 5]
            row, offset = problem.torque(index)
            v, vd = problem.v[index], problem.vd[index]
            if self.friction:
                offset = offset + inertia * vd + damping * v + friction * np.sign(v)
            else:
                offset = offset - armature * vd
            found.append(Square(weight, row, offset))
        return found
