"""A robot dog trots over rough hills by load sharing: footholds and friction follow the ground."""

import numpy as np

import tiburon as tb

dog = tb.load("quadruped")

# heights every 10 cm: waves, and bumps of 1 cm
x, y = 0.1 * np.arange(-12, 40), 0.1 * np.arange(-10, 11)
bumps = 0.01 * np.random.default_rng(1).standard_normal((len(x), len(y)))
heights = 0.04 * np.sin(4.0 * x)[:, None] + 0.02 * np.cos(5.0 * y) + bumps
grid = tb.GroundGrid((0.1, 0.1), heights, (x[0], y[0]))
hills = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7, grid=grid))

plan = tb.LoadSharing.of(dog, world=hills, friction=0.6)
# the path knows the ground, too: it begins in a posture in which all feet touch it
path = tb.GaitPath.trot(dog, world=hills, speed=0.3)
control = tb.LoadSharingControl(plan, path)
run = tb.simulate(
    dog,
    3.0,
    q=path.posture,
    world=hills,
    control=control,
    record=tb.Record(every=1),
    execution=tb.Execution(progress=False),
)
print(run)

shared = control.read(run)
lean = 2.0 * np.degrees(np.linalg.norm(run.q[:, 1:3], axis=1).max())
climbed = np.ptp(run.q[:, 6])
print(f"walked {run.q[-1, 4]:.2f} m, up and down by {climbed:.3f} m, lean at most {lean:.1f} deg")
print(f"samples without a solution: {np.count_nonzero(shared.status)} of {len(shared.status)}")
margins = 0.6 * shared.forces[:, 2::3] - np.hypot(shared.forces[:, 0::3], shared.forces[:, 1::3])
print(f"least friction margin of a foot: {margins.min():.3g} N")
