"""A robot dog trots by load sharing: forces of its feet stay continuous when feet land and lift."""

import numpy as np

import tiburon as tb

dog = tb.load("quadruped")
floor = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))

# the load is shared with less friction than there is, and the least internal force
plan = tb.LoadSharing.of(dog, world=floor, friction=0.6)
path = tb.GaitPath.trot(dog, speed=0.3)
control = tb.LoadSharingControl(plan, path, max_step=4.0)
run = tb.simulate(
    dog,
    1.5,
    q=dog.poses["stand"],
    world=floor,
    control=control,
    record=tb.Record(every=1),
    execution=tb.Execution(progress=False),
)
print(run)

shared = control.read(run)
feet = shared.forces.reshape(len(shared.forces), -1, 3)
measured = run.get("contact_force").values
for row in range(300, 1500, 100):
    normal = "  ".join(f"{force:6.1f}" for force in feet[row, :, 2])
    print(f"{run.time[row]:4.1f} s   normal forces {normal} N   x {run.q[row, 4]:.3f} m")
# forces of a step act between the sample before it and the next
error = np.abs(measured[1:, :, 2] - feet[:-1, :, 2]).max()
print(f"largest difference of measured and shared forces: {error:.2g} N")
change = np.abs(np.diff(feet, axis=0)).max()
print(f"largest change of a foot force in 1 ms: {change:.3f} N")
