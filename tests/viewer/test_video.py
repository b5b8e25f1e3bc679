"""Videos of runs: frames of the replay page, in files that other programs play."""

import sys

import numpy as np
import pytest

import tiburon as tb
from tiburon.viewer import video
from tiburon.viewer.pictures import BROWSERS


@pytest.fixture(scope="module")
def run():
    return tb.simulate(tb.load("double_pendulum"), 0.2, q=[0.4, 0.2], method=tb.RK4(dt=0.01))


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "start"), [(".mp4", (4, b"ftyp")), (".gif", (0, b"GIF8"))])
def test_a_video_has_the_frames_of_the_run(run, tmp_path, suffix, start):
    """Length and size are those asked for; the pendulum moves between frames."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="pip install 'tiburon[video]'")
    import shutil

    if not any(map(shutil.which, BROWSERS)):
        pytest.skip("no browser is installed")
    path = run.save_video(tmp_path / f"swing{suffix}", fps=20, width=320, height=180)
    content = path.read_bytes()
    place, mark = start
    assert content[place : place + 4] == mark
    frames = ffmpeg.read_frames(str(path))
    facts = next(frames)
    shown = [bytes(frame) for frame in frames]
    assert tuple(facts["size"]) == (320, 180)
    assert len(shown) == 5
    assert len(set(shown)) == 5


def test_frames_are_at_equal_times_of_the_run(run, tmp_path, monkeypatch):
    """From its start to its end, at the speed asked for; files keep the order."""
    written = []
    monkeypatch.setattr(video, "_write", lambda *given: written.append(given))
    run.save_video(tmp_path / "swing.mp4", fps=10)
    run.save_video(tmp_path / "slow.webm", fps=20, speed=0.5, width=640, height=360)
    (_, usual, _, rate, _), (_, slow, path, _, size) = written
    assert usual == pytest.approx([0.0, 0.1, 0.2])
    assert rate == 10.0
    assert slow == pytest.approx(0.025 * np.arange(9))
    assert (path.name, size) == ("slow.webm", (640, 360))


def test_videos_that_cannot_be_made_are_refused(run, tmp_path, monkeypatch):
    with pytest.raises(tb.OptionError, match=r"\.mp4"):
        run.save_video(tmp_path / "swing.avi")
    with pytest.raises(tb.DomainError, match="even numbers of pixels"):
        run.save_video(tmp_path / "swing.mp4", width=321)
    with pytest.raises(tb.DomainError, match="fps"):
        run.save_video(tmp_path / "swing.mp4", fps=0.0)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(tb.MissingExtraError, match=r"pip install 'tiburon\[video\]'"):
        run.save_video(tmp_path / "swing.mp4")
    assert list(tmp_path.iterdir()) == []
