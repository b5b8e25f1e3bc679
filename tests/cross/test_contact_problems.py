"""Contact forces without friction against daqp, a dual active-set QP solver."""

import json

import numpy as np
import pytest

from tests.cross.contact_problems import DATA, PROVENANCE, problems
from tiburon.contact.brute_force import MOST_CONTACTS, solve_brute_force
from tiburon.contact.heuristic import solve_heuristic
from tiburon.contact.pivoting import solve_pivoting
from tiburon.contact.pruned import solve_pruned


@pytest.fixture(scope="module")
def recorded():
    with np.load(DATA) as stored:
        return dict(stored)


def test_recording_names_its_tool():
    """Solver, version and command."""
    about = json.loads(PROVENANCE.read_text())
    assert about["tool"] == "daqp"
    assert about["version"]
    assert "record_contact_problems" in about["command"]


@pytest.mark.parametrize("kind", ["definite", "semidefinite"])
def test_accelerations_and_forces_are_those_of_the_qp(kind, recorded):
    """All solvers on definite problems; dependent normals by pivoting and brute force."""
    shared = 0
    for k, (A, d) in enumerate(problems(kind)):
        C = A @ A.T
        w, f = (recorded[f"{kind}/{k}/{name}"] for name in ("accelerations", "forces"))
        found = solve_pivoting(C, d)
        solutions = [found]
        if len(d) <= min(MOST_CONTACTS, 8):
            solutions.append(solve_brute_force(C, d))
        if kind == "definite":
            solutions += [solve_pruned(C, d), solve_heuristic(C, d)]
        for one in solutions:
            # the condition of C is up to 1e6 here
            np.testing.assert_allclose(one.accelerations, w, atol=1e-8)
            assert one.forces.min() >= 0.0
            if one.is_unique:
                np.testing.assert_allclose(one.forces, f, rtol=1e-6, atol=1e-8 * (1 + f.max()))
            else:
                # daqp's forces are some of many: ours are shorter, and press alike
                assert np.linalg.norm(one.forces) <= np.linalg.norm(f) * (1 + 1e-9)
                np.testing.assert_allclose(A.T @ one.forces, A.T @ f, atol=1e-8)
        shared += not found.is_unique
    assert (shared > 5) == (kind == "semidefinite")
