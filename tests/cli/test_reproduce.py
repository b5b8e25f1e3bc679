"""`tiburon reproduce`: what it prints, and what its exit code says."""

from typer.testing import CliRunner

from tiburon.cli.application import application
from tiburon.reproduce import operation_counts
from tiburon.reproduce.operation_counts import CountRow, CountTable
from tiburon.reproduce.published import Cost


def invoke(*words):
    return CliRunner().invoke(application, ["reproduce", "operation-counts", *words])


def test_operation_counts_show_polynomial_count_and_verdict():
    """Each table begins with its source and polynomial, each row ends with a verdict."""
    result = invoke("--largest", "6")
    assert result.exit_code == 0
    assert "McMillan 1994, Table 28" in result.output
    assert "10N^2 + 9N - 25 multiplications, 6N^2 + 34N - 50 additions" in result.output
    (row,) = (line for line in result.output.splitlines() if "389m + 370a" in line)
    assert " ".join(row.split()) == "N 6 389m + 370a printed 334m + 293a, below by 132 fewer"
    assert any(
        line.split()[:4] == ["N,", "by", "multiplications", "9.40"] for line in _lines(result)
    )
    (row,) = (line for line in result.output.splitlines() if "203m + 163a" in line)
    words = "N 1, with Free 194m + 168a derived from print 203m + 163a, above by 4 "
    assert " ".join(row.split()) == words + "not judged (measured)"
    assert "; 0 differ, " in _lines(result)[-1]


def _lines(result):
    return result.output.splitlines()


def test_summary_has_one_line_per_table():
    """Only rows above the published count would be shown."""
    result = invoke("--largest", "3", "--summary")
    assert result.exit_code == 0
    assert "  agree: 2 of 2 derived from print (2 fewer); 0 differ, 0 not judged\n" in result.output
    assert "below by" not in result.output


def test_a_count_above_the_published_one_is_a_failure(monkeypatch):
    """The exit code agrees with the last line."""
    row = CountRow("2", Cost(10, 10), Cost(12, 10))
    table = CountTable("Somebody 1999", "something", "N", (row,))
    monkeypatch.setattr(operation_counts, "count_tables", lambda largest: (table,))
    result = invoke()
    assert result.exit_code == 1
    assert "above by 2" in result.output
    assert "agree: 0 of 1 printed; 1 differ" in result.output
