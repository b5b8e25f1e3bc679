"""A user-defined function as native code: a computed-torque controller and the resulting motion.

The function below is plain Python over NumPy arrays. `compile` runs it once on traced values; the
library functions it calls become part of the same kernel.
"""

from time import perf_counter

import numpy as np

import tiburon as tb

LINKS = 6
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critically damped


def build_arm():
    """Return a chain of rods whose joint axes alternate between y and z."""
    rod = tb.Inertia.cylinder(mass=2.0, radius=0.04, length=0.3, com=(0.0, 0.0, 0.15))
    bodies = []
    for number in range(LINKS):
        joint = tb.Revolute(
            f"joint_{number}",
            axis=(0, 1, 0) if number % 2 else (0, 0, 1),
            pose=tb.Pose(translation=(0.0, 0.0, 0.3 if number else 0.0)),
        )
        parent = f"link_{number - 1}" if number else "world"
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=rod))
    return tb.Model("arm", bodies)


def controlled(model, q, v, target):
    """Return the joint forces that drive q to its target, and the accelerations."""
    wanted = STIFFNESS * (target - q) - DAMPING * v
    # actuators are limited: 60 N m
    force = np.clip(tb.inverse_dynamics(model, q, v, wanted), -60.0, 60.0)
    return {"force": force, "acceleration": tb.forward_dynamics(model, q, v, force)}


arm = build_arm()
kernel = tb.compile(controlled, arm, shapes={"target": arm.nq})
print(kernel.__self__)

# one state: a plain call
q, v = arm.random_state(0)
target = q + 0.02
force, acceleration = kernel(q, v, target)
print("force        [N m]     ", np.round(force, 2))
print("acceleration [rad/s^2] ", np.round(acceleration, 2))

# without saturation, the accelerations are exactly the desired ones
wanted = STIFFNESS * (target - q) - DAMPING * v
free = np.abs(force).max() < 60.0
print(f"limits reached: {not free}; error {np.abs(acceleration - wanted).max():.1e} rad/s^2")

# a hundred thousand states: the same kernel, several states per instruction, over all cores
q, v = arm.random_state(1, (100_000,))
kernel(q, v, q)  # compiles the batch function
start = perf_counter()
force, acceleration = kernel(q, v, q)
seconds = perf_counter() - start
limited = (np.abs(force) == 60.0).any(axis=1).mean()
print(f"{len(q)} states in {seconds * 1e3:.1f} ms; {100 * limited:.1f} % of them reach a limit")
