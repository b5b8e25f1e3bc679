"""Dock a vehicle in a current with least effort: CasADi and IPOPT with exact second derivatives.

One step of the vehicle is a traced function, implicit in its velocity: the midpoint rule on the
pose itself, so that quaternions keep their length. ``python examples/dock.py dock.png`` also draws
the path. Needs `tiburon[casadi]`.
"""

import sys

import casadi
import matplotlib.pyplot as plt
import numpy as np

import tiburon as tb

STEPS, DURATION = 30, 15.0
h = DURATION / STEPS
LIMIT = 25.0  # N, of each thruster
FUNNEL, LAST = 0.05, 6  # m; steps at the end in which the vehicle must be in front of the dock

rov = tb.load("bluerov2_heavy")
sea = tb.Water(current=(0.15, 0.2, 0.0))
thrusters = [thruster.name for thruster in rov.thrusters]
# wrench on the hull [n; f] of each thruster
mixing = np.array(
    [np.concatenate([np.cross(t.position, t.direction), t.direction]) for t in rov.thrusters]
).T


def step(rov, q, v, after, thrust):
    """Return the pose after a step, and what the velocity after it misses."""
    mean = 0.5 * (v + after)
    middle = rov.integrate(q, 0.5 * h * mean)
    acceleration = tb.forward_dynamics(rov, middle, mean, mixing @ thrust, fluid=sea)
    return {"pose": rov.integrate(q, h * mean), "defect": after - v - h * acceleration}


shapes = {"after": rov.nv, "thrust": len(thrusters)}
move = tb.to_casadi(step, rov, shapes=shapes, second=True)

start = np.array([np.cos(0.6), 0.0, 0.0, np.sin(0.6), -3.0, -1.5, 0.5])
goal = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
problem = casadi.Opti()
q = problem.variable(rov.nq, STEPS + 1)
v = problem.variable(rov.nv, STEPS + 1)
u = problem.variable(len(thrusters), STEPS)
for k in range(STEPS):
    pose, defect = move(q[:, k], v[:, k], v[:, k + 1], u[:, k])
    problem.subject_to(q[:, k + 1] == pose)
    problem.subject_to(defect == 0.0)
problem.subject_to(q[:, 0] == start)
problem.subject_to(v[:, 0] == 0.0)
# attitude by the vector part: the length of the quaternion stays 1
problem.subject_to(q[1:, STEPS] == goal[1:])
problem.subject_to(v[:, STEPS] == 0.0)
# on the axis of the dock and along it: y, z and the vector part of the quaternion
near = q[[1, 2, 3, 5, 6], STEPS - LAST :]
problem.subject_to(problem.bounded(-FUNNEL, casadi.vec(near), FUNNEL))
problem.subject_to(problem.bounded(-LIMIT, casadi.vec(u), LIMIT))
problem.minimize(h * casadi.sumsqr(u))
problem.set_initial(q, np.linspace(start, goal, STEPS + 1).T)
problem.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes"})
found = problem.solve()
thrusts, planned = found.value(u).T, found.value(q).T
statistics = problem.stats()
print(f"IPOPT: {statistics['return_status']} in {statistics['iter_count']} iterations")
print(f"effort {found.value(problem.f):.0f} N^2 s, largest thrust {np.abs(thrusts).max():.1f} N")


def replay(state):
    """Return the planned thrusts of the step."""
    return dict(zip(thrusters, thrusts[min(round(state.time / h), STEPS - 1)], strict=True))


run = tb.simulate(
    rov,
    DURATION,
    method=tb.RK4(dt=h / 50),
    q=start,
    fluid=sea,
    control=tb.Sampled(replay, dt=h),
    execution=tb.Execution(progress=False),
    record=tb.Record(every=50),
)
miss = np.linalg.norm(run.q[-1, 4:])
print(f"simulated with these thrusts, the vehicle ends {miss:.3f} m from the dock")

if len(sys.argv) > 1:
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 7), layout="constrained")
    above.plot(run.q[:, 4], run.q[:, 5], label="simulated")
    above.plot(planned[:, 4], planned[:, 5], "k.", markersize=3, label="planned")
    yaw = 2.0 * np.arctan2(planned[:, 3], planned[:, 0])
    above.quiver(planned[::3, 4], planned[::3, 5], np.cos(yaw[::3]), np.sin(yaw[::3]), width=3e-3)
    above.plot(0.0, 0.0, "s", color="tab:red", label="dock")
    above.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    above.margins(0.1, 0.2)
    above.legend(frameon=False)
    for name, values in zip(thrusters, thrusts.T, strict=True):
        below.stairs(values, run.time, label=name)
    below.set(xlabel="time [s]", ylabel="thrust [N]")
    below.legend(frameon=False, ncols=2, fontsize=7)
    figure.savefig(sys.argv[1], dpi=150)
