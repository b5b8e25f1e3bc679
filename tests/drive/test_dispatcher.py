"""Messages: what they do, who may, and that no text whatever stops the robot."""

import json
import time

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiburon as tb
from tests.drive.vehicles import pause, wait
from tiburon.drive.dispatcher import (
    FORMATS,
    MAX_MESSAGE_BYTES,
    Dispatcher,
    MessageError,
    decode,
    encode,
)
from tiburon.drive.servers import AccessControl


@pytest.fixture
def dispatcher(drive, tmp_path):
    made = Dispatcher(drive, tmp_path)
    yield made
    drive.ticker.paused = False
    drive.ticker.speed = 1.0
    if drive.recording is not None:
        drive.stop_recording()
    drive.release()


def say(dispatcher, client, **message):
    return hand_in(dispatcher, client, json.dumps(message))


def hand_in(dispatcher, client, data):
    """Hand in what has come over a connection, as `converse` does."""
    try:
        return dispatcher.handle(client, decode(data, client.format))
    except MessageError as error:
        return {"type": "error", "message": str(error)}


def goes_on(drive):
    before = drive.ticker.latest().steps
    wait(lambda: drive.ticker.latest().steps > before)


def test_the_first_to_steer_has_control_until_it_leaves(dispatcher, drive):
    """Others watch and are informed; sticks of one who leaves go to the middle."""
    one, two = dispatcher.add_client("one"), dispatcher.add_client("two")
    assert say(dispatcher, one, type="command", values={"surge": 0.5})["type"] == "done"
    refused = say(dispatcher, two, type="command", values={"surge": -1.0}, id=7)
    assert refused["type"] == "error"
    assert "'one'" in refused["message"]
    assert refused["id"] == 7
    assert say(dispatcher, two, type="state")["operator"] == "other"
    assert say(dispatcher, one, type="state")["operator"] == "you"
    dispatcher.remove_client(one)
    place = drive.place("surge")
    wait(lambda: drive.ticker.latest().held[place] == 0.0)
    assert say(dispatcher, two, type="command", values={"surge": -1.0})["type"] == "done"
    goes_on(drive)


def test_dead_mans_switch_acts_without_messages(dispatcher, drive):
    """An operator that misses its announced message loses control, whoever else is connected."""
    client = dispatcher.add_client()
    say(dispatcher, client, type="command", values={"surge": 1.0, "station": 1.0}, hold=0.3)
    place = drive.place("surge")
    wait(lambda: drive.ticker.latest().held[place] == 1.0, 10.0)
    wait(lambda: drive.ticker.latest().held[place] == 0.0, 10.0)
    # modes are no sticks
    assert drive.ticker.latest().held[drive.place("station")] == 1.0
    say(dispatcher, client, type="command", values={"station": 0.0})


def test_stick_values_are_held_while_the_operator_sends(dispatcher, drive):
    """Each command moves the deadline, also one that takes it away."""
    client, place = dispatcher.add_client(), drive.place("surge")
    for hold in (0.2, 0.2, 60.0):
        say(dispatcher, client, type="command", values={"surge": 1.0}, hold=hold)
        time.sleep(0.05)
    wait(lambda: drive.ticker.latest().held[place] == 1.0)
    time.sleep(0.3)
    assert drive.ticker.latest().held[place] == 1.0
    say(dispatcher, client, type="command", values={"surge": 1.0}, hold=0.05)
    wait(lambda: drive.ticker.latest().held[place] == 0.0, 10.0)
    say(dispatcher, client, type="command", values={"surge": 1.0})
    wait(lambda: drive.ticker.latest().held[place] == 1.0)
    time.sleep(0.1)
    assert drive.ticker.latest().held[place] == 1.0


def test_pause_step_speed_snapshot_reset(dispatcher, drive):
    client = dispatcher.add_client()
    assert "pause" in say(dispatcher, client, type="step")["message"]
    assert say(dispatcher, client, type="pause", on=True)["type"] == "done"
    pause(drive)
    before = drive.ticker.latest().steps
    say(dispatcher, client, type="step", count=5)
    wait(lambda: drive.ticker.latest().steps == before + 5)
    assert say(dispatcher, client, type="snapshot", name="a")["snapshots"] == ["a"]
    say(dispatcher, client, type="reset")
    wait(lambda: drive.ticker.latest().steps == 0)
    say(dispatcher, client, type="restore", name="a")
    wait(lambda: drive.ticker.latest().steps == before + 5)
    assert say(dispatcher, client, type="speed", value=0.5)["type"] == "done"
    assert say(dispatcher, client, type="state")["time_scale"] == 0.5
    assert say(dispatcher, client, type="speed", value=0)["type"] == "error"


def test_recordings_and_robots_are_saved_in_the_server_folder(dispatcher, drive, tmp_path):
    """Clients choose no paths; each file gets a name of its own."""
    client = dispatcher.add_client()
    say(dispatcher, client, type="record", on=True, path="/etc/passwd")
    goes_on(drive)
    first = say(dispatcher, client, type="record", on=False)
    assert first["path"] == str(tmp_path / "bluerov2_heavy-1.zarr")
    assert say(dispatcher, client, type="save")["path"] == str(tmp_path / "bluerov2_heavy-1.toml")
    assert say(dispatcher, client, type="save")["path"] == str(tmp_path / "bluerov2_heavy-2.toml")


def test_welcome_state_report_and_forecast_are_json(dispatcher):
    client = dispatcher.add_client()
    for kind in ("hello", "describe", "state", "report", "forecast"):
        answer = say(dispatcher, client, type=kind, horizon=0.1, rows=2)
        assert answer["type"] != "error", answer
        json.dumps(answer, allow_nan=False)
    assert say(dispatcher, client, type="report")["report"]["ticks"] > 0


def test_edits_are_applied_or_refused(dispatcher, drive):
    client = dispatcher.add_client()
    assert (
        say(dispatcher, client, type="edit", values={"density": 1010.0})["parameters"]["density"]
        == 1010.0
    )
    answer = say(dispatcher, client, type="edit", values={"dens": 1.0})
    assert "density" in answer["message"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[1, 2]",
        '"hello"',
        "{}",
        '{"type": 3}',
        '{"type": "explode"}',
        '{"type": "command"}',
        '{"type": "command", "values": {"surge": "fast"}}',
        '{"type": "command", "values": {"surge": NaN}}',
        '{"type": "command", "values": {"surge": 1e999}}',
        '{"type": "command", "values": {"nobody": 1}}',
        '{"type": "command", "values": {"surge": true}}',
        '{"type": "speed", "value": null}',
        '{"type": "pause", "on": 1}',
        '{"type": "step", "count": -5}',
        '{"type": "forecast", "horizon": 1e9}',
        '{"type": "restore", "name": "nowhere"}',
        '{"type": "snapshot", "name": ""}',
        "[" * 5000,
        b"\xff\xfe\x00",
        " " * (MAX_MESSAGE_BYTES + 1),
    ],
)
def test_an_invalid_message_gets_an_error_and_changes_nothing(dispatcher, drive, text):
    held = drive.ticker.memory.posted.copy()
    answer = hand_in(dispatcher, dispatcher.add_client(), text)
    assert answer["type"] == "error"
    assert len(answer["message"]) < 1000
    assert (drive.ticker.memory.posted == held).all()
    goes_on(drive)


WORDS = st.sampled_from(
    ["type", "values", "on", "value", "name", "count", "rate", "hold", "id", "rows", "horizon"]
)
KINDS = st.sampled_from(
    ["hello", "command", "pause", "step", "speed", "snapshot", "restore", "edit", "leave", "state"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | KINDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)

PACKED = VALUES.filter(lambda value: not isinstance(value, int) or -(2**63) <= value < 2**63).map(
    lambda value: _packed(value)
)
"""Values as MessagePack, none of them a message; some cut off."""


def _packed(value):
    try:
        return msgpack.packb(value)
    except OverflowError:
        # integers inside that no format holds
        return b"\xc1"


@settings(max_examples=60)
@given(
    message=st.dictionaries(WORDS, VALUES, max_size=5), kind=KINDS, form=st.sampled_from(FORMATS)
)
def test_any_object_gets_a_reply(drive, message, kind, form):
    """Fuzzed messages of known types: an answer that can be written, numbers that stay finite."""
    dispatcher = Dispatcher(drive)
    client = dispatcher.add_client()
    client.format = form
    message = {**message, "type": kind}
    data = _packed(message) if form == "msgpack" else json.dumps(message)
    answer = hand_in(dispatcher, client, data)
    assert answer["type"] in ("done", "error", "welcome", "state")
    json.dumps(answer, allow_nan=False)
    assert msgpack.unpackb(encode(answer, "msgpack")) == answer
    dispatcher.remove_client(client)
    drive.ticker.paused = False
    drive.ticker.speed = 1.0


@given(data=st.binary(max_size=200) | st.text(max_size=200) | PACKED, form=st.sampled_from(FORMATS))
def test_any_text_and_any_bytes_get_a_reply(drive, data, form):
    dispatcher = Dispatcher(drive)
    client = dispatcher.add_client()
    client.format = form
    answer = hand_in(dispatcher, client, data)
    assert answer["type"] == "error"
    assert len(answer["message"]) < 1000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x93\x01\x02\x03",
        b"\x81\xa4type",
        b"\x80trailing",
        b"\x91" * 5000,
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x81\x01\x02",
        b"\x81\xc4\x04type\xc0",
        b"\x81\xa4type\xc4\x05state",
        b"\x81\xa4type\xa2\xff\xfe",
        msgpack.packb({"type": "command", "values": {b"surge": 1.0}}),
        msgpack.packb({"type": "command", "values": {"surge": float("nan")}}),
        msgpack.packb({"type": "command", "values": {"surge": msgpack.Timestamp(1)}}),
        msgpack.packb({"type": "hello", "format": "xml"}),
        msgpack.packb({"type": "state", "id": 1, "x": b"0" * MAX_MESSAGE_BYTES}),
        json.dumps({"type": "state"}).encode(),
    ],
)
def test_invalid_bytes_get_an_error_and_change_nothing(dispatcher, drive, data):
    """MessagePack: cut off, nested without end, lists that promise more than there is, no texts."""
    held = drive.ticker.memory.posted.copy()
    client = dispatcher.add_client()
    client.format = "msgpack"
    answer = hand_in(dispatcher, client, data)
    assert answer["type"] == "error"
    assert len(answer["message"]) < 1000
    assert (drive.ticker.memory.posted == held).all()
    goes_on(drive)


def test_formats_agree(dispatcher):
    """A message and its answer are the same objects in both formats."""
    client = dispatcher.add_client()
    plain = say(dispatcher, client, type="describe")
    assert plain["format"] == "json"
    client.format = "msgpack"
    packed = hand_in(dispatcher, client, encode({"type": "describe"}, "msgpack"))
    assert msgpack.unpackb(encode(packed, "msgpack")) == plain


def test_a_format_without_its_package_is_reported(dispatcher, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "msgpack", None)
    client = dispatcher.add_client()
    answer = say(dispatcher, client, type="hello", format="msgpack")
    assert "pip install msgpack" in answer["message"]
    assert client.wanted_format == "json"


def test_tokens():
    """Everyone needs the token, unless it is waived on an address of this machine."""
    for access in (AccessControl(), AccessControl("0.0.0.0")):
        assert len(access.token) >= 20
        assert access.accepts(access.token)
        assert not access.accepts(None)
        assert not access.accepts("")
        assert not access.accepts(access.token + "x")
        assert not access.accepts("ü")
    assert AccessControl().token != AccessControl().token
    assert AccessControl(token="own").accepts("own")
    assert AccessControl(token="a b&c").query == "?token=a%20b%26c"
    assert AccessControl(no_token=True).accepts(None)
    assert AccessControl("::1", no_token=True).query == ""
    assert AccessControl("::1").address(80) == "[::1]:80"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "0.0.0.0", "no_token": True}, "host: expected a loopback address"),
        ({"token": "own", "no_token": True}, "token: expected none together with no_token"),
        ({"token": ""}, "token: expected 1 to 256 printable characters, got 0"),
        ({"token": "a\nb"}, "token: expected 1 to 256 printable characters"),
        ({"allow_hosts": ["http://robot.local"]}, "allowed host: expected a name or an address"),
        ({"allow_hosts": ["robot.local:80"]}, "allowed host: expected a name or an address"),
    ],
)
def test_unsafe_access_is_refused(options, said):
    with pytest.raises(tb.DomainError, match=f"^{said}"):
        AccessControl(**options)


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "hello", "id": 18446744073709551616}',
        '{"type": "snapshot", "name": "\\ud800", "id": "\\udfff"}',
        '{"type": "\\ud800"}',
    ],
)
def test_answers_to_json_can_be_written_in_every_format(dispatcher, text):
    """Numbers beyond 64 bits and halves of characters, which MessagePack does not know."""
    answer = hand_in(dispatcher, dispatcher.add_client("client"), text)
    for form in FORMATS:
        assert decode(encode(answer, form), form)["type"] == answer["type"]
    if "184467" in text:
        assert answer["message"].startswith("id: expected a number of at most 64 bits")
        assert answer["request"] == "hello"
