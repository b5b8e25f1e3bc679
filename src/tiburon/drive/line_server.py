"""Messages over a plain socket, for programs and hardware in the loop.

A conversation begins with one JSON object per line, the first a hello that shows the token. A
client that says hello with a format gets the answer as a line; from there on both sides write
MessagePack, each message behind its length.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from tiburon.drive.conversation import converse
from tiburon.drive.desk import Desk
from tiburon.drive.door import HELLO_SECONDS, Door, Lobby, port_error
from tiburon.drive.messages import LENGTH, LONGEST_MESSAGE, MessageError, decode, framed, short

__all__ = ["LineServer"]

MOST_CLIENTS = 32

CLOSE_SECONDS = 1.0
"""Time in which a peer must take what was sent to it before the connection is cut [s]."""


class LineServer:
    """Serves a desk over TCP.

    A client that shows the token gets a welcome, then states at its rate; answers to its messages
    in between. The first line that is no message closes the connection, so that nothing is carried
    out that was sent inside another protocol, such as the body of an HTTP request.
    """

    def __init__(self, desk: Desk, door: Door) -> None:
        self.desk, self.door = desk, door
        self.port = 0
        self.lobby = Lobby()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()
        self._clients = 0

    async def start(self, port: int = 0) -> None:
        """Open the door.

        Raises:
            TiburonError: If the port is taken.
        """
        try:
            self._server = await asyncio.start_server(
                self._serve, self.door.host, port, limit=LONGEST_MESSAGE
            )
        except OSError as error:
            raise port_error(self.door.host, port, error) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the door and all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        full = f"{self.lobby.most} connections that have not said hello, and one too many"
        self.lobby.enter(task, partial(_turn_away, writer, f"connection: got {full}"))
        try:
            first = await self._first_line(reader, writer)
            self.lobby.leave(task)
            if first is None:
                return
            if self._clients >= MOST_CLIENTS:
                _turn_away(writer, f"full: {MOST_CLIENTS} clients at most")
                return
            self._clients += 1
            try:
                client = self.desk.join(str(writer.get_extra_info("peername")))
                await converse(self.desk, client, _LineLink(reader, writer), first)
            finally:
                self._clients -= 1
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            # gone: nobody is left to hear of it
            pass
        finally:
            self._open.discard(task)
            self.lobby.leave(task)
            await _close(writer)

    async def _first_line(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Return the first line of a client that is admitted, None if it is not."""
        try:
            # an empty one is refused, too: skipping floods of them would stop all other clients
            line = await asyncio.wait_for(_read_line(reader), HELLO_SECONDS)
            if line is None:
                return None
            message = decode(line)
            if message.get("type") != "hello":
                said = f"hello: expected as the first message, got {short(message.get('type'))}"
            elif self.door.admits(message.get("token")):
                return line
            else:
                said = "token: expected that of this server"
        except MessageError as error:
            said = str(error)
        except TimeoutError:
            said = f"hello: expected within {HELLO_SECONDS:g} s, got nothing"
        token = ', "token": ...' if self.door.token is not None else ""
        hello = f'begin with {{"type": "hello"{token}}}'
        _turn_away(writer, f"{said}; {hello}")
        return None


class _LineLink:
    """Messages as lines, or behind their lengths."""

    confirms_commands = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self, form: str) -> bytes | None:
        # answers must be taken before more is asked for
        await self._writer.drain()
        if form == "json":
            return await _next_line(self._reader)
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if length > LONGEST_MESSAGE:
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
    """Return the next line that is not empty, None at the end."""
    while (line := await _read_line(reader)) is not None and not line.strip():
        # lines that have come already are read without waiting: let others have their turn
        await asyncio.sleep(0)
    return line


async def _read_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line, None at the end."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as rest:
        return rest.partial.strip() or None
    except asyncio.LimitOverrunError:
        raise _too_long() from None


def _too_long() -> MessageError:
    return MessageError(f"message: expected one of at most {LONGEST_MESSAGE} bytes")


def _turn_away(writer: asyncio.StreamWriter, said: str) -> None:
    """Tell a peer why it is not served, and close."""
    if not writer.is_closing():
        writer.write(framed({"type": "error", "message": said}))
        writer.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, at once if its peer does not take what was sent."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(writer.wait_closed(), CLOSE_SECONDS)
    writer.transport.abort()
