"""A conversation with one admitted client, whatever carries its messages."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from tiburon.drive.desk import Client, Desk
from tiburon.drive.messages import MessageError, decode

__all__ = ["Link", "converse"]

MOST_UNSENT = 1 << 20
"""Bytes that may wait for a slow client before it gets no more states."""


class Link(Protocol):
    """Carries messages of one client."""

    confirms_commands: bool
    """Whether commands that were carried out are answered."""

    async def receive(self, form: str) -> str | bytes | None:
        """Return the next message, None at the end; MessageError if it is too long."""
        ...

    async def send(self, message: Mapping[str, Any], form: str) -> None:
        """Send a message."""
        ...

    def unsent(self) -> int:
        """Return how many bytes wait to be sent."""
        ...


async def converse(
    desk: Desk, client: Client, link: Link, hello: str | bytes | None = None
) -> None:
    """Answer a client until it leaves or sends data that is not a message.

    Its hello is answered with a welcome; a client that was admitted without one is welcomed, too.

    Forecasts are computed in the background while other messages of the client are carried out.

    Args:
        desk: Carries out messages.
        client: Who joined the desk; parts from it at the end.
        link: Carries its messages.
        hello: Its first message, if it has come already.
    """
    telling = None
    forecasts: set[asyncio.Task[None]] = set()
    try:
        if hello is None:
            await link.send(desk.welcome(client), client.format)
        else:
            await _answer(desk, client, link, decode(hello))
            client.format = client.wanted_format
        telling = asyncio.create_task(_tell(desk, client, link))
        while (data := await link.receive(client.format)) is not None:
            message = decode(data, client.format)
            if not desk.lasts(message):
                await _answer(desk, client, link, message)
                # nothing is sent between the answer and the change of format it confirms
                client.format = client.wanted_format
            elif forecasts:
                busy = "forecast: expected one at a time, got a second; wait for the first"
                await link.send(desk.refused(message, busy), client.format)
            else:
                task = asyncio.create_task(_answer(desk, client, link, message))
                forecasts.add(task)
                task.add_done_callback(forecasts.discard)
    except MessageError as error:
        # the peer may speak another protocol: nothing that follows is carried out
        refusal = {"type": "error", "message": f"{error}; the connection is closed"}
        await link.send(refusal, client.format)
    finally:
        client.gone.set()
        for work in [telling, *forecasts]:
            if work is not None:
                work.cancel()
        desk.part(client)


async def _answer(desk: Desk, client: Client, link: Link, message: Mapping[str, Any]) -> None:
    """Carry out a message on another thread, and send the answer."""
    answer = await asyncio.to_thread(desk.handle, client, message)
    command = answer["type"] == "done" and answer.get("request") == "command"
    if link.confirms_commands or not command:
        await link.send(answer, client.format)


async def _tell(desk: Desk, client: Client, link: Link) -> None:
    """Send states at the client's rate; to a slow one fewer."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + 1.0 / client.rate, loop.time())
        await asyncio.sleep(due - loop.time())
        if link.unsent() < MOST_UNSENT:
            await link.send(desk.state(client), client.format)
