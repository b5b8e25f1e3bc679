"""Who may come in: addresses that are bound, tokens, ports that are taken."""

import errno
import hmac
import ipaddress
import secrets

from tiburon.errors import TiburonError

__all__ = ["Door", "port_error"]


class Door:
    """Lets clients in: everyone on this machine, others with the token.

    Attributes:
        host: Address that is bound.
        token: What clients must show; None where only this machine can reach the door.
    """

    def __init__(self, host: str = "127.0.0.1", token: str | None = None) -> None:
        """Make a door.

        Args:
            host: Address to bind.
            token: What clients must show; made up where the address is not that of this machine.
        """
        self.host = host
        self.token = token
        if token is None and not is_loopback(host):
            self.token = secrets.token_urlsafe(18)

    def admits(self, shown: object) -> bool:
        """Return whether a client with this token may come in."""
        if self.token is None:
            return True
        # takes as long for a good guess as for a bad one
        return isinstance(shown, str) and hmac.compare_digest(
            shown.encode("utf-8", "replace"), self.token.encode()
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
