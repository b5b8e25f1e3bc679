"""Servers: JSON or MessagePack over a socket, the operator page over HTTP and WebSocket.

A socket connection begins with one JSON object per line, the first a hello with the token. A client
that requests MessagePack gets the answer as a line; from then on both sides send MessagePack with
length prefixes. The page and its WebSocket share one port.
"""

import asyncio
import contextlib
import http
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

from tiburon.drive.access import HELLO_SECONDS, AccessControl, PendingConnections, port_error
from tiburon.drive.dispatcher import Client, Dispatcher
from tiburon.drive.messages import (
    LENGTH,
    MAX_MESSAGE_BYTES,
    MessageError,
    decode,
    encode,
    framed,
    short,
)
from tiburon.drive.session import Drive
from tiburon.errors import TiburonError

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

__all__ = ["Link", "PageServer", "SocketServer", "converse", "serve"]

MAX_UNSENT_BYTES = 1 << 20
"""Send buffer of a slow client above which it gets no more states [bytes]."""


class Link(Protocol):
    """Transport of the messages of one client."""

    confirms_commands: bool
    """Whether successful commands are answered."""

    async def receive(self, form: str) -> str | bytes | None:
        """Return the next message; None at the end; raise MessageError if it is too long."""
        ...

    async def send(self, message: Mapping[str, Any], form: str) -> None:
        """Send a message."""
        ...

    def unsent(self) -> int:
        """Return the size of the send buffer [bytes]."""
        ...


async def converse(
    dispatcher: Dispatcher, client: Client, link: Link, hello: str | bytes | None = None
) -> None:
    """Serve a client until it leaves or sends data that is not a message.

    The client gets a welcome, in answer to its hello or at once.

    Forecasts are computed in the background while other messages of the client are carried out.

    Args:
        dispatcher: Carries out messages.
        client: The client; removed from the dispatcher at the end.
        link: Its transport.
        hello: Its first message, if received already.
    """
    sending = None
    forecasts: set[asyncio.Task[None]] = set()
    try:
        if hello is None:
            await link.send(dispatcher.welcome(client), client.format)
        else:
            await _answer(dispatcher, client, link, decode(hello))
            client.format = client.wanted_format
        sending = asyncio.create_task(_send_states(dispatcher, client, link))
        while (data := await link.receive(client.format)) is not None:
            message = decode(data, client.format)
            if not dispatcher.is_asynchronous(message):
                await _answer(dispatcher, client, link, message)
                # nothing is sent between the answer and the change of encoding it confirms
                client.format = client.wanted_format
            elif forecasts:
                busy = "forecast: expected one at a time, got a second; wait for the first"
                await link.send(dispatcher.refused(message, busy), client.format)
            else:
                task = asyncio.create_task(_answer(dispatcher, client, link, message))
                forecasts.add(task)
                task.add_done_callback(forecasts.discard)
    except MessageError as error:
        # the peer may use another protocol: ignore everything that follows
        refusal = {"type": "error", "message": f"{error}; the connection is closed"}
        await link.send(refusal, client.format)
    finally:
        client.gone.set()
        for work in [sending, *forecasts]:
            if work is not None:
                work.cancel()
        dispatcher.remove_client(client)


async def _answer(
    dispatcher: Dispatcher, client: Client, link: Link, message: Mapping[str, Any]
) -> None:
    """Carry out a message on a worker thread, and send the answer."""
    answer = await asyncio.to_thread(dispatcher.handle, client, message)
    command = answer["type"] == "done" and answer.get("request") == "command"
    if link.confirms_commands or not command:
        await link.send(answer, client.format)


async def _send_states(dispatcher: Dispatcher, client: Client, link: Link) -> None:
    """Send states at the rate of the client; fewer if it reads slowly."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + 1.0 / client.rate, loop.time())
        await asyncio.sleep(due - loop.time())
        if link.unsent() < MAX_UNSENT_BYTES:
            await link.send(dispatcher.state(client), client.format)


MAX_CLIENTS = 32
"""Most clients of a server."""

CLOSE_SECONDS = 1.0
"""Time within which a peer must read the last messages before its connection is aborted [s]."""


class SocketServer:
    """Serves a dispatcher over TCP.

    A client with the token gets a welcome, then states at its rate and answers to its messages. The
    first line that is not a message closes the connection, so that nothing sent within another
    protocol, such as the body of an HTTP request, is carried out.
    """

    def __init__(self, dispatcher: Dispatcher, access: AccessControl) -> None:
        self.dispatcher, self.access = dispatcher, access
        self.port = 0
        self.pending = PendingConnections()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()
        self._clients = 0

    async def start(self, port: int = 0) -> None:
        """Start listening.

        Raises:
            TiburonError: If the port is taken.
        """
        try:
            self._server = await asyncio.start_server(
                self._serve, self.access.host, port, limit=MAX_MESSAGE_BYTES
            )
        except OSError as error:
            raise port_error(self.access.host, port, error) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        full = f"more than {self.pending.most} connections without hello"
        self.pending.add(task, partial(_reject, writer, f"connection: got {full}"))
        try:
            first = await self._first_line(reader, writer)
            self.pending.remove(task)
            if first is None:
                return
            if self._clients >= MAX_CLIENTS:
                _reject(writer, f"full: {MAX_CLIENTS} clients at most")
                return
            self._clients += 1
            try:
                client = self.dispatcher.add_client(str(writer.get_extra_info("peername")))
                await converse(self.dispatcher, client, _LineLink(reader, writer), first)
            finally:
                self._clients -= 1
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            # the peer has disconnected
            pass
        finally:
            self._open.discard(task)
            self.pending.remove(task)
            await _close(writer)

    async def _first_line(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Return the first line of a client with access; None without."""
        try:
            # empty lines are rejected: skipping a flood of them would block other clients
            line = await asyncio.wait_for(_read_line(reader), HELLO_SECONDS)
            if line is None:
                return None
            message = decode(line)
            if message.get("type") != "hello":
                reason = f"hello: expected as the first message, got {short(message.get('type'))}"
            elif self.access.accepts(message.get("token")):
                return line
            else:
                reason = "token: expected that of this server"
        except MessageError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"hello: expected within {HELLO_SECONDS:g} s, got nothing"
        token = ', "token": ...' if self.access.token is not None else ""
        hello = f'begin with {{"type": "hello"{token}}}'
        _reject(writer, f"{reason}; {hello}")
        return None


class _LineLink:
    """Messages as lines, or with length prefixes."""

    confirms_commands = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self, form: str) -> bytes | None:
        # the peer must read answers before it sends more
        await self._writer.drain()
        if form == "json":
            return await _next_line(self._reader)
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if length > MAX_MESSAGE_BYTES:
                raise _too_long()
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None

    async def send(self, message: Mapping[str, Any], form: str) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(message, form))

    def unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()


async def _next_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next non-empty line; None at the end."""
    while (line := await _read_line(reader)) is not None and not line.strip():
        # buffered lines are read without waiting: yield to other tasks
        await asyncio.sleep(0)
    return line


async def _read_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line; None at the end."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as rest:
        return rest.partial.strip() or None
    except asyncio.LimitOverrunError:
        raise _too_long() from None


def _too_long() -> MessageError:
    return MessageError(f"message: expected one of at most {MAX_MESSAGE_BYTES} bytes")


def _reject(writer: asyncio.StreamWriter, reason: str) -> None:
    """Send the reason for rejecting a connection, and close it."""
    if not writer.is_closing():
        writer.write(framed({"type": "error", "message": reason}))
        writer.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; abort it if the peer does not read the last messages."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(writer.wait_closed(), CLOSE_SECONDS)
    writer.transport.abort()


OPEN_SECONDS = 10.0
"""Time within which a request must be received, and the page be sent [s]."""

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    # no framing by other sites (clickjacking), no referrer, since the URL holds the token
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer:
    """Serves the operator page and its WebSocket."""

    def __init__(self, dispatcher: Dispatcher, access: AccessControl, page: str) -> None:
        """Prepare the server.

        Args:
            dispatcher: Carries out messages.
            access: Access control.
            page: Text of the page.
        """
        self.dispatcher, self.access = dispatcher, access
        self._page = page.encode()
        self.port = 0
        self.pending = PendingConnections()
        self._pages = 0
        self._server: Server | None = None

    async def start(self, port: int = 0) -> None:
        """Start listening.

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
        pending = self.pending

        class Connection(ServerConnection):
            """A connection that is pending until it is authenticated."""

            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                pending.add(self, transport.abort)

            def connection_lost(self, exc: Exception | None) -> None:
                pending.remove(self)
                super().connection_lost(exc)

        try:
            self._server = await serve(
                self._serve,
                self.access.host,
                port,
                process_request=self._answer,
                create_connection=Connection,
                open_timeout=OPEN_SECONDS,
                logger=_logger(),
                max_size=MAX_MESSAGE_BYTES,
                # states are small and frequent: compression costs more than it saves
                compression=None,
            )
        except OSError as error:
            raise port_error(self.access.host, port, error) from None
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _answer(self, connection: "ServerConnection", request: "Request") -> "Response | None":
        """Serve the page, or accept a WebSocket."""
        refusal = self.access.guard.refusal(request.headers, connection.local_address)
        if refusal is not None:
            advice = "Further names are accepted with --allow-host.\n"
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n{advice}")
        url = urlsplit(request.path)
        shown = parse_qs(url.query).get("token", [None])[0]
        if not self.access.accepts(shown):
            reason = "This page needs the token that the server printed: .../?token=...\n"
            return connection.respond(http.HTTPStatus.FORBIDDEN, reason)
        self.pending.remove(connection)
        if url.path == "/socket":
            return None
        if url.path != "/":
            return connection.respond(http.HTTPStatus.NOT_FOUND, "There is only one page: /\n")
        response = connection.respond(http.HTTPStatus.OK, "")
        response.body = self._page
        for name, value in {**HEADERS, "Content-Length": str(len(self._page))}.items():
            # assignment appends to existing headers
            response.headers.pop(name, None)
            response.headers[name] = value
        return response

    async def _serve(self, connection: "ServerConnection") -> None:
        if self._pages >= MAX_CLIENTS:
            await connection.close(1013, f"{MAX_CLIENTS} pages at most")
            return
        self._pages += 1
        try:
            await converse(
                self.dispatcher, self.dispatcher.add_client("page"), _PageLink(connection)
            )
        finally:
            self._pages -= 1


class _PageLink:
    """Messages over a WebSocket; the server closes it at the end."""

    # commands are frequent: only errors are answered
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

        # a closed connection ends in `receive`
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(_data(message, form))

    def unsent(self) -> int:
        return self._connection.transport.get_write_buffer_size()


def _logger() -> logging.Logger:
    """Return a logger that ignores malformed requests, which could fill the log."""
    logger = logging.getLogger("tiburon.drive.page")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(("opening handshake failed", "connection rejected"))


def _data(message: Mapping[str, Any], form: str) -> str | bytes:
    """Return a message as a text or binary WebSocket message."""
    data = encode(message, form)
    return data if form == "msgpack" else data.decode()


async def serve(
    drive: Drive,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    socket_port: int | None = None,
    headless: bool = False,
    token: str | None = None,
    no_token: bool = False,
    allow_hosts: Sequence[str] = (),
    rate: float = 30.0,
    folder: Path | str = ".",
    duration: float | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Start a robot and serve it.

    Args:
        drive: The robot; started here, and closed at the end.
        host: Address to bind.
        port: Port of the page, or of the socket without a page; 0 for any free one.
        socket_port: Port of a socket beside the page; None for none.
        headless: Whether to serve a socket only.
        token: Token that clients must send; generated by default.
        no_token: Whether all programs of this machine have access; on loopback addresses only.
        allow_hosts: Accepted host names beside `host`.
        rate: Rate of states [Hz].
        folder: Directory for recordings and edited robots.
        duration: Wall-clock time after which to stop [s]; None for never.
        ready: Called with the address of each server.
    """
    dispatcher = Dispatcher(drive, folder, rate)
    access = AccessControl(host, token, no_token=no_token, allow_hosts=allow_hosts)
    servers: list[SocketServer | PageServer] = []
    tell = ready or (lambda line: None)
    try:
        if not headless:
            from tiburon.drive.page_text import drive_page

            page = PageServer(dispatcher, access, drive_page(drive))
            await page.start(port)
            servers.append(page)
            tell(f"page http://{access.address(page.port)}/{access.query}")
        if headless or socket_port is not None:
            lines = SocketServer(dispatcher, access)
            await lines.start(port if headless else socket_port or 0)
            servers.append(lines)
            known = f" token {access.token}" if access.token else ""
            tell(f"socket {access.address(lines.port)}{known}")
        drive.start()
        await (asyncio.sleep(duration) if duration is not None else asyncio.Event().wait())
    finally:
        for server in servers:
            await server.stop()
        drive.close()
