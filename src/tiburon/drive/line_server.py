"""Messages over a plain socket, for programs and hardware in the loop.

A conversation begins with one JSON object per line. A client that says hello with a format gets the
answer as a line; from there on both sides write MessagePack, each message behind its length.
"""

import asyncio
import json
from typing import Any

from tiburon.drive.desk import Client, Desk
from tiburon.drive.door import Door, port_error
from tiburon.drive.messages import LENGTH, LONGEST_MESSAGE, framed

__all__ = ["LineServer"]

MOST_WAITING = 1 << 20
"""Bytes that may wait for a slow client before it gets no more states."""

MOST_CLIENTS = 32
HELLO_SECONDS = 5.0
"""Time in which a client must show its token where one is needed."""


class LineServer:
    """Serves a desk over TCP.

    Every client gets a welcome, then states at its rate; answers to its messages in between. What
    is no message gets an error and nothing else happens; one that is too long closes the
    connection.
    """

    def __init__(self, desk: Desk, door: Door) -> None:
        self.desk, self.door = desk, door
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()

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
        try:
            if len(self._open) > MOST_CLIENTS:
                _send(writer, {"type": "error", "message": f"full: {MOST_CLIENTS} clients at most"})
            elif (said := await self._admitted(reader, writer)) is not None:
                await self._converse(reader, writer, said)
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            # gone: nothing to tell to nobody
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _admitted(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Return what a client has said to come in, which may be nothing; None if it may not."""
        if self.door.token is None:
            return b""
        line = None
        try:
            line = await asyncio.wait_for(_line(reader), HELLO_SECONDS)
            shown = json.loads(line or b"").get("token")
        except (ValueError, AttributeError, RecursionError, TimeoutError):
            shown = None
        if self.door.admits(shown):
            return line
        said = 'expected {"type": "hello", "token": ...} with the token of this server'
        _send(writer, {"type": "error", "message": f"token: {said}"})
        return None

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes
    ) -> None:
        """Talk with a client until it goes; `said` is what it has said already."""
        name = str(writer.get_extra_info("peername"))
        client = self.desk.join(name)
        telling = asyncio.create_task(self._tell(client, writer))
        try:
            _send(writer, self.desk.welcome(client))
            data: bytes | None = said
            while data is not None:
                if client.format == "json" and not data.strip():
                    data = await _next(reader, client.format)
                    continue
                # forecasts take a while: others are served meanwhile
                answer = await asyncio.to_thread(self.desk.handle, client, data)
                _send(writer, answer, client.format)
                # nothing is sent between the answer and the change it tells of
                client.format = client.wanted_format
                await writer.drain()
                data = await _next(reader, client.format)
        except ValueError:
            longest = f"one of at most {LONGEST_MESSAGE} bytes"
            error = {"type": "error", "message": f"message: expected {longest}"}
            _send(writer, error, client.format)
        finally:
            telling.cancel()
            self.desk.part(client)

    async def _tell(self, client: Client, writer: asyncio.StreamWriter) -> None:
        """Send states at the client's rate; to a slow one fewer."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + 1.0 / client.rate, loop.time())
            await asyncio.sleep(due - loop.time())
            self.desk.check_hands()
            if writer.transport.get_write_buffer_size() < MOST_WAITING:
                _send(writer, self.desk.state(client), client.format)


async def _next(reader: asyncio.StreamReader, form: str) -> bytes | None:
    """Return the next message, None at the end; ValueError if it is too long."""
    if form == "json":
        return await _line(reader)
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > LONGEST_MESSAGE:
            raise ValueError("message too long")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line, None at the end; ValueError if it is too long."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as rest:
        return rest.partial or None
    except asyncio.LimitOverrunError:
        raise ValueError("line too long") from None
    return line


def _send(writer: asyncio.StreamWriter, message: dict[str, Any], form: str = "json") -> None:
    writer.write(framed(message, form))
