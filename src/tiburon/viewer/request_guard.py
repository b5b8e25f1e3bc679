"""Checks of the Host and Origin of HTTP requests to local servers.

A browser sends requests to 127.0.0.1 for any page that asks it to. Their Origin identifies pages of
other sites. A site that resolves its own name to 127.0.0.1 (DNS rebinding) has an Origin that
agrees with the requested Host, so both are compared with the names of the server, never with each
other.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from tiburon.errors import DomainError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Loopback hosts, which DNS cannot redirect."""

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


class Headers(Protocol):
    """Headers of a request, as websockets has them."""

    def get_all(self, key: str) -> Sequence[str]:
        """Return all values of a header."""
        ...


class RequestGuard:
    """Rejects requests for other host names, and requests from pages of other sites.

    Attributes:
        hosts: Accepted names and addresses beside those of the loopback interface.
    """

    def __init__(self, hosts: Iterable[str] = (), bound: str | None = None) -> None:
        """List the names of the server.

        Args:
            hosts: Further names, without port; their pages may be served on any port.
            bound: The address that the server binds.

        Raises:
            DomainError: If one is not a host name.
        """
        given = [hosts] if isinstance(hosts, str) else hosts
        self.hosts = tuple(_checked(host) for host in given)
        own = [*LOOPBACK, *self.hosts]
        if bound is not None:
            own.append(_plain(bound))
        self._own = frozenset(own)

    def refusal(self, headers: Headers, local: object = None) -> str | None:
        """Return the reason to reject a request, or None to accept it.

        Args:
            headers: Headers of the request.
            local: Local address and port of the connection, as sockets report it.
        """
        address, port = local[:2] if isinstance(local, tuple) and len(local) >= 2 else (None, None)
        known = self._own | {_plain(address)} if isinstance(address, str) else self._own
        hosts = headers.get_all("Host")
        asked = _split(hosts[0], 80) if len(hosts) == 1 else None
        if asked is None or asked[0] not in known:
            return f"Host: expected a name of this server, got {_short(hosts)}"
        origins = headers.get_all("Origin")
        if not origins:
            # not a browser, or a page of this server
            return None
        scheme, _, rest = origins[0].partition("://")
        page = _split(rest, _PORTS[scheme]) if len(origins) == 1 and scheme in _PORTS else None
        same_port = page is not None and page[1] in (asked[1], port)
        if page is None or not (page[0] in self.hosts or (page[0] in known and same_port)):
            return f"Origin: expected a page of this server, got {_short(origins)}"
        return None


def is_loopback(host: str) -> bool:
    """Return whether an address belongs to the loopback interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(host: str) -> str:
    found = _AUTHORITY.fullmatch(host)
    if found is None or found[2] is not None:
        try:
            # IPv6 addresses may be given without brackets
            return _plain(str(ipaddress.ip_address(host)))
        except ValueError:
            raise DomainError(
                "allowed host", "a name or an address without scheme and port", repr(host[:80])
            ) from None
    return _plain(found[1])


def _split(authority: str, default: int) -> tuple[str, int] | None:
    """Return name and port of `name:port`; None if it is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    return None if found is None else (_plain(found[1]), int(found[2] or default))


def _plain(host: str) -> str:
    """Return a host in canonical form."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _short(values: Sequence[str]) -> str:
    text = ", ".join(map(repr, values)) or "none"
    return text if len(text) <= 80 else f"{text[:77]}..."
