"""Who may connect: the address that is bound, the token, and how many may wait to show it."""

import errno
import hmac
import secrets
from collections.abc import Callable, Hashable, Iterable
from urllib.parse import quote

from tiburon.errors import DomainError, TiburonError
from tiburon.viewer.request_guard import RequestGuard, is_loopback

__all__ = ["HELLO_SECONDS", "Door", "Lobby", "port_error"]

HELLO_SECONDS = 5.0
"""Time in which a connection must show its token, or say anything where none is needed [s]."""

MOST_WAITING = 32
"""Connections that may wait to be admitted; the one that has waited longest makes room."""

LONGEST_TOKEN = 256


class Door:
    """Admits clients that show the token, and answers requests under the server's own names.

    Attributes:
        host: Address that is bound.
        token: What clients must show; None if that was waived.
        guard: Checks Host and Origin of HTTP requests.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        token: str | None = None,
        *,
        no_token: bool = False,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        """Make a door.

        Args:
            host: Address to bind.
            token: What clients must show; made up by default.
            no_token: Whether every program of this machine is admitted without a token.
            allow_hosts: Names beside its address under which browsers may ask for the server.

        Raises:
            DomainError: If the token is empty or cannot be typed, or is waived on an address that
                other machines reach.
        """
        self.host = host
        self.guard = RequestGuard(allow_hosts, host)
        if no_token:
            if token is not None:
                raise DomainError("token", "none together with no_token", "one")
            if not is_loopback(host):
                advice = "leave out --no-token, or bind 127.0.0.1 and use a tunnel"
                expected = "an address that only this machine reaches, without a token"
                raise DomainError("host", expected, repr(host), advice=advice)
            self.token = None
            return
        self.token = secrets.token_urlsafe(18) if token is None else token
        if not 0 < len(self.token) <= LONGEST_TOKEN or not self.token.isprintable():
            expected = f"1 to {LONGEST_TOKEN} printable characters"
            raise DomainError("token", expected, f"{len(self.token)} characters")

    def admits(self, shown: object) -> bool:
        """Return whether a client with this token may come in."""
        if self.token is None:
            return True
        # takes as long for a good guess as for a bad one
        return isinstance(shown, str) and hmac.compare_digest(
            shown.encode("utf-8", "replace"), self.token.encode()
        )

    def address(self, port: int) -> str:
        """Return where clients connect, as it stands in URLs."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    @property
    def query(self) -> str:
        """What pages carry behind their address."""
        return f"?token={quote(self.token, safe='')}" if self.token is not None else ""


class Lobby:
    """Connections that have not been admitted: few, apart from the places of clients.

    When one too many comes, the one that has waited longest goes: programs say hello at once, so
    that silent connections, however many, keep nobody out.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.most = most
        self._waiting: dict[Hashable, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, key: Hashable, close: Callable[[], None]) -> None:
        """Take a connection in.

        Args:
            key: Names the connection.
            close: Closes it, when it must make room.
        """
        self._waiting[key] = close
        while len(self._waiting) > self.most:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest)()

    def leave(self, key: Hashable) -> None:
        """Let a connection go, admitted or closed."""
        self._waiting.pop(key, None)


def port_error(host: str, port: int, error: OSError) -> TiburonError:
    """Return the error of an address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return TiburonError(
            f"port {port}: expected a free one on {host}, got one in use; take another with "
            "--port, or 0 for any"
        )
    return TiburonError(
        f"port {port}: expected to bind {host}, got {error.strerror or error}; take another host "
        "or port"
    )
