"""The contact problems of a step, solved in one primitive and one after the other."""

import numpy as np
import pytest

from tests.contact.test_friction_solver import TOLERANCE, Problem
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.contact_layout import ContactLayout
from tiburon.trace.primitives.contact_step import (
    CARRIED_SPEED,
    CHANGE_WEIGHT,
    GAP_TOLERANCE,
    LANDING_SHARE,
    UNBOUNDED,
    ContactStep,
)
from tiburon.trace.program import Input, trace

H = 1e-3


class Step(Problem):
    """A contact problem with speeds of approach, restitution, gaps and forces that act already."""

    def __init__(
        self, seed: int, contacts: int, columns: int, between: bool = False, acts: bool = False
    ) -> None:
        super().__init__(seed, contacts, columns)
        rng = np.random.default_rng(100 + seed)
        self.approach = rng.choice([0.0, 1.0], size=contacts) * rng.uniform(size=contacts)
        self.share = rng.uniform(size=contacts)
        self.restitution = rng.choice([0.0, 0.6], size=contacts) if seed % 3 else np.zeros(contacts)
        self.gaps = 1e-5 * rng.normal(size=contacts)
        self.between = np.zeros(contacts, dtype=bool)
        if between:
            # what pushes first lands
            first = np.argmax(self.solve()[0][2::3] > 0.0)
            self.between[first], self.approach[first] = True, 0.9
        self.acting, self.acted = np.zeros(3 * contacts), np.zeros(columns)
        self.lag = CHANGE_WEIGHT if acts else 0.0
        if acts:
            self.acting = 0.5 * self.solve()[0]
            self.acted = self.A.T @ self.acting + 0.01 * rng.normal(size=columns)

    def solver_of_step(self, most: int) -> ContactStep:
        groups = ContactLayout.of(self.supports).groups
        between = np.flatnonzero(self.between).tolist()
        return ContactStep(self.columns, groups, most, between=between)

    @property
    def entries(self) -> list[float]:
        return self.arguments[: 3 * sum(map(len, self.supports))]

    @property
    def step_arguments(self) -> list[float]:
        return [
            *self.entries,
            *self.b,
            *self.mu,
            *self.approach,
            *self.share,
            *self.restitution,
            *self.gaps,
            *self.start,
            *np.zeros(self.contacts),
            H,
            TOLERANCE,
            *self.acting,
            *self.acted,
            *np.full(self.contacts + 1, self.lag),
        ]

    @property
    def mean(self) -> np.ndarray:
        """What acts within the step already."""
        return 0.5 * (self.A.T @ self.acting + self.acted)

    def take_back(self) -> None:
        """Leave velocities and gaps without what acts within the step."""
        taken = self.A @ self.mean
        self.b, self.gaps = self.b - taken, self.gaps - 0.5 * H * taken[2::3]

    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return impulses, y and z by separate solutions."""
        n = slice(2, None, 3)
        self.take_back()
        p, u, _ = self.solve()
        jumps = self.approach * p[n]
        lands = self.between & (self.approach > LANDING_SHARE)
        if p[n][lands].max(initial=0.0) > 0.0 and p[n][~lands].max(initial=0.0) > 0.0:
            collision = Problem.__new__(Problem)
            collision.__dict__.update(self.__dict__)
            collision.b = self.b.copy()
            collision.b[n] = np.where(self.b[n] < 0.0, self.approach * self.b[n], self.b[n])
            taken, left, _ = collision.solve()
            assert collision.violation(taken, left) < 1e-9
            self.took = np.minimum(taken[n], p[n])[lands]
            jumps[lands] = self.took
        extra = self.restitution * jumps
        if extra.max() > 0.0:
            self.least = np.where(extra > 0.0, jumps + extra, 0.0)
            self.start = p
            p, u, _ = self.solve()
        assert self.violation(p, u) < 1e-9
        closed = p[n] > 0.0
        sudden = np.where(closed, (jumps + extra) / np.where(closed, p[n], 1.0), 0.0)
        weight = self.share * (0.5 + 0.5 * np.minimum(sudden, 1.0))
        timed = np.repeat(weight, 3) * p
        late = self.lag if jumps.max() <= 0.0 else 0.0
        timed -= late * p
        held = p[n] > self.least + 1e-8 * np.abs(p).max()
        # what lands may stay open
        held &= jumps <= LANDING_SHARE * p[n]
        slips = np.repeat(weight, 3) * self.b + self.A @ (self.A.T @ timed)
        slip, speed = (np.abs(x.reshape(-1, 3)[closed]) for x in (slips, self.b))
        self.is_carried = slip[:, :2].max(initial=0.0) > CARRIED_SPEED * speed.max(initial=0.0)
        if jumps.max() > 0.0 and self.is_carried:
            moments = Problem.__new__(Problem)
            moments.__dict__.update(self.__dict__)
            moments.b = np.repeat(weight, 3) * self.b
            moments.b[n] = (self.gaps + np.where(held, 0.0, GAP_TOLERANCE)) / H
            moments.least, moments.start = np.where(held, 0.0, timed[n]), timed
            timed, u, _ = moments.solve()
            assert moments.violation(timed, u) < 1e-9
        z = self.A.T @ timed + late * (np.abs(p).max() > 0.0) * self.mean
        ends = self.gaps + H * (self.A @ z)[n]
        last = Problem.__new__(Problem)
        last.__dict__.update(self.__dict__)
        last.b = np.zeros_like(self.b)
        last.b[n] = ends / H
        last.mu, last.start = np.zeros(self.contacts), np.zeros_like(p)
        last.least = np.where(held, -UNBOUNDED, 0.0)
        more, _, _ = last.solve()
        return p, self.A.T @ p, z + self.A.T @ more


SEEDS = (*range(8), 14, 15)


@pytest.mark.parametrize("acts", [False, True])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_primitive_solves_all_problems(seed, between, acts):
    step = Step(seed, contacts=2 + seed % 3, columns=18, between=between, acts=acts)
    if acts and seed % 2:
        # nothing lands
        step.approach[:] = 0.0
    found = step.solver_of_step(20000).apply(step.step_arguments)
    n, size = 3 * step.contacts, step.columns
    mean = found[n + 2 * size + step.contacts :][:size]
    np.testing.assert_allclose(mean, step.mean, atol=1e-12)
    p, y, z = step.expected()
    np.testing.assert_allclose(found[:n], p, atol=1e-9 * np.abs(p).max())
    np.testing.assert_allclose(found[n : n + size], y, atol=1e-9 * np.abs(p).max())
    # gaps are closed to their tolerance only, which moments may use up
    moved = step.A @ (np.array(found[n + size : n + 2 * size]) - z)
    assert H * np.abs(moved[2::3]).max() < (1.0 + 1e-6) * GAP_TOLERANCE
    assert H * np.abs(moved).max() < 5.0 * GAP_TOLERANCE


def test_some_steps_solve_for_moments_and_others_do_not():
    """Of those above; where contacts land and carry others away."""
    steps = [Step(seed, contacts=2 + seed % 3, columns=18) for seed in SEEDS]
    for step in steps:
        step.expected()
    assert {bool(step.is_carried) for step in steps} == {False, True}


def test_collisions_take_less_than_all_where_other_contacts_push():
    """In most of the cases above."""
    steps = [Step(seed, contacts=2 + seed % 3, columns=18, between=True) for seed in SEEDS]
    impulses = [step.expected()[0] for step in steps]
    took = [
        step.took / p[2::3][step.between]
        for step, p in zip(steps, impulses, strict=True)
        if hasattr(step, "took")
    ]
    assert sum(0.1 < share.min() < 0.999 for share in took) >= 3


def test_one_case_and_many_have_the_same_bits():
    steps = [Step(seed, contacts=3, columns=7, between=True) for seed in range(13)]
    for step in steps[1:]:
        step.supports = steps[0].supports
        rows = np.zeros_like(step.A)
        for k, support in enumerate(step.supports):
            rows[3 * k : 3 * k + 3, support] = step.A[3 * k : 3 * k + 3, : len(support)]
        step.A = rows
    for step in steps[::2]:
        # the first contact lands in every other case
        step.approach[0] *= LANDING_SHARE
    steps[0].between = np.array([True, False, False])
    primitive, width = steps[0].solver_of_step(2000), len(steps[0].step_arguments)
    program = trace(lambda x: as_traced(primitive.apply(list(x))), [Input("x", (width,))])
    kernel = make_kernel(ProgramSource(program), {})
    arguments = np.array([step.step_arguments for step in steps])
    many = kernel(arguments)
    for row, one in zip(arguments, many, strict=True):
        assert np.array_equal(kernel(row), one)


@pytest.mark.parametrize(
    ("seed", "between"),
    [(1, False), (2, False), (3, False), (15, False), (16, False), (1, True), (5, True), (7, True)],
)
def test_derivatives_are_those_of_central_differences(seed, between):
    """Impulses, y and z change with all arguments but the initial impulses as differences say.

    Seeds 15 and 16 are of steps that solve for moments.
    """
    step = Step(seed, contacts=2, columns=9, between=between, acts=True)
    primitive = step.solver_of_step(2000)
    x = np.array(step.step_arguments)
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(len(x)) * np.abs(x)
    # the step before, h and the tolerance
    direction[-28:-18] = 0.0

    def run(x):
        return as_traced(primitive.apply(list(x)))

    derivative = forward_derivative(trace(run, [Input("x", (len(x),))]))
    kept = 3 * step.contacts + 2 * step.columns
    change = interpret(derivative, {"x": x, "x_tangent": direction})
    change = change[:kept]
    eps = 1e-5
    there, back = (np.array(primitive.apply(list(x + s * eps * direction))) for s in (1.0, -1.0))
    expected = (there - back)[:kept] / (2.0 * eps)
    np.testing.assert_allclose(change, expected, atol=1e-5 * np.abs(expected).max())
