"""LoadSharingControl(max_step=...) is not kept and does not say so: zoo quadruped, trot.

docs: "max_step bounds every change of forces", and status reports otherwise. If max_step is too small to unload a foot within the transfer time, the foot lifts with
its load: a jump of a third of the weight and more in one tick with status 0, larger than without smoothing. Right: refuse (full load * dt / transfer time > max_step),
delay the lift, or set the status.
"""
import numpy as np
import tiburon as tb

dog = tb.load("quadruped")
weight = dog.total_mass * 9.81
floor = tb.World(ground=tb.Ground(static_friction=0.8))
plan = tb.LoadSharing.of(dog, world=floor, friction=0.6)
silent = 0
for step in (3.0, 1.0, 0.5):
    control = tb.LoadSharingControl(plan, tb.GaitPath.trot(dog, speed=0.3), max_step=step)
    run = tb.simulate(dog, 1.5, q=dog.poses["stand"], world=floor, control=control, record=tb.Record(every=1), execution=tb.Execution(progress=False))
    shared = control.read(run)
    change, fine = np.abs(np.diff(shared.forces[1:], axis=0)).max(1), shared.status[1:] < 0.5
    beyond = int(((change > step * (1 + 1e-6)) & fine[1:] & fine[:-1]).sum())
    silent += beyond
    tilt = 2 * np.degrees(np.arcsin(np.clip(np.linalg.norm(run.q[:, 1:3], axis=1), 0, 1))).max()
    print(f"max_step {step} N: largest change in a tick {change.max():.1f} N ({100 * change.max() / weight:.0f} % of weight), ticks beyond the bound with status 0: {beyond}, largest tilt {tilt:.0f} deg")
print(f"{silent} ticks beyond the bound with status 0; right: 0 (tolerance 1e-6 of the bound)")
raise SystemExit(int(silent > 0))
