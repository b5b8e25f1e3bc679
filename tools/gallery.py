"""The gallery of the documents: a page per robot that ships, its picture, and its replay.

    python tools/gallery.py pages                  # docs/gallery/*.md, kept in the repository
    python tools/gallery.py replays FOLDER         # pages that replay; made by `make docs`
    python tools/gallery.py pictures FOLDER        # docs/gallery/pictures, from those; Chromium
    python tools/gallery.py readme FOLDER          # docs/images of the README; Chromium
    python tools/gallery.py animation FOLDER       # docs/images/dive.webp, of the demo; Chromium

Each robot has one command (`gallery_scenes.py`). It is printed on the robot's page, makes its
replay, and its picture is taken from that: nothing is shown that a reader cannot repeat.
"""

import argparse
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gallery_scenes import GROUPS, SCENES

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
IMAGES = ROOT / "docs" / "images"

SIZE = {"width": 560, "height": 350}
"""Of pictures [pixels]."""

LARGEST = 30_000
"""Bytes of one picture."""

MOVING = {"frames": 26, "every": 0.15, "largest": 380_000}
"""The animation of the README: frames, seconds between them, bytes."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
)

BARE = "#heading, #overlays, #panel, #message { display: none !important; }"
"""A page without its buttons, for pictures."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write_pages() -> None:
    """Write the overview and a page per robot."""
    import tiburon as tb

    GALLERY.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Gallery",
        "",
        "The robots that ship. Each page has the command that made its replay; `make docs` makes",
        "the replays. Where their numbers come from: [Robots that ship](../zoo.md).",
        "",
    ]
    for heading, names in GROUPS.items():
        lines += [f"## {heading}", "", "| | | |", "|---|---|---|"]
        for start in range(0, len(names), 3):
            row = names[start : start + 3]
            cells = [f"[![{name}](pictures/{name}.webp)]({name}.md) `{name}`" for name in row]
            lines.append("| " + " | ".join(cells + [""] * (3 - len(row))) + " |")
        lines.append("")
        for name in names:
            _page(name, tb.load(name))
    names = [name for group in GROUPS.values() for name in group]
    lines += ["```{toctree}", ":hidden:", "", *names, "```", ""]
    (GALLERY / "index.md").write_text("\n".join(lines), encoding="utf-8")


def _page(name: str, model: Any) -> None:
    command, _ = SCENES[name]
    moves = command.startswith("simulate")
    mass = sum(body.inertia.mass for body in model.bodies)
    facts = [f"{model.nv} freedoms of the tree", f"{mass:.4g} kg"]
    if model.loops:
        facts.append(f"{len(model.loops)} loop{'s' if len(model.loops) > 1 else ''}")
    if model.thrusters:
        facts.append(f"{len(model.thrusters)} thruster{'s' if len(model.thrusters) > 1 else ''}")
    about = model.about.rstrip(".")
    link = "Play the replay" if moves else "Look at it from all sides"
    text = f"""# {name}

{about}. {", ".join(facts)}.

![{name}](pictures/{name}.webp)

<a href="replays/{name}.html">{link}</a>, made by

```
tiburon {command} --html {name}.html
```

`tiburon info {name}` tells all about it; `tiburon view {name}` shows it in the live scene.
"""
    (GALLERY / f"{name}.md").write_text(text, encoding="utf-8")


def make_replays(folder: Path, names: list[str]) -> None:
    """Run the command of each robot whose replay is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        page = folder / f"{name}.html"
        if page.exists():
            continue
        words = [*shlex.split(SCENES[name][0]), "--html", str(page)]
        done = subprocess.run(
            [sys.executable, "-m", "tiburon", *words], capture_output=True, text=True, check=False
        )
        if not page.exists():
            raise SystemExit(f"tiburon {shlex.join(words)}\n{done.stdout}{done.stderr}")
        _say(f"made {page.name}")


@contextmanager
def _pages(**options: Any) -> Iterator[Any]:
    """Open a browser, and give a new page of it."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit("no browser: make browser")
    with sync_playwright() as steering:
        browser = steering.chromium.launch(executable_path=found, args=list(FLAGS))
        page = browser.new_page(bypass_csp=True, **options)
        page.set_default_timeout(180_000)
        yield page
        browser.close()


def _open(page: Any, file: Path, *, bare: bool) -> None:
    page.goto(file.resolve().as_uri())
    if bare:
        page.add_style_tag(content=BARE)
    page.wait_for_function("window.tiburonReplay && window.tiburonReplay.drawn > 0")
    page.evaluate(
        "() => { const r = window.tiburonReplay; if (r.player.playing) r.player.playing = false;"
        " r.renderer.setPixelRatio(1); window.dispatchEvent(new Event('resize')); }"
    )


def _seek(page: Any, share: float, closer: float = 1.0) -> None:
    """Go to a share of the run and wait until it is drawn."""
    page.evaluate(
        "([share, closer]) => { const r = window.tiburonReplay; r.before = r.drawn;"
        " r.player.seek(share * r.player.duration); r.rig.zoom(closer); }",
        [share, closer],
    )
    page.wait_for_function("window.tiburonReplay.drawn > window.tiburonReplay.before")


def _save(data: bytes, path: Path, largest: int, width: int | None = None) -> None:
    """Write a picture as WebP, as good as its size allows."""
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB")
    if width is not None and picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)))
    path.parent.mkdir(parents=True, exist_ok=True)
    for quality in range(88, 20, -6):
        packed = io.BytesIO()
        picture.save(packed, "WEBP", quality=quality, method=6)
        if packed.tell() <= largest:
            break
    path.write_bytes(packed.getvalue())
    _say(f"wrote {path.relative_to(ROOT)}, {packed.tell() / 1000:.1f} kB")


def make_pictures(folder: Path, names: list[str]) -> None:
    """Take a picture of each replay."""
    with _pages(viewport=SIZE) as page:
        for name in names:
            _open(page, folder / f"{name}.html", bare=True)
            _seek(page, SCENES[name][1], 0.82)
            _save(page.screenshot(), GALLERY / "pictures" / f"{name}.webp", LARGEST)


def make_readme(folder: Path) -> None:
    """Take the two pictures of the README."""
    with _pages(viewport={"width": 960, "height": 560}) as page:
        _open(page, folder / "tiburon_titan.html", bare=False)
        _seek(page, 0.5, 0.8)
        _save(page.screenshot(), IMAGES / "replay.webp", 70_000)
        _open(page, folder / "aquarobot.html", bare=True)
        _seek(page, 0.1, 0.75)
        _save(page.screenshot(), IMAGES / "aquarobot.webp", 60_000)


def make_animation(folder: Path) -> None:
    """Film the demo for the README."""
    from PIL import Image

    demo = folder / "demo"
    if not (demo / "replay.html").exists():
        words = [sys.executable, "-m", "tiburon", "demo", "--output", str(demo)]
        subprocess.run(words, check=True)
    frames = []
    with _pages(viewport={"width": 480, "height": 280}) as page:
        _open(page, demo / "replay.html", bare=True)
        for k in range(int(MOVING["frames"])):
            # the page draws fewer pixels where they take long, which is no matter here
            page.evaluate("window.tiburonReplay.renderer.setPixelRatio(1)")
            _seek(page, k / float(MOVING["frames"]), 0.78 if k == 0 else 1.0)
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    path = IMAGES / "dive.webp"
    for quality in range(70, 20, -8):
        packed = io.BytesIO()
        frames[0].save(
            packed,
            "WEBP",
            save_all=True,
            append_images=frames[1:],
            duration=round(1000 * float(MOVING["every"])),
            loop=0,
            quality=quality,
            method=4,
        )
        if packed.tell() <= int(MOVING["largest"]):
            break
    path.write_bytes(packed.getvalue())
    _say(f"wrote {path.relative_to(ROOT)}, {packed.tell() / 1000:.1f} kB")


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("pages", "replays", "pictures", "readme", "animation"))
    parser.add_argument("folder", nargs="?", type=Path, help="where replays are")
    parser.add_argument("names", nargs="*", help="robots; all by default")
    asked = parser.parse_args()
    if asked.what != "pages" and asked.folder is None:
        parser.error("say where replays are")
    names = asked.names or list(SCENES)
    if asked.what == "pages":
        write_pages()
    elif asked.what == "replays":
        make_replays(asked.folder, names)
    elif asked.what == "pictures":
        make_pictures(asked.folder, names)
    elif asked.what == "readme":
        make_readme(asked.folder)
    else:
        make_animation(asked.folder)


if __name__ == "__main__":
    main()
