"""Robots behind their servers, on threads of their own, and a client that connects to them."""

import asyncio
import contextlib
import json
import socket
import threading
import time

from tests.drive.vehicles import wait
from tiburon.drive.dispatcher import Dispatcher
from tiburon.drive.servers import PageServer, SocketServer, serve


class Served:
    """A dispatcher behind both servers, on a thread of its own."""

    def __init__(self, drive, access):
        self.dispatcher = Dispatcher(drive, rate=50.0)
        self.lines = SocketServer(self.dispatcher, access)
        self.page = PageServer(self.dispatcher, access, "<!DOCTYPE html><title>page</title>")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.do(self.lines.start(0))
        self.do(self.page.start(0))

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30.0)

    def close(self):
        self.do(self.lines.stop())
        self.do(self.page.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Line:
    """A client of few lines, as users would write it."""

    def __init__(self, port, **hello):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30.0)
        self.file = self.socket.makefile("rwb")
        self.say(type="hello", **hello)

    def raw(self, data):
        self.file.write(data)
        self.file.flush()

    def say(self, **message):
        self.raw(json.dumps(message).encode() + b"\n")

    def hear(self, *kinds):
        """Return the next message of one of these types, None at the end."""
        end = time.monotonic() + 60.0
        while True:
            assert time.monotonic() < end, f"no {kinds} among all that came"
            line = self.file.readline()
            if not line:
                return None
            message = json.loads(line)
            if message["type"] in kinds:
                return message

    def close(self):
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def serving(drive, *, lines=1, **options):
    """Serve a robot as `tiburon drive` does; gives as many lines as expected, which tell where."""
    found, ended, problems = [], threading.Event(), []
    drive.ticker.paused = False

    async def work():
        task = asyncio.ensure_future(serve(drive, **{"port": 0, **options}, ready=found.append))
        while not ended.is_set() and not task.done():
            await asyncio.sleep(0.05)
        task.cancel()
        problems.extend(await asyncio.gather(task, return_exceptions=True))

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        wait(lambda: len(found) >= lines or not thread.is_alive())
        assert len(found) >= lines, problems
        yield found
    finally:
        ended.set()
        thread.join()


def port_of(line):
    """Return the port in a line such as "socket 127.0.0.1:8765 token abc"."""
    return int(line.split()[1].removeprefix("http://").split("/")[0].rsplit(":", 1)[1])


def token_of(line):
    """Return the token in such a line, None if there is none."""
    return line.split("token")[1].strip(" =") if "token" in line else None
