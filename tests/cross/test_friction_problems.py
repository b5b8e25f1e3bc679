"""Impulses of our solvers against those that Pinocchio found for the same contact problems."""

import json

import numpy as np
import pytest

from tests.cross.friction_problems import CONTACTS, DATA, PROVENANCE, problems
from tiburon.trace.primitives.friction import FrictionGaussSeidel

RECORDED = np.load(DATA)


def test_provenance_names_tool_version_and_command():
    facts = json.loads(PROVENANCE.read_text())
    assert facts["tool"] == "pinocchio"
    assert facts["version"]
    assert "record_friction_problems" in facts["command"]


@pytest.mark.parametrize("case", range(len(problems())))
def test_impulses_are_those_of_pinocchio(case):
    """Blocks of full rank: impulses are unique unless Coulomb's law has several solutions."""
    A, b, mu = problems()[case]
    assert RECORDED["converged"][case]
    n, size = A.shape
    solver = FrictionGaussSeidel(size, [list(range(size))] * CONTACTS, 2000)
    given = [*A.ravel(), *b, *mu, *[0.0] * CONTACTS, *[0.0] * n, 1e-12]
    found = solver.apply(given)
    expected = RECORDED["impulses"][case]
    # the recorded solver ended at 1e-12 in velocities and complementarity
    np.testing.assert_allclose(found[:n], expected, atol=1e-7 * np.abs(expected).max())
