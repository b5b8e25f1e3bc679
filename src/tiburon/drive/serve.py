"""Servers around a robot: they run until they are told to stop, while it goes on by itself."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from tiburon.drive.desk import Desk
from tiburon.drive.door import Door
from tiburon.drive.line_server import LineServer
from tiburon.drive.page_server import PageServer
from tiburon.drive.session import Drive

__all__ = ["serve"]


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
        port: Of the page; of the socket where there is no page. 0 for any that is free.
        socket_port: Of the socket beside the page; None for none.
        headless: Whether there is a socket only.
        token: What clients must show; made up by default.
        no_token: Whether all programs of this machine may drive; on its own addresses only.
        allow_hosts: Names beside `host` under which browsers may ask for the page.
        rate: States per second [Hz].
        folder: Where recordings and edited robots are written.
        duration: Wall time after which all ends [s]; None for never.
        ready: Told where clients find the robot, one line each.
    """
    desk = Desk(drive, folder, rate)
    door = Door(host, token, no_token=no_token, allow_hosts=allow_hosts)
    servers: list[LineServer | PageServer] = []
    tell = ready or (lambda line: None)
    try:
        if not headless:
            from tiburon.drive.page_text import drive_page

            page = PageServer(desk, door, drive_page(drive))
            await page.start(port)
            servers.append(page)
            tell(f"page http://{door.address(page.port)}/{door.query}")
        if headless or socket_port is not None:
            lines = LineServer(desk, door)
            await lines.start(port if headless else socket_port or 0)
            servers.append(lines)
            known = f" token {door.token}" if door.token else ""
            tell(f"socket {door.address(lines.port)}{known}")
        drive.start()
        await (asyncio.sleep(duration) if duration is not None else asyncio.Event().wait())
    finally:
        for server in servers:
            await server.stop()
        drive.close()
