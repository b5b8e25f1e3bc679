"""Swing up a pole on a cart by direct collocation: CasADi and IPOPT with exact second derivatives.

``python examples/swing_up.py swing_up.png`` also draws the motion. Needs `tiburon[casadi]`.
"""

import sys

import casadi
import matplotlib.pyplot as plt
import numpy as np

import tiburon as tb

STEPS, DURATION = 40, 3.0
h = DURATION / STEPS

robot = tb.load("cart_pole")
track, force_limit = 2.4, 10.0
dynamics = tb.to_casadi(tb.forward_dynamics, robot, second=True)


def rates(x, u):
    """Return the derivative of the state (slide, hinge, and their velocities)."""
    return casadi.vertcat(x[2:], dynamics(x[:2], x[2:], casadi.vertcat(u, 0.0)))


# Hermite-Simpson collocation, the force constant in each step
problem = casadi.Opti()
x = problem.variable(4, STEPS + 1)
u = problem.variable(STEPS)
for k in range(STEPS):
    a, b = x[:, k], x[:, k + 1]
    fa, fb = rates(a, u[k]), rates(b, u[k])
    middle = (a + b) / 2.0 + h / 8.0 * (fa - fb)
    problem.subject_to(b - a == h / 6.0 * (fa + 4.0 * rates(middle, u[k]) + fb))
problem.subject_to(x[:, 0] == np.array([0.0, np.pi, 0.0, 0.0]))
problem.subject_to(x[:, STEPS] == 0.0)
problem.subject_to(problem.bounded(-track, x[0, :], track))
problem.subject_to(problem.bounded(-force_limit, u, force_limit))
problem.minimize(h * casadi.sumsqr(u))
problem.set_initial(x[1, :], np.linspace(np.pi, 0.0, STEPS + 1))
problem.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes"})
found = problem.solve()
forces, planned = found.value(u), found.value(x).T
statistics = problem.stats()
print(f"IPOPT: {statistics['return_status']} in {statistics['iter_count']} iterations")
print(f"effort {found.value(problem.f):.1f} N^2 s, largest force {np.abs(forces).max():.1f} N")


def replay(state):
    """Return the planned force of the step."""
    return {"slide": forces[min(round(state.time / h), STEPS - 1)]}


run = tb.simulate(
    robot,
    DURATION,
    method=tb.RK4(dt=h / 75),
    q=planned[0, :2],
    control=tb.Sampled(replay, dt=h),
    execution=tb.Execution(progress=False),
    record=tb.Record(every=75),
)
angle = np.abs(run.q[-1, 1])
print(f"simulated with these forces, the pole ends {angle:.1e} rad from upright")

if len(sys.argv) > 1:
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for axis, values, name in zip(
        axes, (run.q[:, 1], run.q[:, 0]), ("pole angle [rad]", "cart position [m]"), strict=False
    ):
        axis.plot(run.time, values, label="simulated")
        axis.set_ylabel(name)
    axes[0].plot(run.time, planned[:, 1], "k.", markersize=3, label="planned")
    axes[1].plot(run.time, planned[:, 0], "k.", markersize=3)
    axes[0].legend(frameon=False)
    axes[2].stairs(forces, run.time)
    axes[2].set_ylabel("force [N]")
    axes[2].set_xlabel("time [s]")
    figure.savefig(sys.argv[1], dpi=150)
