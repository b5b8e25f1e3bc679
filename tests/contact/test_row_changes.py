"""Changes of contact Jacobians with the configuration: central differences, joints of any kind."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_pose, random_tree
from tiburon.contact.candidates import candidates_of
from tiburon.contact.row_changes import row_changes
from tiburon.contact.rows import contact_rows

STEP = 1e-6
SHAPES = (
    tb.SphereShape(0.13),
    tb.CapsuleShape(0.07, 0.4),
    tb.EllipsoidShape((0.2, 0.1, 0.15)),
    tb.SphereShape(0.21),
)


def touching_tree(seed):
    """Return a tree of joints of all kinds; pairs of its links and the ground may touch."""
    kinds = ("revolute", "prismatic", "spherical", "universal", "planar", "screw", "free")
    tree = random_tree(seed, count=5, kinds=kinds)
    rng = np.random.default_rng(seed + 100)
    bodies = [
        replace(body, shapes=(tb.Shape(shape, pose=random_pose(rng)),))
        for body, shape in zip(tree.bodies, (*SHAPES, SHAPES[0]), strict=True)
    ]
    pairs = [("body4", "world"), ("body3", "body1"), ("body2", "body4"), ("body1", "world")]
    return tb.Model(f"touching{seed}", bodies), pairs


@pytest.mark.parametrize("seed", range(4))
def test_changes_equal_central_differences(seed):
    """Derivatives of J x and J^T f along every velocity variable, links on links and on ground."""
    model, pairs = touching_tree(seed)
    candidates = candidates_of(model, tb.World(ground=tb.Ground()), pairs)
    numbers = [x for candidate in candidates for x in candidate.parameters()]
    rng = np.random.default_rng(seed)
    q = np.asarray(model.random_state(rng)[0])
    x = rng.normal(size=(2, model.nv))
    count = sum(candidate.point_count for candidate in candidates)
    f = rng.normal(size=(2, 3 * count))

    def jacobian(at):
        points = contact_rows(model.plan, at.tolist(), candidates, numbers)
        rows = np.zeros((3 * count, model.nv))
        for k, point in enumerate(points):
            for axis, row in enumerate(point.rows):
                for i, entry in row.items():
                    rows[3 * k + axis, i] = entry
        return rows

    weights = rng.normal(size=(count, 2))
    found = row_changes(
        model.plan, q.tolist(), candidates, numbers, x.tolist(), f.tolist(), weights.tolist()
    )
    # the first velocity at all points, and the weighted sum of each
    tangential = [np.broadcast_to(x[0], (count, model.nv)), weights @ x]
    for k, unit in enumerate(np.eye(model.nv)):
        sides = [jacobian(np.asarray(model.integrate(q, s * STEP * unit))) for s in (1.0, -1.0)]
        change = (sides[0] - sides[1]) / (2 * STEP)
        for one, got in zip(x, found.normal, strict=True):
            np.testing.assert_allclose(np.array(got)[:, k], (change @ one)[2::3], atol=3e-8)
        rows = np.arange(3 * count) % 3 != 2
        for each, got in zip(tangential, found.tangential, strict=True):
            expected = np.einsum("ij,ij->i", change, np.repeat(each, 3, axis=0))[rows]
            np.testing.assert_allclose(np.array(got)[:, k], expected, atol=3e-8)
        for one, got in zip(f, found.force, strict=True):
            np.testing.assert_allclose(np.array(got)[:, k], change.T @ one, atol=3e-8)
