"""Messages over a plain socket, one JSON object per line: for programs and hardware in the loop."""

import asyncio
import json
from typing import Any

from tiburon.drive.desk import LONGEST_MESSAGE, Client, Desk
from tiburon.drive.door import Door, port_error

__all__ = ["LineServer"]

MOST_WAITING = 1 << 20
"""Bytes that may wait for a slow client before it gets no more states."""

MOST_CLIENTS = 32
HELLO_SECONDS = 5.0
"""Time in which a client must show its token where one is needed."""


class LineServer:
    """Serves a desk over TCP.

    Every client gets a welcome, then states at its rate; answers to its messages in between. A line
    that is no message gets an error and nothing else happens; a line without end closes the
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
            elif await self._admitted(reader, writer):
                await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            # gone: nothing to tell to nobody
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _admitted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Return whether a client has shown what it must."""
        if self.door.token is None:
            return True
        try:
            line = await asyncio.wait_for(_line(reader), HELLO_SECONDS)
            shown = json.loads(line or b"").get("token")
        except (ValueError, AttributeError, RecursionError, TimeoutError):
            shown = None
        if self.door.admits(shown):
            return True
        said = 'expected {"type": "hello", "token": ...} with the token of this server'
        _send(writer, {"type": "error", "message": f"token: {said}"})
        return False

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = str(writer.get_extra_info("peername"))
        client = self.desk.join(name)
        telling = asyncio.create_task(self._tell(client, writer))
        try:
            _send(writer, self.desk.welcome(client))
            while (line := await _line(reader)) is not None:
                if not line.strip():
                    continue
                # forecasts take a while: others are served meanwhile
                _send(writer, await asyncio.to_thread(self.desk.handle, client, line))
                await writer.drain()
        except ValueError:
            longest = f"a line of at most {LONGEST_MESSAGE} bytes"
            _send(writer, {"type": "error", "message": f"message: expected {longest}"})
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
                _send(writer, self.desk.state(client))


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line, None at the end; ValueError if it is too long."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as rest:
        return rest.partial or None
    except asyncio.LimitOverrunError:
        raise ValueError("line too long") from None
    return line


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n")
