"""The drivers: order of visits, what travels between them, and which bodies make a pair."""

import pytest

from tests.robots import ROBOTS
from tiburon.algorithms.traversal import inward, outward, pairs, to_root

TREES = [ROBOTS[name].plan for name in ("quadruped", "forest", "balloon", "chain_8")]

over_trees = pytest.mark.parametrize("plan", TREES, ids=lambda plan: plan.name)


def ancestors(plan, body):
    """Return the names from a body to its root, by following parents."""
    names = [body.name]
    while body.parent != -1:
        body = plan.bodies[body.parent]
        names.append(body.name)
    return names


@over_trees
def test_outward_passes_the_value_of_the_parent(plan):
    """Names strung together on the way out spell the path from the world."""
    paths = outward(plan, lambda body, path: [body.name, *path], ["world"])
    assert list(paths) == [[*ancestors(plan, body), "world"] for body in plan.bodies]


@over_trees
def test_outward_gives_each_visit_its_own_values(plan):
    """Values per body arrive at the body they belong to."""
    numbers = [10 * body.index for body in plan.bodies]
    seen = outward(plan, lambda body, _, a, b: (body.index, a, b), None, numbers, numbers[::-1])
    assert seen == tuple(zip(range(len(numbers)), numbers, numbers[::-1], strict=True))


@over_trees
def test_inward_sums_over_all_descendants(plan):
    """Ones handed on make each body count its subtree."""

    def visit(body, total, own):
        assert own == body.name
        return total, total

    counts = inward(plan, visit, [1] * len(plan.bodies), [body.name for body in plan.bodies])
    for body in plan.bodies:
        assert counts[body.index] == sum(body.name in ancestors(plan, b) for b in plan.bodies)


@over_trees
def test_inward_keeps_and_passes_different_values(plan):
    """What a visit keeps is not what its parent gets."""
    kept = inward(plan, lambda body, total: (total, 0), [body.index for body in plan.bodies])
    assert kept == tuple(range(len(plan.bodies)))


@over_trees
def test_to_root_visits_a_body_and_its_ancestors_in_order(plan):
    """The value grows by one per step, and the walk ends at the root."""
    for body in plan.bodies:
        walk = to_root(plan, body, lambda at, steps: (steps, steps + 1), 0)
        assert [at.name for at, _ in walk] == ancestors(plan, body)
        assert [kept for _, kept in walk] == list(range(len(walk)))


@over_trees
def test_pairs_are_bodies_on_one_branch(plan):
    """Every body is paired with itself and its ancestors only."""
    found = pairs(plan, lambda at, start: ((start, at.name), start), [b.name for b in plan.bodies])
    expected = {(b.name, name) for b in plan.bodies for name in ancestors(plan, b)}
    assert {(body.name, at.name) for body, at, _ in found} == expected
    assert len(found) == len(expected)
    assert all(kept == (body.name, at.name) for body, at, kept in found)
