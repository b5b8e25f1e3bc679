"""Contact points of one body share its rows; contacts that keep their modes are solved at once."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked
from tests.tolerances import assert_close
from tiburon.contact.candidates import candidates_of, numbers_of
from tiburon.contact.rigid import MOST_SWEEPS, compliance_of
from tiburon.contact.rows import contact_rows
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.contact_layout import LEVEL, OWN, TURNED, ContactLayout, PointGroup
from tiburon.trace.primitives.contact_step import ContactStep
from tiburon.trace.primitives.friction import (
    BLOCK_REGULARIZATION,
    INVERSE,
    NORMAL,
    STEP,
    STORED,
    GaussSeidel,
    Outcome,
    Problem,
    Row,
)
from tiburon.trace.primitives.friction_semismooth import FrictionSemismooth
from tiburon.trace.primitives.primitive import FloatMachine
from tiburon.trace.program import Input, trace

H, TOLERANCE = 1e-3, 1e-10

DATA = Path(__file__).parents[1] / "data" / "contact"


class Pads:
    """Pads of several points each on legs that share some columns, with weights on them."""

    def __init__(
        self, seed: int, form: int, pads: int = 2, points: int = 4, *, uneven: bool = False
    ) -> None:
        rng = np.random.default_rng(seed)
        self.size = 4 + 6 * pads
        # pads of different sizes, on legs of one joint, two, ...
        lengths = [k % 6 + 1 if uneven else 6 for k in range(pads)]
        counts = [points + k % 3 if uneven else points for k in range(pads)]
        supports = [(0, 1, 2, 3, *range(4 + 6 * k, 4 + 6 * k + lengths[k])) for k in range(pads)]
        self.groups = [PointGroup(form, *one) for one in zip(counts, supports, strict=True)]
        self.layout = ContactLayout(self.groups)
        self.entries = []
        for support in supports:
            B = rng.normal(size=(6, len(support)))
            # rotations move points of a pad by its size
            B[:3] *= 5.0
            self.entries += [*B.ravel()]
        self.numbers = []
        count = sum(counts)
        for _ in range(count):
            self.numbers += [*(0.1 * rng.normal(size=2)), -0.02]
            if form == TURNED:
                x, y, z = 0.2 * rng.normal(size=3)
                skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
                self.numbers += [*np.linalg.solve(np.eye(3) - skew, np.eye(3) + skew).ravel()]
        rows = self.layout.own_rows([*self.entries, *self.numbers])
        self.A, entries = np.zeros((3 * count, self.size)), iter(rows)
        for k, support in enumerate(self.layout.supports):
            for axis in range(3):
                self.A[3 * k + axis, support] = [next(entries) for _ in support]
        # bodies move and fall onto the ground
        self.b = 1e-2 * self.A @ rng.normal(size=self.size)
        self.b[2::3] -= 0.03
        self.mu = rng.uniform(0.2, 0.9, size=count)
        self.start = np.zeros(3 * count)
        self.own = [PointGroup(OWN, 1, support) for support in self.layout.supports]
        self.rows = rows

    @property
    def count(self) -> int:
        return self.layout.contacts

    def arguments(self, *, shared: bool, tolerance: float = TOLERANCE) -> list[float]:
        rows = [*self.entries, *self.numbers] if shared else self.rows
        closing = [*np.zeros(self.count), *np.ones(self.count), *np.zeros(self.count)]
        gaps = np.zeros(self.count)
        stuck = np.ones(self.count)
        acting = np.zeros(3 * self.count + self.size + self.count + 1)
        start = [*self.start, *stuck]
        return [*rows, *self.b, *self.mu, *closing, *gaps, *start, H, tolerance, *acting]

    def primitive(self, *, shared: bool, most: int = 5000) -> ContactStep:
        return ContactStep(self.size, self.groups if shared else self.own, most)

    def violation(self, p: np.ndarray) -> float:
        """Return the largest violation of the laws, impulses and velocities relative."""
        u = (self.A @ (self.A.T @ p) + self.b).reshape(-1, 3)
        p = p.reshape(-1, 3)
        size, slip = np.linalg.norm(p[:, :2], axis=1), np.linalg.norm(u[:, :2], axis=1)
        limit = self.mu * p[:, 2]
        power = np.sum(p[:, :2] * u[:, :2], axis=1) + limit * slip
        terms = [-p[:, 2], -u[:, 2], p[:, 2] * u[:, 2], size - limit, np.abs(power)]
        return float(np.max(terms) / np.abs(p).max())


@functools.cache
def solved(form: int, *, shared: bool) -> tuple[list[Pads], Any, np.ndarray, np.ndarray]:
    """Return problems, the kernel that solves them, its arguments and results."""
    problems = [Pads(seed, form) for seed in range(11)]
    arguments = np.array([problem.arguments(shared=shared) for problem in problems])
    primitive = problems[0].primitive(shared=shared, most=2000)
    program = trace(
        lambda x: as_traced(primitive.apply(list(x))), [Input("x", (arguments.shape[1],))]
    )
    kernel = make_kernel(ProgramSource(program), {})
    return problems, kernel, arguments, kernel(arguments)


@pytest.mark.parametrize("form", [LEVEL, TURNED])
def test_shared_rows_solve_the_same_problem(form):
    """The laws hold by the rows of the points, and velocities are those of separate rows."""
    problems, _, _, found = solved(form, shared=True)
    _, _, _, alone = solved(form, shared=False)
    n, size = 3 * problems[0].count, problems[0].size
    for problem, one, other in zip(problems, found, alone, strict=True):
        assert one[:n].any()
        assert one[-3] <= TOLERANCE
        assert problem.violation(one[:n]) < 1e-8
        y, expected = one[n : n + size], other[n : n + size]
        # also after attempts that failed
        np.testing.assert_allclose(y, problem.A.T @ one[:n], atol=1e-11)
        np.testing.assert_allclose(y, expected, atol=3e-7 * np.abs(expected).max())


@pytest.mark.parametrize("form", [LEVEL, TURNED])
def test_one_case_and_many_have_the_same_bits(form):
    """Cases that stick, slide and lift off, which need different numbers of passes and sweeps."""
    _, kernel, arguments, many = solved(form, shared=True)
    assert len(set(many[:, -2])) > 2
    for row, one in zip(arguments, many, strict=True):
        assert np.array_equal(kernel(row), one)


@pytest.mark.parametrize("pads", [3, 6, 9])
def test_like_pads_side_by_side_have_the_bits_of_a_batch(pads):
    """Also where they do not fill the lanes of vectors, or are more than these."""
    problems = [Pads(seed, LEVEL, pads=pads, points=3) for seed in range(5)]
    arguments = np.array([problem.arguments(shared=True) for problem in problems])
    primitive = problems[0].primitive(shared=True, most=2000)
    program = trace(
        lambda x: as_traced(primitive.apply(list(x))), [Input("x", (arguments.shape[1],))]
    )
    kernel = make_kernel(ProgramSource(program), {})
    many = kernel(arguments)
    n = 3 * problems[0].count
    for problem, row, one in zip(problems, arguments, many, strict=True):
        assert np.array_equal(kernel(row), one)
        assert one[-3] <= TOLERANCE
        assert problem.violation(one[:n]) < 1e-8


@pytest.mark.parametrize("form", [LEVEL, TURNED])
def test_pads_of_different_sizes_share_code(form):
    """One loop over all of them, as over points with rows of their own; the same bits."""
    # two of the first problems have no solution that sweeps find, whatever the code
    problems = [Pads(seed, form, pads=10, points=3, uneven=True) for seed in range(2, 7)]
    for groups in (problems[0].groups, problems[0].own):
        (run,) = ContactLayout(groups).runs()
        assert run.length == len(groups)
    kernels = []
    for shared in (True, False):
        arguments = np.array([problem.arguments(shared=shared) for problem in problems])
        primitive = problems[0].primitive(shared=shared, most=2000)
        program = trace(
            lambda x, of=primitive: as_traced(of.apply(list(x))),
            [Input("x", (arguments.shape[1],))],
        )
        kernels.append((make_kernel(ProgramSource(program), {}), arguments))
    (kernel, arguments), (own, separate) = kernels
    many, alone = kernel(arguments), own(separate)
    n, size = 3 * problems[0].count, problems[0].size
    for row, other in zip(separate, alone, strict=True):
        assert np.array_equal(own(row), other)
    for problem, row, one, other in zip(problems, arguments, many, alone, strict=True):
        assert np.array_equal(kernel(row), one)
        assert max(one[-3], other[-3]) <= TOLERANCE
        assert max(problem.violation(found[:n]) for found in (one, other)) < 1e-8
        y, expected = one[n : n + size], other[n : n + size]
        np.testing.assert_allclose(y, problem.A.T @ one[:n], atol=1e-11)
        np.testing.assert_allclose(y, expected, atol=3e-7 * np.abs(expected).max())


def test_gaps_that_contradict_each_other_take_few_passes(monkeypatch):
    """Four points of a plate that are held closed, with gaps that no plate has."""
    pads = Pads(0, LEVEL)
    pads.mu[:] = 5.0
    pushed = np.tile([0.2, -0.1, 1.0], pads.count)
    pads.b = -pads.A @ (pads.A.T @ pushed)
    given, n = pads.arguments(shared=True, tolerance=1e-8), 3 * pads.count
    gaps = len(pads.entries) + len(pads.numbers) + n + 4 * pads.count
    given[gaps : gaps + pads.count] = np.tile([0.0, 2e-7, 0.0, 0.0], 2)
    passes = []

    def counted(of, name):
        method = getattr(of, name)
        monkeypatch.setattr(of, name, lambda *all: passes.append(name) or method(*all))

    counted(FrictionSemismooth, "_apply")
    counted(GaussSeidel, "_visit")
    found = pads.primitive(shared=True, most=100).apply(given)
    assert 0 < passes.count("_apply") < 10
    assert passes.count("_visit") <= 2 * pads.count
    # what is left of the gaps is spread over all points: no pass makes the largest one smaller
    z = np.array(found[n + pads.size : n + 2 * pads.size])
    left = np.array(given[gaps : gaps + pads.count]) + H * (pads.A @ z)[2::3]
    assert 1e-9 < np.abs(left).max() < 1e-7


def test_impulses_that_hold_the_contacts_are_kept():
    """Those of the step before, where nothing has changed; not where points slide or lift off."""
    pads = Pads(0, LEVEL)
    pads.mu[:] = 5.0
    n = 3 * pads.count
    pushed = np.tile([0.2, -0.1, 1.0], pads.count) + 0.05 * np.random.default_rng(1).normal(size=n)
    pads.b = -pads.A @ (pads.A.T @ pushed)
    primitive = pads.primitive(shared=True)
    found = primitive.apply(pads.arguments(shared=True, tolerance=1e-8))
    pads.start = np.array(found[:n])
    again = primitive.apply(pads.arguments(shared=True, tolerance=1e-8))
    assert again[-2] == 0.0
    assert again[-3] <= 1e-10
    assert np.array_equal(again[:n], found[:n])
    # a little more: a part of the way; more: the whole way
    weight = np.linalg.norm(pads.A @ (pads.A.T @ pushed))
    for share, least, most in ((4e-12, 0.5, 0.9), (1e-6, 0.0, 1e-2)):
        pads.b = -pads.A @ (pads.A.T @ ((1.0 + share) * pushed))
        moved = np.array(primitive.apply(pads.arguments(shared=True, tolerance=1e-8))[:n])
        u = pads.A @ (pads.A.T @ moved) + pads.b
        left = np.linalg.norm(u) / (share * weight)
        assert least <= left <= most
    # points that slide are solved for
    pads.b = -pads.A @ (pads.A.T @ pushed)
    pads.b[0::3] += 10.0
    pads.mu[:] = 0.3
    found = primitive.apply(pads.arguments(shared=True, tolerance=1e-8))
    assert found[-2] > 0.0


def test_rows_of_like_legs_are_those_of_the_mass_matrix():
    """A A^T = J H^-1 J^T, and the response to impulses, by articulated-body inertias of legs."""
    model = tb.load("aquarobot")
    q, _, _ = kicked(model, seed=8)
    world = tb.World(ground=tb.Ground(static_friction=0.5))
    candidates = candidates_of(model, world)
    p = numbers_of(candidates)
    pushed = np.random.default_rng(2).standard_normal(3 * len(candidates))

    def run(x):
        points = contact_rows(model.plan, list(x), candidates, p)
        found = compliance_of(model.plan, list(x), points)
        assert all(point.carrier.alike for point in points)

        def dense(rows):
            return [row.get(i, 0.0) for row in rows for i in range(model.nv)]

        J = [row for point in points for row in point.rows]
        y = [0.0] * model.nv
        for row, weight in zip(found.rows, pushed, strict=True):
            for i, entry in row.items():
                y[i] = y[i] + entry * weight
        gaps = [point.geometry.gap for point in points]
        return as_traced([*dense(found.rows), *dense(J), *found.response(y), *gaps])

    found = interpret(trace(run, [Input("x", (model.nq,))]), {"x": q})
    size = len(pushed) * model.nv
    A, J = (np.reshape(x, (-1, model.nv)) for x in (found[:size], found[size : 2 * size]))
    H = tb.mass_matrix(model, q)
    mobility = J @ np.linalg.solve(H, J.T)
    assert_close(A @ A.T, mobility, 1e-10 * np.abs(mobility).max())
    response, gaps = found[2 * size : 2 * size + model.nv], found[2 * size + model.nv :]
    expected = np.linalg.solve(H, J.T @ pushed)
    assert_close(response, expected, 1e-9 * np.abs(expected).max())
    assert_close(gaps, tb.contacts(model, q, world=world).gap, 1e-12)


def test_steps_of_a_walk_whose_pads_slide_or_are_about_to():
    """Recorded arguments of six steps of `aquarobot`, on which sweeps converge slowly.

    Pads of nine points that slide share their loads slowly; those about to slide need many steps
    of Newton's method.
    """
    recorded = np.load(DATA / "sliding_pads.npz")["arguments"]
    # nothing acts within the steps already
    arguments = np.pad(recorded, ((0, 0), (0, 3 * 54 + 42)))
    groups = [
        PointGroup(LEVEL, 9, (*range(6), *range(6 + 6 * leg, 12 + 6 * leg))) for leg in range(6)
    ]
    primitive = ContactStep(42, groups, MOST_SWEEPS)
    program = trace(
        lambda x: as_traced(primitive.apply(list(x))), [Input("x", (arguments.shape[1],))]
    )
    found = make_kernel(ProgramSource(program), {})(arguments)
    assert found[:, -3].max() <= 1e-8
    # the natural map by the rows of the points
    layout, entries, n = ContactLayout(groups), primitive.entries, 3 * 54
    for row, impulses in zip(arguments, found[:, :n], strict=True):
        A, own = np.zeros((n, 42)), iter(layout.own_rows(list(row[:entries])))
        for k, support in enumerate(layout.supports):
            for axis in range(3):
                A[3 * k + axis, list(support)] = [next(own) for _ in support]
        mu = row[entries + n : entries + n + 54]
        u = (A @ (A.T @ impulses) + row[entries : entries + n]).reshape(-1, 3)
        p = impulses.reshape(-1, 3)
        rho = 3.0 / np.sum(A * A, axis=1).reshape(-1, 3).sum(axis=1)
        wanted = p - rho[:, None] * u
        size, limit = np.linalg.norm(wanted[:, :2], axis=1), mu * p[:, 2]
        wanted[:, :2] *= np.where(size > limit, limit / np.maximum(size, 1e-300), 1.0)[:, None]
        wanted[:, 2] = np.maximum(wanted[:, 2], 0.0)
        assert np.abs(wanted - p).max() <= 1.1e-8 * np.abs(p).max()


def test_points_that_are_held_need_one_pass():
    """From the impulses of the step before, with velocities that differ a little."""
    pads = Pads(0, LEVEL)
    pads.mu[:] = 5.0
    n = 3 * pads.count
    # the feet are pushed onto the ground by impulses inside of their cones
    pushed = np.tile([0.2, -0.1, 1.0], pads.count) + 0.05 * np.random.default_rng(1).normal(size=n)
    pads.b = -pads.A @ (pads.A.T @ pushed)
    found = pads.primitive(shared=True).apply(pads.arguments(shared=True))
    pads.start = np.array(found[:n])
    pads.b = -pads.A @ (pads.A.T @ (1.001 * pushed))
    found = pads.primitive(shared=True).apply(pads.arguments(shared=True, tolerance=1e-8))
    assert found[-2] == 1.0
    assert found[-3] <= 1e-8
    assert not any(found[n + 2 * pads.size : n + 2 * pads.size + pads.count])


def test_derivatives_are_those_of_central_differences():
    """The change of y and z with rows, arms and velocities, at a point where modes are clear."""
    pads = Pads(3, LEVEL, points=3)
    primitive = pads.primitive(shared=True, most=3000)
    x = np.array(pads.arguments(shared=True, tolerance=1e-13))
    rng = np.random.default_rng(2)
    direction = rng.standard_normal(len(x)) * np.abs(x)
    count = pads.count
    # closing, gaps, the step before, h, the tolerance and what acts
    direction[-(3 * count + count + 4 * count + 2 + 3 * count + pads.size + count + 1) :] = 0.0

    def run(x):
        return as_traced(primitive.apply(list(x)))

    derivative = forward_derivative(trace(run, [Input("x", (len(x),))]))
    change = interpret(derivative, {"x": x, "x_tangent": direction})
    eps = 1e-6
    there, back = (np.array(primitive.apply(list(x + s * eps * direction))) for s in (1.0, -1.0))
    some = slice(3 * count, 3 * count + pads.size)
    expected = (there - back)[some] / (2.0 * eps)
    np.testing.assert_allclose(change[some], expected, atol=1e-4 * np.abs(expected).max())


def sledge(points: int) -> tb.Model:
    """Return a block on a pad of points on an ellipse."""
    corners = [(0.3 * np.cos(a), 0.2 * np.sin(a)) for a in 2 * np.pi * np.arange(points) / points]
    body = tb.Body("block", joint=tb.Free("block"), inertia=tb.Inertia.box(2.0, (0.4, 0.3, 0.2)))
    contacts = [tb.ContactPoint(f"p{k}", "block", (*c, -0.1)) for k, c in enumerate(corners)]
    return tb.Model("sledge", [body], contacts=contacts)


def flat_grid() -> tb.GroundGrid:
    return tb.GroundGrid(spacing=(1.0, 1.0), heights=[[0.0] * 9] * 9, origin=(-4.0, -4.0))


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize(("angle", "slides"), [(10.0, False), (25.0, True)])
def test_a_pad_of_many_points_slides_as_a_block_does(angle, slides, grid):
    """At g (sin - mu cos) above the angle of friction, in a heading of its own; rest below."""
    mu, turn = 0.3, 0.7
    slope = np.deg2rad(angle)
    along = np.array([np.cos(turn), np.sin(turn), 0.0])
    gravity = 9.81 * (np.sin(slope) * along - np.cos(slope) * np.array([0.0, 0.0, 1.0]))
    ground = tb.Ground(static_friction=mu, grid=flat_grid() if grid else None)
    world = tb.World(gravity=tuple(gravity), ground=ground)
    q = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]
    run = tb.simulate(
        sledge(9),
        0.2,
        q=q,
        world=world,
        record=tb.Record(dt=0.1),
        execution=tb.Execution(progress=False),
    )
    way = (run.q[:, 4:7] - run.q[0, 4:7]) @ along
    rate = 9.81 * (np.sin(slope) - mu * np.cos(slope)) if slides else 0.0
    np.testing.assert_allclose(way, 0.5 * rate * run.time**2, atol=1e-10)
    across = run.q[:, 4:7] - run.q[0, 4:7] - np.outer(way, along)
    assert np.abs(across).max() < 1e-9
    summary = run.contact_summary()
    assert summary.residual <= 1e-8
    assert summary.iterations <= 12


@pytest.mark.parametrize("form", [OWN, LEVEL, TURNED])
def test_stored_blocks_are_those_of_the_rows_of_each_point(form):
    """Step length, normal element and inverse against A_k A_k^T of the expanded rows."""
    rng = np.random.default_rng(form)
    points, support, size = (1, (0, 2, 3, 4, 5), 6) if form == OWN else (4, tuple(range(8)), 8)
    layout = ContactLayout([PointGroup(form, points, support)])
    axes = [np.linalg.qr(rng.standard_normal((3, 3)))[0].ravel() for _ in range(points)]
    given = [*rng.standard_normal(layout.entries)]
    for own in axes if form != OWN else ():
        given += [*rng.standard_normal(3), *(own if form == TURNED else ())]
    m = FloatMachine()
    rows = [Row([0.0] * (size * 4)) for _ in range(6)]
    problem = Problem(Row(given), Row(given, layout.entries), *rows)
    outcome = Outcome(*(Row([0.0]) for _ in range(3)))
    solver = GaussSeidel(m, layout, size, problem, outcome, 10)
    solver.begin(Row([0.0] * (3 * points)))
    A = np.reshape(layout.own_rows(given), (points, 3, len(support)))
    for k, visit in enumerate(solver.visits()):
        G = A[k] @ A[k].T
        trace = np.trace(G)
        stored = solver.stored[k * STORED : (k + 1) * STORED]
        assert_close(stored[STEP], 3.0 / trace, 1e-13)
        assert_close(stored[NORMAL], G[2, 2] + BLOCK_REGULARIZATION * trace, 1e-13 * trace)
        visit.store_inverse()
        stored = solver.stored[k * STORED : (k + 1) * STORED]
        inverse = np.linalg.inv(G + BLOCK_REGULARIZATION * trace * np.eye(3))
        upper = inverse[np.triu_indices(3)]
        assert_close(stored[INVERSE : INVERSE + 6], upper, 1e-9 * np.abs(upper).max())
