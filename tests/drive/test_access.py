"""Attacks on the servers of a robot: HTTP bodies, forged names, silent connections."""

import asyncio
import base64
import contextlib
import json
import logging
import os
import socket
import time

import pytest

from tests.drive.serving import Line, Served, port_of, serving, token_of
from tests.drive.vehicles import posted, rov, wait
from tiburon.drive import servers
from tiburon.drive.servers import AccessControl

STEER = [
    {"type": "hello"},
    {"type": "command", "values": {"surge": 1.0}},
    {"type": "save"},
]
"""What an attacker would have the robot do."""

BODY = b"".join(json.dumps(message).encode() + b"\n" for message in STEER)


def everything(connection):
    """Return what comes until the connection is closed from the other side."""
    connection.settimeout(30.0)
    found, end = b"", time.monotonic() + 30.0
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            found += data
            assert time.monotonic() < end, f"it is still connected: {found[:200]}"
    return found


def ask(port, data):
    """Send bytes and return what comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
        return everything(connection)


def post(port, body):
    """Return an HTTP request as a page of strangers can have a browser send it."""
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n"
    more = f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + more.encode() + body


def handshake(port, host, origin, path="/socket"):
    """Return the status of a WebSocket handshake, or of a plain request if there is no origin."""
    lines = [f"GET {path} HTTP/1.1"] + [f"Host: {name}" for name in host]
    if origin is not None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Key: {key}", f"Origin: {origin}"]
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with connection.makefile("rb") as stream:
            return int(stream.readline().split()[1])


class TestOtherProtocols:
    """What was meant for others is not carried out."""

    @pytest.mark.parametrize("options", [{}, {"no_token": True}], ids=["token", "no token"])
    def test_body_of_an_http_request_is_not_executed(self, tmp_path, options):
        """The first line of the request closes the connection; no file appears."""
        with (
            rov() as drive,
            serving(drive, headless=True, folder=tmp_path, **options) as lines,
        ):
            said = ask(port_of(lines[0]), post(port_of(lines[0]), BODY))
            assert b"expected a JSON object" in said
            assert said.count(b"\n") == 1
            assert posted(drive, "surge") == 0.0
            assert list(tmp_path.iterdir()) == []

    def test_commands_without_a_valid_token_are_not_executed(self, served, drive):
        for first in ({"type": "hello"}, {"type": "hello", "token": "guess"}, STEER[1]):
            said = ask(served.lines.port, json.dumps(first).encode() + b"\n" + BODY)
            assert b"begin with" in said
            assert said.count(b"\n") == 1
        # not even with the right token: it belongs to the hello
        late = json.dumps({**STEER[1], "token": "secret"}).encode() + b"\n"
        assert b"hello: expected as the first message" in ask(served.lines.port, late)
        assert posted(drive, "surge") == 0.0
        assert served.dispatcher.clients == []

    def test_empty_line_is_not_a_handshake(self, served, drive):
        """It closes the connection as anything else does: floods of them would stop all others."""
        hello = json.dumps({"type": "hello", "token": "secret"}).encode() + b"\n"
        said = ask(served.lines.port, b"\r\n" + hello + BODY)
        assert b"expected a JSON object" in said
        assert said.count(b"\n") == 1
        assert posted(drive, "surge") == 0.0

    def test_empty_lines_of_a_client_are_skipped(self, served):
        """Lines that have come are read without waiting, so their reader must wait by itself."""
        flooding = Line(served.lines.port, token="secret")
        other = Line(served.lines.port, token="secret", rate=0.1)
        assert other.hear("welcome") is not None
        turns, reader = [], asyncio.StreamReader(limit=65536, loop=served.loop)
        reader.feed_data(b"\n" * 1000 + b"{}\n")

        async def count():
            work = asyncio.ensure_future(servers._next_line(reader))
            while not work.done():
                turns.append(1)
                await asyncio.sleep(0)
            return work.result()

        assert served.do(count()) == b"{}\n"
        # others have as many turns as there are empty lines
        assert len(turns) >= 1000
        flooding.raw(b"\n" * 100_000)
        flooding.say(type="report", id=7)
        assert flooding.hear("done", "report", "error")["id"] == 7
        flooding.close()
        other.close()

    @pytest.mark.parametrize(
        ("path", "rest", "status"),
        [
            (b"http://[::1", b"", b" 400 "),
            (b"//[/?token=secret", b"", b" 400 "),
            (b"/?token=%ed%a0%80", b"", b" 403 "),
            # the library fails on it while it answers
            (b"/", b"\x81\x05hello", b""),
        ],
    )
    def test_malformed_requests_are_refused_and_fill_no_log(self, served, path, rest, status):
        """Strangers must not make the server report an internal error, or write its log."""
        records = []
        handler = logging.Handler()
        handler.emit = records.append
        logger = logging.getLogger("tiburon.drive.page")
        logger.addHandler(handler)
        try:
            head = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path, served.page.port)
            assert status in ask(served.page.port, head + rest).split(b"\r\n")[0]
        finally:
            logger.removeHandler(handler)
        assert records == []

    def test_token_is_generated_and_printed_by_default(self):
        """Whoever reads it may drive, over both servers."""
        from urllib.request import urlopen

        with rov() as drive, serving(drive, lines=2, socket_port=0) as lines:
            page, line = lines
            assert token_of(line) == token_of(page)
            assert len(token_of(line)) >= 20
            with urlopen(page.removeprefix("page ")) as found:
                assert found.status == 200
                assert found.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
                assert found.headers["Referrer-Policy"] == "no-referrer"
            friend = Line(port_of(line), token=token_of(line))
            assert friend.hear("welcome", "error")["type"] == "welcome"
            friend.close()
            stranger = Line(port_of(line))
            assert stranger.hear("welcome", "error")["message"].startswith("token: expected")
            stranger.close()


class TestNames:
    """Requests under names of others, and from their pages."""

    @pytest.mark.parametrize("path", ["/?token=secret", "/socket?token=secret"])
    @pytest.mark.parametrize("token", ["secret", None])
    def test_dns_rebinding_is_refused_even_with_the_token(self, drive, path, token):
        """Host and Origin agree with each other, and are the attacker's."""
        made = Served(drive, AccessControl(token=token, no_token=token is None))
        try:
            port = made.page.port
            evil = f"evil.example:{port}"
            assert handshake(port, [evil], f"http://{evil}", path) == 403
            assert handshake(port, [evil], None, path) == 403
            assert handshake(port, [], None, path) == 403
            assert handshake(port, [f"127.0.0.1:{port}", evil], f"http://{evil}", path) == 403
            assert handshake(port, [f"127.0.0.1:{port}"], "http://evil.example", path) == 403
            assert handshake(port, [f"127.0.0.1:{port}"], "null", path) == 403
            good = 101 if path.startswith("/socket") else 200
            for name in (f"127.0.0.1:{port}", f"localhost:{port}"):
                assert handshake(port, [name], f"http://{name}", path) == good
            wait(lambda: not made.dispatcher.clients)
        finally:
            made.close()

    def test_host_names_may_be_allowed(self, drive):
        made = Served(drive, AccessControl(token="secret", allow_hosts=["Robot.example"]))
        try:
            port, path = made.page.port, "/socket?token=secret"
            for name in ("robot.example", f"robot.example:{port}"):
                assert handshake(port, [name], f"http://{name}", path) == 101
            assert handshake(port, ["evil.example"], "http://evil.example", path) == 403
        finally:
            made.close()


class TestSilence:
    """Connections that say nothing, or say it slowly."""

    @pytest.mark.parametrize("kind", ["lines", "page"])
    def test_silent_connections_do_not_block_clients(self, served, kind):
        """Of 100 only a few are kept; a client comes in as if there were none."""
        server = getattr(served, kind)
        with contextlib.ExitStack() as stack:
            silent = [
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                for _ in range(100)
            ]
            wait(lambda: len(server.pending) == server.pending.most)
            assert server.pending.most < 40
            if kind == "lines":
                friend = Line(server.port, token="secret")
                assert friend.hear("welcome", "error")["type"] == "welcome"
                friend.close()
            else:
                host = f"127.0.0.1:{server.port}"
                assert handshake(server.port, [host], None, "/?token=secret") == 200
                found = handshake(server.port, [host], f"http://{host}", "/socket?token=secret")
                assert found == 101
            # those that came first were the first to go
            everything(silent[0])

    def test_clients_do_not_count_as_silent(self, served):
        """Twenty that have said hello stay while others come and go."""
        friends = []
        for _ in range(20):
            friends.append(Line(served.lines.port, token="secret"))
            assert friends[-1].hear("welcome", "error")["type"] == "welcome"
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.create_connection(("127.0.0.1", served.lines.port)))
            wait(lambda: len(served.lines.pending) == served.lines.pending.most)
            for friend in friends:
                friend.say(type="report")
                assert friend.hear("done", "error")["type"] == "done"
                friend.close()

    @pytest.mark.parametrize("kind", ["lines", "page"])
    def test_silent_connections_time_out(self, served, kind, monkeypatch):
        """Also without others that want the place, and where bytes drip in one by one."""
        made = self.quick(served, kind, monkeypatch)
        with socket.create_connection(("127.0.0.1", made.port)) as silent:
            said = everything(silent)
        if kind == "lines":
            assert b"hello: expected within 0.2 s, got nothing" in said
        head = b"GET / HTTP/1.1\r\n" if kind == "page" else b'{"type": "hello", "name": "'
        with socket.create_connection(("127.0.0.1", made.port)) as slow:
            slow.sendall(head)
            slow.settimeout(0.02)
            # enough drops for half a minute
            for _ in range(1500):
                try:
                    slow.sendall(b"x")
                    if slow.recv(4096) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                pytest.fail("it is still connected")
        wait(lambda: len(made.pending) == 0)
        served.do(made.stop())

    @staticmethod
    def quick(served, kind, monkeypatch):
        """Return a server whose patience is short."""
        monkeypatch.setattr(servers, "HELLO_SECONDS", 0.2)
        monkeypatch.setattr(servers, "OPEN_SECONDS", 0.2)
        access = AccessControl(token="secret")
        made = (
            servers.SocketServer(served.dispatcher, access)
            if kind == "lines"
            else servers.PageServer(served.dispatcher, access, "page")
        )
        served.do(made.start(0))
        return made

    def test_client_that_never_reads_is_disconnected_at_shutdown(self, drive):
        """What waits for it does not keep the connection open."""
        made = Served(drive, AccessControl(token="secret"))
        lazy = Line(made.lines.port, token="secret")
        assert lazy.hear("welcome")
        # much more than the system's own buffers take
        for _ in range(2000):
            lazy.say(type="describe")
        with contextlib.suppress(OSError):
            wait(lambda: drive.ticker.latest().steps > 0)
        made.close()
        lazy.close()
        assert made.dispatcher.clients == []
