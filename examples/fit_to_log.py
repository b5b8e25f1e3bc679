"""Identify a mass and a drag coefficient from a log, by a batch of guesses and Gauss-Newton steps.

An arm of two tubes swings in water. The mass of its tool and the drag coefficient of the tubes are
unknown; encoders have logged the motion. A batch evaluates a grid of both parameters in one call,
each case with its own mass and drag by name. Gauss-Newton steps start from the best of them: the
sensitivities of positions follow from the linearized motion, driven by those of the accelerations.
"""

import numpy as np

import tiburon as tb

SEA = tb.Water(1025.0)
START = np.array([1.2, 0.6])
DURATION, INTERVAL, NOISE = 4.0, 0.01, 1e-3
TRUE = np.array([1.85, 1.1])  # kg, drag coefficient


def build_arm(tool_mass, drag):
    """Return the arm with given parameters; only values differ, so all share one kernel."""
    length, radius = 0.5, 0.04
    tube = tb.Inertia.cylinder(mass=2.6, radius=radius, length=length, com=(0, 0, -length / 2))
    water = tb.BodyFluid(
        volume=np.pi * radius**2 * length,
        center_of_buoyancy=(0, 0, -length / 2),
        drag=(tb.CylinderDrag(radius, length, axis=(0, 0, -1), side_coefficient=drag),),
    )
    upper = tb.Body(
        "upper", joint=tb.Revolute("shoulder", axis=(0, 1, 0)), inertia=tube, fluid=water
    )
    elbow = tb.Revolute("elbow", axis=(0, 1, 0), pose=tb.Pose(translation=(0, 0, -length)))
    lower = tb.Body("lower", "upper", joint=elbow, inertia=tube, fluid=water)
    hold = tb.Fixed("hold", pose=tb.Pose(translation=(0, 0, -length)))
    tool = tb.Body("tool", "lower", joint=hold, inertia=tb.Inertia.sphere(tool_mass, 0.05))
    return tb.Model("arm", [upper, lower, tool])


def swings(model, **options):
    """Simulate the released arm; return the run with rows at the times of the log."""
    return tb.simulate(
        model,
        DURATION,
        fluid=SEA,
        method=tb.RK4(dt=INTERVAL / 4),
        record=tb.Record(dt=INTERVAL),
        execution=tb.Execution(progress=False),
        **options,
    )


def sensitivities(model, unknowns, run):
    """Return the sensitivities of recorded positions, shape (rows, joints, unknowns).

    x = [dq, v] goes from row to row by x' = A x + B f, where f are the joint forces that would
    change accelerations as a small change of an unknown does.
    """
    rest = np.zeros_like(run.v)
    A, B = tb.linearize(model, run.q, run.v, rest, dt=INTERVAL, fluid=SEA)
    H = tb.mass_matrix(model, run.q, fluid=SEA)
    by_number = tb.inertia_derivatives(model, run.q, run.v, rest, fluid=SEA)
    # inertial parameters are linear in the mass, accelerations in the drag
    mass, drag = unknowns
    per_mass = build_arm(mass + 1.0, drag).parameters() - model.parameters()
    without = tb.forward_dynamics(build_arm(mass, 1e-12), run.q, run.v, rest, fluid=SEA)
    changes = np.stack([by_number.by_inertia @ per_mass, (by_number.vd - without) / drag], axis=-1)
    forces = H @ changes
    x = np.zeros((len(run.time), 2 * model.nv, 2))
    for k in range(len(run.time) - 1):
        x[k + 1] = A[k] @ x[k] + B[k] @ (0.5 * (forces[k] + forces[k + 1]))
    return x[:, : model.nv]


# the log: motion of the true arm, measured by encoders with noise
truth = swings(build_arm(*TRUE), q=START)
log = truth.q + NOISE * np.random.default_rng(5).normal(size=truth.q.shape)

# a grid of guesses, one case each, in one call
grid = np.array([(m, c) for m in np.linspace(0.5, 4.0, 12) for c in np.linspace(0.35, 2.5, 12)])
tensors = np.array([tb.Inertia.sphere(mass, 0.05).tensor for mass in grid[:, 0]])
guesses = {
    "tool.mass": grid[:, 0],
    "tool.inertia": tensors,
    "upper.drag.0.side_coefficient": grid[:, 1],
    "lower.drag.0.side_coefficient": grid[:, 1],
}
batch = swings(build_arm(*grid[0]), q=START, parameters=guesses)
misfit = np.sqrt(np.mean((batch.q - log[:, None]) ** 2, axis=(0, 2)))
guess = grid[np.argmin(misfit)]
print(f"best of {len(grid)} cases: tool {guess[0]:.2f} kg, drag {guess[1]:.2f}")

# Gauss-Newton steps from there
for step in range(8):
    arm = build_arm(*guess)
    run = swings(arm, q=START)
    error = (log - run.q).reshape(-1)
    J = sensitivities(arm, guess, run).reshape(len(error), 2)
    change = np.linalg.lstsq(J, error, rcond=None)[0]
    guess = guess + change
    print(f"step {step}: misfit {np.sqrt(np.mean(error**2)):.2e} rad, change {change}")
    if np.abs(change).max() < 1e-7:
        break

deviation = NOISE * np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
for name, found, spread, true in zip(("tool mass", "drag"), guess, deviation, TRUE, strict=True):
    print(f"{name}: {found:.4f} +- {spread:.4f}, true {true}")
print(f"largest error in deviations: {np.abs((guess - TRUE) / deviation).max():.2f}")
