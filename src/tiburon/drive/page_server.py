"""The page for operators: served over HTTP, its messages over a WebSocket, both on one port."""

import asyncio
import http
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tiburon.drive.desk import Client, Desk
from tiburon.drive.door import Door, port_error
from tiburon.drive.messages import LONGEST_MESSAGE, encode
from tiburon.errors import TiburonError

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

__all__ = ["PageServer"]

MOST_WAITING = 1 << 20
"""Bytes that may wait for a slow page before it gets no more states."""

MOST_PAGES = 32


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
        self._pages = 0
        self._server: Server | None = None

    async def start(self, port: int = 0) -> None:
        """Open the door.

        Raises:
            TiburonError: If the port is taken, or websockets is not installed.
        """
        try:
            from websockets.asyncio.server import serve
        except ImportError:
            raise TiburonError(
                "the page needs the package websockets; install it with pip install websockets, "
                "or use --headless"
            ) from None
        try:
            self._server = await serve(
                self._serve,
                self.door.host,
                port,
                process_request=self._answer,
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
        url = urlsplit(request.path)
        shown = parse_qs(url.query).get("token", [None])[0]
        if not self.door.admits(shown):
            said = "This page needs the token that the server printed: .../?token=...\n"
            return connection.respond(http.HTTPStatus.FORBIDDEN, said)
        if url.path == "/socket":
            origin = request.headers.get("Origin")
            # pages of others must not steer robots through the browser of this machine
            if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "Another page's request.\n")
            return None
        if url.path != "/":
            return connection.respond(http.HTTPStatus.NOT_FOUND, "There is only one page: /\n")
        response = connection.respond(http.HTTPStatus.OK, "")
        response.body = self._page
        for name in ("Content-Type", "Content-Length"):
            del response.headers[name]
        response.headers["Content-Type"] = "text/html; charset=utf-8"
        response.headers["Content-Length"] = str(len(self._page))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _serve(self, connection: "ServerConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        client = self.desk.join("page")
        telling = None
        self._pages += 1
        try:
            if self._pages > MOST_PAGES:
                await connection.close(1013, f"{MOST_PAGES} pages at most")
                return
            await connection.send(_data(self.desk.welcome(client), client.format))
            telling = asyncio.create_task(self._tell(client, connection))
            async for message in connection:
                answer = await asyncio.to_thread(self.desk.handle, client, message)
                # sticks come many times a second: silence means yes
                if answer["type"] != "done" or answer.get("request") != "command":
                    await connection.send(_data(answer, client.format))
                client.format = client.wanted_format
        except ConnectionClosed:
            pass
        finally:
            self._pages -= 1
            if telling is not None:
                telling.cancel()
            self.desk.part(client)

    async def _tell(self, client: Client, connection: "ServerConnection") -> None:
        """Send states at the client's rate; to a slow one fewer."""
        from websockets.exceptions import ConnectionClosed

        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                due = max(due + 1.0 / client.rate, loop.time())
                await asyncio.sleep(due - loop.time())
                self.desk.check_hands()
                if connection.transport.get_write_buffer_size() < MOST_WAITING:
                    await connection.send(_data(self.desk.state(client), client.format))
        except ConnectionClosed:
            pass


def _data(message: dict[str, Any], form: str) -> str | bytes:
    """Return a message as text or as bytes, as WebSockets tell them apart."""
    data = encode(message, form)
    return data if form == "msgpack" else data.decode()
