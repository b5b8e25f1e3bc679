"""Videos of replays: a browser without a window draws the frames of a replay page.

The page is opened by Playwright in a browser that is installed; ffmpeg, which comes with
imageio-ffmpeg, writes the file. Frames are drawn one after another at exact times of the run,
however long each takes.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tiburon.argument_checks import positive
from tiburon.errors import DomainError, MissingExtraError, OptionError, RunFileError
from tiburon.viewer.pictures import browser_path
from tiburon.written_file import replacing

CODECS: dict[str, tuple[str, ...]] = {
    ".mp4": ("-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
    ".webm": ("-c:v", "libvpx-vp9", "-crf", "32", "-b:v", "0", "-pix_fmt", "yuv420p"),
    ".gif": ("-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse"),
}
"""Options of ffmpeg, by file suffix."""

FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")
"""Options of the browser: it draws without a graphics processor, too."""

BARE = "#overlays, #panel, #message { display: none !important; }"
"""The page without its buttons and curves."""

PAGE_TIMEOUT = 180_000
"""Milliseconds within which a page must open or draw a frame."""


def save_video(
    page: str, duration: float, path: Path, *, fps: float, speed: float, size: tuple[int, int]
) -> Path:
    """Write the video of a replay page, and return its path.

    Args:
        page: Text of the page.
        duration: Time that it plays [s].
        path: File to write; its suffix selects the format.
        fps: Frames per second.
        speed: Seconds of the run per second of the video.
        size: Width and height [pixels].

    Raises:
        MissingExtraError: Without the extra `video`.
        OptionError: If the format is unknown.
        DomainError: If a size is odd or there is no browser.
        RunFileError: If the file cannot be written.
    """
    fps, speed = positive("fps", fps), positive("speed", speed)
    if path.suffix.lower() not in CODECS:
        raise OptionError("suffix of the video", tuple(CODECS), path.suffix)
    if any(length <= 0 or length % 2 for length in size):
        raise DomainError("size", "even numbers of pixels above zero", size)
    count = 1 + round(duration / speed * fps)
    times = [min(duration, k * speed / fps) for k in range(count)]
    # notebooks run an event loop of their own, beside which Playwright needs another thread
    with ThreadPoolExecutor(1) as worker:
        worker.submit(_write, page, times, path, fps, size).result()
    return path


def _write(page: str, times: list[float], path: Path, fps: float, size: tuple[int, int]) -> None:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise MissingExtraError("imageio-ffmpeg", "video", "save_video") from None
    suffix = path.suffix.lower()
    with tempfile.TemporaryDirectory(prefix="tiburon-video-") as folder:
        film = Path(folder) / f"film{suffix}"
        incoming = ("-f", "image2pipe", "-framerate", f"{fps:g}", "-i", "-")
        words = (
            get_ffmpeg_exe(),
            "-loglevel",
            "error",
            "-y",
            *incoming,
            *CODECS[suffix],
            str(film),
        )
        with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
            try:
                for frame in _frames(page, times, size, Path(folder)):
                    encoder.stdin.write(frame)  # type: ignore[union-attr]
            except BrokenPipeError:
                pass  # the encoder ended: its message has the reason
            except BaseException:
                encoder.kill()
                raise
            _, message = encoder.communicate()
        if encoder.returncode:
            raise RunFileError(
                path, f"the encoder failed: {message.decode(errors='replace')[-300:]}"
            )
        with replacing(path, RunFileError) as stream:
            stream.write(film.read_bytes())


def _frames(page: str, times: list[float], size: tuple[int, int], folder: Path) -> Iterator[bytes]:
    """Draw the page at each time; yield pictures in PNG."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingExtraError("playwright", "video", "save_video") from None
    file = folder / "replay.html"
    file.write_text(page, encoding="utf-8")
    with sync_playwright() as steering:
        browser: Any = steering.chromium.launch(
            executable_path=browser_path(), args=[*FLAGS, "--no-sandbox"]
        )
        try:
            width, height = size
            shown = browser.new_page(
                bypass_csp=True, viewport={"width": width, "height": height}, device_scale_factor=1
            )
            shown.set_default_timeout(PAGE_TIMEOUT)
            shown.goto(file.as_uri())
            shown.wait_for_function("window.tiburonReplay && window.tiburonReplay.drawn > 0")
            shown.add_style_tag(content=BARE)
            for time in times:
                shown.evaluate(
                    "async (time) => { const r = window.tiburonReplay; const before = r.drawn;"
                    " r.player.seek(time); r.controls.version += 1;"
                    " r.renderer.setPixelRatio(1);"
                    " r.renderer.setSize(innerWidth, innerHeight, false);"
                    " while (r.drawn === before) await new Promise(requestAnimationFrame); }",
                    time,
                )
                yield shown.screenshot(type="png")
        finally:
            browser.close()
