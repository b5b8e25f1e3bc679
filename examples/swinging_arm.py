"""A falling two-link arm: build it, simulate ten seconds, check its energy."""

import numpy as np

import tiburon as tb

# two equal rods that hang straight down at q = 0
rod = tb.Inertia.cylinder(mass=1.0, radius=0.05, length=1.0, com=(0.0, 0.0, -0.5))
upper = tb.Body("upper", joint=tb.Revolute("shoulder", axis=(0, 1, 0)), inertia=rod)
elbow = tb.Revolute("elbow", axis=(0, 1, 0), pose=tb.Pose(translation=(0.0, 0.0, -1.0)))
lower = tb.Body("lower", parent="upper", joint=elbow, inertia=rod)
arm = tb.Model("arm", bodies=[upper, lower])

# the upper arm is horizontal, the elbow slightly bent
run = tb.integrate_rk4(
    arm, q=[np.pi / 2, 0.3], v=[0.0, 0.0], dt=1e-3, steps=10_000, record_every=10
)
print(run)

kinetic = tb.kinetic_energy(arm, run.q, run.v)
energy = kinetic + tb.potential_energy(arm, run.q)
for time, (shoulder, bend), total in zip(run.time[::200], run.q[::200], energy[::200], strict=True):
    print(f"{time:5.1f} s   shoulder {shoulder:7.3f}   elbow {bend:7.3f} rad   {total:.9f} J")
drift = np.abs(energy - energy[0]).max() / kinetic.max()
print(f"largest energy error: {drift:.1e} of the largest kinetic energy")
