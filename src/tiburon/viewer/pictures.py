"""Pictures of live scenes as arrays: a browser without a window draws them.

The browser is one that is installed (Chromium, Chrome or Edge). It opens the scene once and sends
each picture to the server of the scene.
"""

import os
import shutil
import subprocess
import tempfile
import time
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError
from tiburon.operating_system import user

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "msedge"),
)
"""Programs that can draw without a window."""

VARIABLE = "TIBURON_BROWSER"
"""Environment variable with the path of another one."""

OPEN_TIMEOUT = 60.0
"""Seconds within which a browser must open the scene: software draws slowly."""


def browser_path() -> str:
    """Return the path of a browser that can draw without a window.

    Raises:
        DomainError: If none is installed.
    """
    named = os.environ.get(VARIABLE)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        given = f"{VARIABLE}={named}" if named else "none"
        raise DomainError(
            "pictures of a scene",
            f"a browser ({', '.join(BROWSERS)})",
            given,
            advice=f"install one, or set {VARIABLE} to its path",
        )
    return found


class ScenePictures:
    """A browser without a window at a live scene."""

    def __init__(self, scene: Any, width: int, height: int) -> None:
        """Start the browser.

        Args:
            scene: A `LiveScene`.
            width: Of pictures, in pixels.
            height: Of pictures, in pixels.

        Raises:
            DomainError: If there is no browser, or it does not open the scene.
        """
        self._scene, self._size = scene, (height, width)
        program = browser_path()
        known = set(scene.server.get_clients())
        self._folder = tempfile.TemporaryDirectory(prefix="tiburon-browser-")
        alone = ["--no-sandbox"] if user() == 0 else []
        self._process = subprocess.Popen(
            [
                *(program, "--headless=new", *alone, f"--user-data-dir={self._folder.name}"),
                *("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run"),
                *(f"--window-size={width},{height}", "--hide-scrollbars", scene.url),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + OPEN_TIMEOUT
        fresh: set[int] = set()
        while not fresh:
            if self._process.poll() is not None or time.monotonic() > end:
                self.close()
                raise DomainError(
                    "pictures of a scene",
                    f"a browser that opens {scene.url} within {OPEN_TIMEOUT:g} s",
                    program,
                    advice="check that it runs without a window",
                )
            time.sleep(0.05)
            fresh = set(scene.server.get_clients()) - known
        self._client = min(fresh)
        scene.look("follow")
        # the first pictures lack what is still on its way
        end = time.monotonic() + OPEN_TIMEOUT
        last, picture = self.take(), self.take()
        while not np.array_equal(last, picture) and time.monotonic() < end:
            last, picture = picture, self.take()

    def take(self) -> NDArray[np.uint8]:
        """Return a picture of the scene, shape (height, width, 3).

        Raises:
            DomainError: If the browser was closed.
        """
        client = self._scene.server.get_clients().get(self._client)
        if client is None:
            raise DomainError(
                "pictures of a scene",
                "the browser that opened it",
                "none: it was closed",
                advice="close the environment and make another",
            )
        self._scene.server.flush()
        height, width = self._size
        found = np.asarray(client.get_render(height, width, transport_format="png"))
        return np.ascontiguousarray(found[..., :3], dtype=np.uint8)

    def close(self) -> None:
        """End the browser."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._folder.cleanup()
