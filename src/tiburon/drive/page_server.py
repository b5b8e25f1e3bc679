"""The page for operators: served over HTTP, its messages over a WebSocket, both on one port."""

import contextlib
import http
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tiburon.drive.conversation import converse
from tiburon.drive.desk import Desk
from tiburon.drive.door import Door, Lobby, port_error
from tiburon.drive.messages import LONGEST_MESSAGE, encode
from tiburon.errors import TiburonError

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

__all__ = ["PageServer"]

MOST_PAGES = 32

OPEN_SECONDS = 10.0
"""Time in which a request must have come and, if it asks for the page, the page must have gone."""

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    # framed by another site its buttons could be clicked unseen; its address holds the token
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer:
    """Serves the page of a desk, and talks with it."""

    def __init__(self, desk: Desk, door: Door, page: str) -> None:
        """Prepare.

        Args:
            desk: Where messages go.
            door: Who may come in.
            page: Text of the page.
        """
        self.desk, self.door = desk, door
        self._page = page.encode()
        self.port = 0
        self.lobby = Lobby()
        self._pages = 0
        self._server: Server | None = None

    async def start(self, port: int = 0) -> None:
        """Open the door.

        Raises:
            TiburonError: If the port is taken, or websockets is not installed.
        """
        try:
            from websockets.asyncio.server import ServerConnection, serve
        except ImportError:
            raise TiburonError(
                "the page needs the package websockets; install it with pip install websockets, "
                "or use --headless"
            ) from None
        lobby = self.lobby

        class Guest(ServerConnection):
            """A connection that waits in the lobby until it is admitted."""

            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                lobby.enter(self, transport.abort)

            def connection_lost(self, exc: Exception | None) -> None:
                lobby.leave(self)
                super().connection_lost(exc)

        try:
            self._server = await serve(
                self._serve,
                self.door.host,
                port,
                process_request=self._answer,
                create_connection=Guest,
                open_timeout=OPEN_SECONDS,
                logger=_logger(),
                max_size=LONGEST_MESSAGE,
                # states are small and come often: packing them costs more than it saves
                compression=None,
            )
        except OSError as error:
            raise port_error(self.door.host, port, error) from None
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Close the door and all connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _answer(self, connection: "ServerConnection", request: "Request") -> "Response | None":
        """Serve the page, or let a WebSocket through."""
        refusal = self.door.guard.refusal(request.headers, connection.local_address)
        if refusal is not None:
            advice = "A name that is its own is allowed with --allow-host.\n"
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n{advice}")
        url = urlsplit(request.path)
        shown = parse_qs(url.query).get("token", [None])[0]
        if not self.door.admits(shown):
            said = "This page needs the token that the server printed: .../?token=...\n"
            return connection.respond(http.HTTPStatus.FORBIDDEN, said)
        self.lobby.leave(connection)
        if url.path == "/socket":
            return None
        if url.path != "/":
            return connection.respond(http.HTTPStatus.NOT_FOUND, "There is only one page: /\n")
        response = connection.respond(http.HTTPStatus.OK, "")
        response.body = self._page
        for name, value in {**HEADERS, "Content-Length": str(len(self._page))}.items():
            # setting a header adds to those of its name
            response.headers.pop(name, None)
            response.headers[name] = value
        return response

    async def _serve(self, connection: "ServerConnection") -> None:
        if self._pages >= MOST_PAGES:
            await connection.close(1013, f"{MOST_PAGES} pages at most")
            return
        self._pages += 1
        try:
            await converse(self.desk, self.desk.join("page"), _PageLink(connection))
        finally:
            self._pages -= 1


class _PageLink:
    """Messages over a WebSocket; closed by the server when the conversation ends."""

    # sticks come many times a second: silence means yes
    confirms_commands = False

    def __init__(self, connection: "ServerConnection") -> None:
        self._connection = connection

    async def receive(self, form: str) -> str | bytes | None:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv()
        except ConnectionClosed:
            return None

    async def send(self, message: Mapping[str, Any], form: str) -> None:
        from websockets.exceptions import ConnectionClosed

        # one that is gone ends the conversation in `receive`
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(_data(message, form))

    def unsent(self) -> int:
        return self._connection.transport.get_write_buffer_size()


def _logger() -> logging.Logger:
    """Return a logger that ignores malformed requests: nobody may fill the log with them."""
    logger = logging.getLogger("tiburon.drive.page")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(("opening handshake failed", "connection rejected"))


def _data(message: Mapping[str, Any], form: str) -> str | bytes:
    """Return a message as text or as bytes, as WebSockets tell them apart."""
    data = encode(message, form)
    return data if form == "msgpack" else data.decode()
