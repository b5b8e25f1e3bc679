"""Checks on HTTP requests to servers of this machine: under which name, and from which page.

A browser sends requests to 127.0.0.1 for any page that asks it to. Their Origin identifies pages of
other sites. A site that gives its own name the address 127.0.0.1 (DNS rebinding) has an Origin that
agrees with the Host it asks for, so both are compared with names the server knows to be its own,
never with each other.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from tiburon.errors import DomainError

__all__ = ["LOOPBACK", "RequestGuard", "is_loopback"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches, and that no DNS server can give another meaning."""

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


class Headers(Protocol):
    """Headers of a request, as websockets has them."""

    def get_all(self, key: str) -> Sequence[str]:
        """Return all values of a header."""
        ...


class RequestGuard:
    """Refuses requests under names that are not the server's, and those of other sites' pages.

    Attributes:
        hosts: Names and addresses that are allowed beside those of the loopback interface.
    """

    def __init__(self, hosts: Iterable[str] = (), bound: str | None = None) -> None:
        """List the names of the server.

        Args:
            hosts: Further names, without port; their pages may be served on any port.
            bound: The address that the server binds.

        Raises:
            DomainError: If one is no host name.
        """
        given = [hosts] if isinstance(hosts, str) else hosts
        self.hosts = tuple(_checked(host) for host in given)
        own = [*LOOPBACK, *self.hosts]
        if bound is not None:
            own.append(_plain(bound))
        self._own = frozenset(own)

    def refusal(self, headers: Headers, local: object = None) -> str | None:
        """Return why a request is refused, None if it is not.

        Args:
            headers: Of the request.
            local: Address and port at which the connection arrived, as sockets report it.
        """
        address, port = local[:2] if isinstance(local, tuple) and len(local) >= 2 else (None, None)
        known = self._own | {_plain(address)} if isinstance(address, str) else self._own
        hosts = headers.get_all("Host")
        asked = _split(hosts[0], 80) if len(hosts) == 1 else None
        if asked is None or asked[0] not in known:
            return f"Host: expected a name of this server, got {_short(hosts)}"
        origins = headers.get_all("Origin")
        if not origins:
            # no page of a browser, or one that asks its own server
            return None
        scheme, _, rest = origins[0].partition("://")
        page = _split(rest, _PORTS[scheme]) if len(origins) == 1 and scheme in _PORTS else None
        same_port = page is not None and page[1] in (asked[1], port)
        if page is None or not (page[0] in self.hosts or (page[0] in known and same_port)):
            return f"Origin: expected a page of this server, got {_short(origins)}"
        return None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
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
            # addresses of six words are given without brackets, too
            return _plain(str(ipaddress.ip_address(host)))
        except ValueError:
            raise DomainError(
                "allowed host", "a name or an address without scheme and port", repr(host[:80])
            ) from None
    return _plain(found[1])


def _split(authority: str, default: int) -> tuple[str, int] | None:
    """Return name and port of `name:port`, None if it is neither a name nor an address."""
    found = _AUTHORITY.fullmatch(authority)
    return None if found is None else (_plain(found[1]), int(found[2] or default))


def _plain(host: str) -> str:
    """Return a host in the one way of writing it that is compared."""
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
