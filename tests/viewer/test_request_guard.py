"""Host and Origin of requests: names of the server, its pages, and nothing else."""

import pytest

from tiburon.viewer.request_guard import RequestGuard, is_loopback

LOCAL = ("127.0.0.1", 8765)


class Headers:
    """Headers of a request."""

    def __init__(self, **values):
        self._values = values

    def get_all(self, key):
        found = self._values.get(key, [])
        return [found] if isinstance(found, str) else found


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8765", None),
        ("127.0.0.1:8765", "http://127.0.0.1:8765"),
        ("localhost:8765", "http://localhost:8765"),
        ("LOCALHOST.:8765", "http://localhost:8765"),
        ("[::1]:8765", "http://[::1]:8765"),
        ("[0:0:0:0:0:0:0:1]:8765", None),
        # through a tunnel of another port
        ("localhost:9000", "http://localhost:9000"),
        # two names of the one server
        ("127.0.0.1:8765", "http://localhost:8765"),
        # named by --allow-host, and behind a proxy that uses another name
        ("robot.example", "https://robot.example"),
        ("127.0.0.1:8765", "https://robot.example"),
    ],
)
def test_requests_with_own_host_and_origin_are_accepted(host, origin):
    given = {"Host": host} if origin is None else {"Host": host, "Origin": origin}
    assert RequestGuard(["robot.example"]).refusal(Headers(**given), LOCAL) is None


@pytest.mark.parametrize(
    "host",
    [
        [],
        "",
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example:8765",
        "localhost.evil.example:8765",
        "evil.example#127.0.0.1:8765",
        "user@127.0.0.1:8765",
        "127.0.0.1:8765/",
        "127.0.0.1:8765 evil.example",
        "192.168.0.9:8765",
        ["127.0.0.1:8765", "evil.example"],
        "[::1",
        "x" * 5000,
    ],
)
def test_requests_with_other_hosts_are_refused(host):
    """Under DNS rebinding the Origin agrees with the Host: it must not help."""
    origin = host if isinstance(host, str) else "evil.example"
    for given in ({"Host": host}, {"Host": host, "Origin": f"http://{origin}"}):
        said = RequestGuard().refusal(Headers(**given), LOCAL)
        assert said.startswith("Host: expected a name of this server, got ")
        assert len(said) < 200


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://evil.example:8765",
        "http://127.0.0.1",
        "http://127.0.0.1:8766",
        "https://localhost",
        "file://",
        "chrome-extension://abc",
        "ws://127.0.0.1:8765",
        "http://127.0.0.1:8765/path",
        "http://evil.example@127.0.0.1:8765",
        "127.0.0.1:8765",
        ["http://127.0.0.1:8765", "http://evil.example"],
    ],
)
def test_requests_from_other_origins_are_refused(origin):
    """Other sites, files, sandboxes, and other servers of this machine."""
    said = RequestGuard().refusal(Headers(Host="127.0.0.1:8765", Origin=origin), LOCAL)
    assert said.startswith("Origin: expected a page of this server, got ")


def test_the_address_where_a_connection_arrived_is_the_servers_own():
    """A server bound to all addresses accepts any of them; names must be allowed."""
    guard, there = RequestGuard(bound="0.0.0.0"), ("192.168.0.9", 8765)
    asked = Headers(Host="192.168.0.9:8765", Origin="http://192.168.0.9:8765")
    assert guard.refusal(asked, there) is None
    assert guard.refusal(asked, LOCAL) is not None
    mapped = ("::ffff:192.168.0.9", 8765, 0, 0)
    assert guard.refusal(asked, mapped) is None
    assert guard.refusal(Headers(Host="robot.local:8765"), there) is not None
    assert RequestGuard(bound="robot.local").refusal(Headers(Host="robot.local:1"), there) is None


def test_host_names_are_allowed_individually():
    """A single name is not taken for a list of letters; addresses are compared, not their text."""
    assert RequestGuard("robot.example").hosts == ("robot.example",)
    assert RequestGuard(["fe80:0:0::1", "[::2]", "Robot.local."]).hosts == (
        "fe80::1",
        "::2",
        "robot.local",
    )


def test_loopback_addresses():
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(is_loopback, ("192.168.0.4", "0.0.0.0", "example.org", "")))
