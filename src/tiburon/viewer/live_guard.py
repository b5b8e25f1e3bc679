"""The server of viser behind a `RequestGuard`: only its own pages may connect.

viser answers any Host and accepts WebSockets of any Origin, and has no option to change that. Its
port is opened by `websockets.asyncio.server.serve`, with a function that looks at requests first;
that function is wrapped for the one server that is started here.
"""

import http
import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tiburon.errors import TiburonError
from tiburon.viewer.request_guard import RequestGuard

__all__ = ["start_guarded"]

_starting = threading.Lock()


class _GuardedHost(str):
    """An address to bind, known again where its port is opened: other servers stay as they are."""

    in_place = False
    """Whether the guard stands before the port."""


def start_guarded(host: str, port: int, title: str, allow_hosts: Iterable[str] = ()) -> Any:
    """Start a viser server that answers its own pages alone, and return it.

    Args:
        host: An address that only this computer reaches.
        port: Where browsers find it; if it is taken, the next free one.
        title: Of its controls.
        allow_hosts: Further names under which browsers may ask for it, such as those of proxies.

    Raises:
        DomainError: If one of them is no host name.
        TiburonError: If this version of viser does not let its requests be checked.
    """
    import viser
    import websockets.asyncio.server as library

    address = _GuardedHost(host)
    guard, names = RequestGuard(allow_hosts, host), vars(library)
    plain = names["serve"]

    def serve(handler: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is address:
            options["process_request"] = _checked(guard, options.get("process_request"))
            address.in_place = True
        return plain(handler, host, port, **options)

    with _starting:
        names["serve"] = serve
        try:
            server = viser.ViserServer(host=address, port=port, label=title, verbose=False)
        finally:
            names["serve"] = plain
    if not address.in_place:
        server.stop()
        raise TiburonError(
            f"live scene: expected a viser whose requests can be checked, got {viser.__version__}, "
            "which would let any web page connect; pip install 'viser==1.1.1', or see the page of "
            "run.save_html()"
        )
    # a message of any client would publish the scene on a server of others
    server.__dict__["request_share_url"] = lambda verbose=True: None
    return server


def _checked(guard: RequestGuard, process: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return what looks at requests: the guard, then what looked at them before."""

    async def look(connection: Any, request: Any) -> Any:
        refusal = guard.refusal(request.headers, connection.local_address)
        if refusal is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n")
        found = process(connection, request) if process is not None else None
        return await found if inspect.isawaitable(found) else found

    return look
