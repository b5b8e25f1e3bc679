"""Drives a robot over a socket: start `tiburon drive bluerov2_heavy --water --headless` first.

Takes the port and for how many seconds to drive; needs nothing but Python.
"""

import json
import socket
import sys
import time

port = int(sys.argv[1]) if len(sys.argv) > 1 else 8765
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
connection = socket.create_connection(("127.0.0.1", port), timeout=10.0)
lines = connection.makefile("rw", encoding="utf-8", newline="\n")


def say(**message: object) -> None:
    """Send one message."""
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def hear(kind: str) -> dict:
    """Return the next message of a type; errors end the program."""
    while (message := json.loads(lines.readline()))["type"] != kind:
        if message["type"] == "error":
            sys.exit(message["message"])
    return message


print("driving", hear("welcome")["model"])
say(type="hello", name="example", rate=20)
# ahead at half power; the sticks are let go if nothing is said for a second
end = time.monotonic() + seconds
while time.monotonic() < end:
    say(type="command", values={"surge": 0.5}, hold=1.0)
    state = hear("state")
    print(f"{state['time']:7.2f} s  depth {state['depth']:6.2f} m  speed {state['speed']:5.2f} m/s")
say(type="forecast", horizon=2.0, rows=10, id=1)
while (answer := hear("done")).get("id") != 1:
    pass
print("forecast in 2 s:", [round(x, 2) for x in answer["poses"][-1][0][4:]])
connection.close()
