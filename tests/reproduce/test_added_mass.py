"""Added mass by panels beside published values: what is compared, and when it fails."""

from typer.testing import CliRunner

from tests.tolerances import assert_close
from tiburon.cli.application import application
from tiburon.reproduce import solids
from tiburon.reproduce.solids import panel_rows


def test_errors_fall_from_row_to_row_and_published_values_are_those_of_the_sources():
    """Few panels, so that it is quick; the sphere has one half, and only once."""
    rows = list(panel_rows((2, 5)))
    sphere = [row for row in rows if row.body == "sphere"]
    assert [(row.motion, row.panels) for row in sphere] == [("along x", (80, 500))]
    assert_close(sphere[0].published, 0.5)
    for row in rows:
        coarse, fine = row.errors
        # the octahedron crosses its value on the way
        assert abs(fine) < abs(coarse) or abs(fine) < 0.002
        assert abs(fine) < 0.05
    # three axes along and about which a general ellipsoid differs
    assert sum(row.body == "ellipsoid 1:0.6:0.3" for row in rows) == 6


def test_the_command_prints_errors_and_its_exit_code_reports_the_verdict(monkeypatch):
    good = next(iter(panel_rows((2, 3))))._replace(ours=(0.45, 0.499))
    for shown, code, last in (
        ([good], 0, "agree: 1 of 1 derived from print; 0 differ"),
        ([good, good._replace(ours=(0.45, 0.48))], 1, "agree: 1 of 2 derived from print; 1 differ"),
    ):
        monkeypatch.setattr(solids, "panel_rows", lambda parts, shown=shown: iter(shown))
        result = CliRunner().invoke(application, ["reproduce", "added-mass", "--coarse"])
        assert result.exit_code == code
        assert "0.4990 (errors -10.00 %, -0.20 %; estimated" in result.output
        assert last in result.output.splitlines()[-1]
        assert "500, 980 panels; the last agree within 1.5 %" in result.output
        assert ("DIFFERS" in result.output) == bool(code)
