"""Drives a robot over a socket: start `tiburon drive bluerov2_heavy --water --headless` first.

Takes the port and the token as the server printed them, for how many seconds to drive, and the
format: json, which needs nothing but Python, or msgpack (pip install msgpack).
"""

import json
import socket
import struct
import sys
import time

given = dict(enumerate(sys.argv))
port, token = int(given.get(1, 8765)), given.get(2, "")
seconds, form = float(given.get(3, 5.0)), given.get(4, "json")
connection = socket.create_connection(("127.0.0.1", port), timeout=10.0)
stream = connection.makefile("rb")
packed = False  # every connection begins with lines of JSON


def say(**message: object) -> None:
    """Send one message."""
    data = msgpack.packb(message) if packed else json.dumps(message).encode() + b"\n"
    connection.sendall(struct.pack(">I", len(data)) + data if packed else data)


def hear(kind: str, number: int | None = None) -> dict:
    """Return the next message of a type, or the answer to an id; errors end the program."""
    while True:
        if packed:
            message = msgpack.unpackb(stream.read(*struct.unpack(">I", stream.read(4))))
        else:
            message = json.loads(stream.readline())
        if message["type"] == "error":
            sys.exit(message["message"])
        if message["type"] == kind and number in (None, message.get("id")):
            return message


say(type="hello", token=token, name="example", rate=20, format=form, id=1)
print("driving", hear("welcome", 1)["model"])
if form == "msgpack":
    import msgpack

    packed = True
# forward at half power; the sticks are released after a second without command
end = time.monotonic() + seconds
while time.monotonic() < end:
    say(type="command", values={"surge": 0.5}, hold=1.0)
    state = hear("state")
    print(f"{state['time']:7.2f} s  depth {state['depth']:6.2f} m  speed {state['speed']:5.2f} m/s")
say(type="forecast", horizon=2.0, rows=10, id=2)
print("forecast in 2 s:", [round(x, 2) for x in hear("done", 2)["poses"][-1][0][4:]])
stream.close()
connection.close()
