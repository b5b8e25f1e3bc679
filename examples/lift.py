"""Four arms lift a load by 0.8 m and turn it by 30 degrees."""

import sys

import numpy as np

import tiburon as tb

pumas = tb.load("four_pumas")
home = np.array(pumas.poses["home"])
# fast current loops: commands are torques, within the limits of the motors
motors = [tb.Actuator(m.name, m.joint, force_limits=m.force_limits) for m in pumas.actuators]
robot = tb.Model(pumas.name, pumas.bodies, pumas.frames, loops=pumas.loops, actuators=motors)
arms = [name for name in robot.joint_names if name != "load"]
start = tb.forward_kinematics(robot, home, "load")[1]

# poses of the load, at rest at both ends, and the joint angles that hold it there
rise, turn, duration = 0.8, np.radians(30.0), 2.0
times = np.linspace(0.0, duration, 17)
share = times / duration
share = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
q, points = home, []
for s in share:
    half = 0.5 * turn * s
    pose = [np.cos(half), 0.0, 0.0, np.sin(half), start[0], start[1], start[2] + rise * s]
    q = tb.loop_motion(robot, q, pose, platform="load").q
    points.append(q[robot.indices(arms, of="q")])
path = tb.JointPath.through(times, points, kind="quintic", joints=arms)

# all twenty-four motors share the load; friction is left to feedback
control = tb.ComputedTorque.critical(path, frequency=40.0, through="actuators")
run = tb.simulate(
    robot,
    duration,
    q=home,
    control=tb.Sampled(control, dt=4e-3),
    execution=tb.Execution(progress=False),
    method=tb.RK4(dt=2e-3),
    record=tb.Record(quantities=["constraint_residual"]),
)
print(run)

rotation, position = tb.forward_kinematics(robot, run.q, "load")
heading = np.degrees(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]))
for k in range(0, len(run.time), 20):
    print(f"{run.time[k]:4.1f} s   height {position[k, 2]:7.3f} m   heading {heading[k]:6.2f} deg")
error = np.linalg.norm(position[-1] - start - [0.0, 0.0, rise])
print(f"load ends {error:.2g} m from its target, {abs(heading[-1] - 30.0):.2g} degrees off")
print(f"largest loop-closure error: {float(run.data['constraint_residual'].max()):.1e} m or rad")
if len(sys.argv) > 1:
    run.save_html(sys.argv[1], title="Four arms lift and turn a load")
