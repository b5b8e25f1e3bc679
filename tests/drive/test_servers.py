"""Sockets around a robot: welcome, states, commands; bad lines, taken ports, clients that go."""

import contextlib
import json
import runpy
from pathlib import Path

import msgpack
import pytest

import tiburon as tb
from tests.drive.serving import Line, Served
from tests.drive.vehicles import wait
from tiburon.drive.dispatcher import LENGTH, MAX_MESSAGE_BYTES, Dispatcher
from tiburon.drive.servers import AccessControl, PageServer, SocketServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "drive_client.py"


def is_closed(line):
    """Whether nothing but the end comes, which is a reset where something was not read."""
    with contextlib.suppress(ConnectionResetError):
        return line.hear("welcome", "done") is None
    return True


@pytest.fixture(scope="module")
def served(drive):
    made = Served(drive, AccessControl(no_token=True))
    yield made
    made.close()


@pytest.fixture
def line(served):
    made = Line(served.lines.port)
    yield made
    made.close()
    wait(lambda: not served.dispatcher.clients)


def test_welcome_then_states_at_the_rate(line):
    """The robot is described once; then states come by themselves, each later than the last."""
    assert line.hear("welcome", "state")["model"] == "bluerov2_heavy"
    line.say(type="hello", name="test", rate=100)
    times = [line.hear("state")["time"] for _ in range(5)]
    assert times == sorted(times)
    assert times[-1] > times[0]


def test_commands_move_the_robot_and_end_with_the_connection(line, served, drive):
    line.say(type="command", values={"surge": 1.0}, id="go")
    assert line.hear("done")["id"] == "go"
    place = drive.place("surge")
    wait(lambda: drive.ticker.latest().held[place] == 1.0)
    line.close()
    wait(lambda: drive.ticker.latest().held[place] == 0.0)
    assert served.dispatcher.operator is None


def test_a_second_client_watches(line, served):
    line.say(type="command", values={"yaw": 0.5})
    assert line.hear("done")
    other = Line(served.lines.port)
    other.say(type="command", values={"yaw": -0.5})
    assert "no other client has control" in other.hear("error")["message"]
    assert other.hear("state")["operator"] == "other"
    other.close()


@pytest.mark.parametrize("bad", [b"hello?\n", b"{\n", b"\xff\n", b"[1, 2]\n", b"3\n"])
def test_a_line_that_is_not_a_message_closes_the_connection_and_the_robot_continues(
    line, drive, bad
):
    """Whatever comes behind it is not carried out."""
    assert line.hear("welcome")
    line.raw(b"\n" + bad + b'{"type": "command", "values": {"surge": 1.0}}\n')
    said = line.hear("error", "done")["message"]
    assert "expected a JSON object" in said
    assert said.endswith("; the connection is closed")
    assert is_closed(line)
    before = drive.ticker.latest()
    assert before.held[drive.place("surge")] == 0.0
    wait(lambda: drive.ticker.latest().steps > before.steps)


def test_line_beyond_the_length_limit_closes_the_connection(line):
    line.raw(b"x" * (MAX_MESSAGE_BYTES + 10))
    assert "at most" in line.hear("error")["message"]
    assert is_closed(line)


def test_a_client_that_never_reads_does_not_stop_the_others(line, served, drive):
    """States are left out for one whose buffer is full."""
    lazy = Line(served.lines.port)
    lazy.say(type="hello", rate=200)
    before = drive.ticker.latest().steps
    assert line.hear("state")
    wait(lambda: drive.ticker.latest().steps > before + 200)
    assert line.hear("state")
    lazy.close()


def test_port_in_use_is_reported(served, drive):
    access = AccessControl()
    for server in (
        SocketServer(Dispatcher(drive), access),
        PageServer(Dispatcher(drive), access, ""),
    ):
        with pytest.raises(tb.TiburonError, match="in use; take another"):
            served.do(server.start(served.lines.port))


def test_tokens_on_the_line_and_on_the_page(drive):
    """With a token the access is shut to those who do not show it."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    made = Served(drive, AccessControl("127.0.0.1", token="secret"))
    try:
        stranger = Line(made.lines.port, token="guess")
        assert "token" in stranger.hear("error", "welcome")["message"]
        stranger.close()
        friend = Line(made.lines.port, token="secret", name="friend", id=9)
        # what else it said to come in counts, too
        assert friend.hear("error", "welcome")["id"] == 9
        assert [client.name for client in made.dispatcher.clients] == ["friend"]
        friend.close()
        url = f"http://127.0.0.1:{made.page.port}/"
        with pytest.raises(HTTPError, match="403"):
            urlopen(url)
        with urlopen(f"{url}?token=secret") as page:
            assert b"<title>page</title>" in page.read()
    finally:
        made.close()


def test_pages_talk_over_websockets_of_their_own_origin(served, drive):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    url = f"ws://127.0.0.1:{served.page.port}/socket"
    with pytest.raises(InvalidStatus, match="403"):
        connect(url, origin="http://elsewhere.example", proxy=None)
    with connect(url, origin=f"http://127.0.0.1:{served.page.port}", proxy=None) as page:
        assert json.loads(page.recv())["type"] == "welcome"
        page.send("[]")
        page.send('{"type": "command", "values": {"surge": 1.0}}')
        said = [json.loads(message) for message in page]
        assert [message["type"] for message in said if message["type"] != "state"] == ["error"]
        assert drive.ticker.latest().held[drive.place("surge")] == 0.0
    wait(lambda: not served.dispatcher.clients)


def test_clients_may_use_messagepack(line, served):
    """After the handshake all messages are packed, until a handshake requests lines again."""
    assert line.hear("welcome")["format"] == "json"
    line.say(type="hello", format="msgpack", rate=100, id=1)
    assert line.hear("welcome")["format"] == "msgpack"

    def say(data):
        line.raw(LENGTH.pack(len(data)) + data)

    def hear(*kinds):
        while True:
            message = msgpack.unpackb(line.file.read(LENGTH.unpack(line.file.read(4))[0]))
            if message["type"] in kinds:
                return message

    # nothing in the old format came after the answer
    assert hear("state", "error", "done")["type"] == "state"
    say(msgpack.packb({"type": "command", "values": {"heave": 0.25}, "id": 2}))
    assert hear("done")["id"] == 2
    say(msgpack.packb({"type": "hello", "format": "json", "id": 3}))
    assert hear("welcome")["id"] == 3
    line.say(type="report")
    assert line.hear("done")["report"]["ticks"] > 0


@pytest.mark.parametrize("bad", [b"", b"{}", b"\xc1", msgpack.packb([1, 2])])
def test_invalid_bytes_close_the_connection(line, drive, bad):
    """Whatever comes behind them is not carried out."""
    line.say(type="hello", format="msgpack", id=1)
    while line.hear("welcome").get("id") != 1:
        pass
    for data in (bad, msgpack.packb({"type": "command", "values": {"surge": 1.0}})):
        line.raw(LENGTH.pack(len(data)) + data)
    with contextlib.suppress(ConnectionResetError):
        assert b"expected a MessagePack map" in line.file.read()
    assert drive.ticker.latest().held[drive.place("surge")] == 0.0


def test_a_packed_message_that_is_too_long_closes_the_connection(line):
    line.say(type="hello", format="msgpack", id=1)
    while line.hear("welcome").get("id") != 1:
        pass
    line.raw(LENGTH.pack(MAX_MESSAGE_BYTES + 1))
    rest = line.file.read()
    assert b"expected one of at most" in rest


def test_pages_may_use_messagepack(served):
    """Texts are JSON and bytes are MessagePack, once hello has said so."""
    from websockets.sync.client import connect

    url = f"ws://127.0.0.1:{served.page.port}/socket"
    with connect(url, proxy=None) as page:
        page.send(json.dumps({"type": "hello", "format": "msgpack"}))
        while isinstance(page.recv(), str):
            pass
        page.send(msgpack.packb({"type": "report", "id": "r"}))
        while (answer := msgpack.unpackb(page.recv()))["type"] != "done":
            pass
        assert answer["id"] == "r"
    wait(lambda: not served.dispatcher.clients)


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_the_example_client_drives(served, capsys, monkeypatch, form):
    """It drives ahead, prints depths, requests a forecast and disconnects."""
    words = ["drive_client.py", str(served.lines.port), "none", "0.5", form]
    monkeypatch.setattr("sys.argv", words)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert "bluerov2_heavy" in said
    assert "forecast" in said
    wait(lambda: not served.dispatcher.clients)
