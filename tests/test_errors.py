"""The error tree: data, messages, pickling."""

import pickle

import pytest

from tiburon import errors


def test_unknown_name_puts_the_nearest_match_first_and_states_how_to_list():
    error = errors.UnknownNameError(
        "joint", "elbo", ["wrist", "elbow"], where="model 'arm'", listing="model.joint_names"
    )
    assert str(error) == (
        "model 'arm': unknown joint 'elbo'; did you mean 'elbow'? (model.joint_names lists all)"
    )
    assert (error.name, error.nearest, error.known) == ("elbo", "elbow", ("wrist", "elbow"))


def test_unknown_name_prefers_the_same_letters_in_another_case():
    assert errors.UnknownNameError("body", "ARM", ["ar", "Arm"]).nearest == "Arm"


def test_unknown_name_lists_a_few_known_names_when_none_is_near():
    known = [f"body{i}" for i in range(10)]
    message = str(errors.UnknownNameError("frame", "zzz", known))
    assert "known: 'body0', 'body1'" in message
    assert "and 2 more" in message


def test_unknown_name_states_when_there_is_nothing_to_choose_from():
    assert "there is no frame to choose from" in str(errors.UnknownNameError("frame", "a", []))


@pytest.mark.parametrize(
    ("error", "builtin", "message"),
    [
        (
            errors.ShapeError("q", "18 (6 base + 12 joints)", 12),
            ValueError,
            "q: expected 18 (6 base + 12 joints), got 12",
        ),
        (
            errors.ShapeError("R", (3, 3), (9,), advice="reshape it"),
            ValueError,
            "R: expected (3, 3), got (9,); reshape it",
        ),
        (
            errors.NonFiniteError("v", 3, float("inf")),
            ValueError,
            "v: every value must be finite, got inf at index 3; check the computation that made it",
        ),
        (
            errors.NonFiniteError("time"),
            ValueError,
            "time: every value must be finite, got a non-finite value; "
            "check the computation that made it",
        ),
        (
            errors.DomainError("q", "|x| <= 1e8", "2e9", advice="reduce the angle"),
            ValueError,
            "q: expected |x| <= 1e8, got 2e9; reduce the angle",
        ),
        (
            errors.OptionError("of", ("q", "v"), "x"),
            ValueError,
            "of: expected 'q' or 'v', got 'x'",
        ),
        (errors.TraceError("no if", function="f"), TypeError, "no if"),
        (
            errors.UnknownNameError("joint", "a", ["b"]),
            LookupError,
            "unknown joint 'a'; known: 'b'",
        ),
        (errors.ModelError("bad", name="arm"), Exception, "bad"),
        (errors.CompileError("no"), Exception, "no"),
    ],
)
def test_error_has_its_message_its_builtin_base_and_survives_pickling(error, builtin, message):
    assert str(error) == message
    assert isinstance(error, errors.TiburonError)
    assert isinstance(error, builtin)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == message
    assert repr(copy.__dict__) == repr(error.__dict__)  # by text: NaN differs from itself


def test_warnings_share_one_base():
    for category in (errors.ModelWarning, errors.CacheWarning):
        assert issubclass(category, errors.TiburonWarning)
        assert issubclass(category, UserWarning)
