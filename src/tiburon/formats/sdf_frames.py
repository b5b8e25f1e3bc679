"""Frames of SDF files: every link, joint, frame and model names one, placed relative to another.

Names are kept whole: ``arm::hand`` is the link "hand" of the model "arm" nested in the top one. The
frame of a model is ``arm::__model__``, that of the top model ``__model__``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.limits import Budget
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import WORLD
from tiburon.model.pose import Pose

MODEL = "__model__"
"""Name of a model's own frame inside it."""

KNOWN = 1000
"""Names among which the nearest to an unknown one is sought, and other bounds on extra work."""

SCOPE = "::"
"""Stands between the name of a model and those inside it."""


@dataclass(frozen=True, slots=True)
class SdfFrame:
    """A frame as the file gives it."""

    element: XmlElement
    pose: Pose
    """Relative to `relative_to`."""

    relative_to: str
    """Whole name of another frame, as written behind the model it stands in."""

    attached_to: str
    """Whole name of the link, or of a frame on it, that carries this frame, likewise."""

    placement: str = ""
    """Of a model: whole name of the frame inside it that `pose` places, if not its own."""


class SdfFrames:
    """All frames of a file, and where they are when no joint has moved."""

    def __init__(self, budget: Budget) -> None:
        """Start with the top model's own frame.

        Args:
            budget: Clock and counts.
        """
        self._budget = budget
        self._frames: dict[str, SdfFrame] = {}
        self.top = Pose()
        """The top model's own frame in the world."""
        self._links: set[str] = set()
        self.canonical = ""
        """Whole name of the link that carries the top model's own frame."""

    def add(self, name: str, frame: SdfFrame, *, link: bool = False) -> None:
        """Add a frame under its whole name."""
        if name in self._frames or name == MODEL:
            frame.element.fail(
                f"the name {name!r} is used twice among links, joints, frames and models; rename "
                "one of them"
            )
        self._frames[name] = frame
        if link:
            self._links.add(name)
            self._budget.check_links(len(self._links))

    def resolve(self, whole: str, element: XmlElement) -> str:
        """Return the name a frame is known by: that of a model means the model's own frame.

        Args:
            whole: As written, behind the model it stands in.
            element: Where it is written, for messages.
        """
        for candidate in (whole, whole + SCOPE + MODEL):
            if candidate in self._frames or candidate == MODEL:
                return candidate
        near = nearest_name(whole, list(self._frames)[:KNOWN])
        hint = f"did you mean {near!r}?" if near else "add it, or correct the name"
        element.fail(f"unknown link or frame {whole!r}; {hint}")

    def relative(self, name: str, to: str) -> Pose:
        """Return a frame in another one, while no joint has moved.

        Only the poses between the two are multiplied, so that numbers of the file come out as they
        are where one is given in the other.

        Args:
            name: Whole name of a frame, or the world.
            to: Likewise.
        """
        # walk up from both until one comes to where the other has been
        paths = (self._path(name), self._path(to))
        found: tuple[dict[str, Pose], dict[str, Pose]] = ({}, {})
        poses = [Pose(), Pose()]
        while True:
            for side in (0, 1):
                passed, step = next(paths[side], (WORLD, Pose()))
                found[side][passed] = poses[side]
                poses[side] = step @ poses[side]
                if passed in found[1 - side]:
                    return found[1][passed].inverse() @ found[0][passed]

    def _path(self, name: str) -> Iterator[tuple[str, Pose]]:
        """Walk from a frame to the world, each frame with its pose in the next."""
        passed: set[str] = set()
        while name != WORLD:
            if name in passed:
                self._frames[name].element.fail(
                    "its pose is given relative to itself, by way of others; place one of them "
                    "relative to the model"
                )
            passed.add(name)
            if len(passed) % KNOWN == 0:
                self._budget.check_time()
            if name == MODEL:
                yield name, self.top
                name = WORLD
                continue
            frame = self._frames[name]
            own = frame.pose
            if frame.placement:
                own = own @ self.inside(name, frame.placement).inverse()
            yield name, own
            name = self.resolve(frame.relative_to, frame.element)
        yield WORLD, Pose()

    def inside(self, model: str, frame: str) -> Pose:
        """Return a frame of a nested model in that model's own frame."""
        element = self._frames[model].element
        pose = Pose()
        current = self.resolve(frame, element)
        passed: set[str] = set()
        while current != model:
            if current in passed or current == MODEL:
                element.fail(
                    f"the placement frame {frame!r} is not fixed to the model; choose another"
                )
            passed.add(current)
            between = self._frames[current]
            pose = between.pose @ pose
            current = self.resolve(between.relative_to, between.element)
        return pose

    def link_of(self, name: str, element: XmlElement) -> str:
        """Return the link that carries a frame."""
        passed: set[str] = set()
        while name not in self._links:
            if name in passed or name == MODEL:
                if name == MODEL and self.canonical:
                    return self.canonical
                element.fail(
                    f"the frame {name!r} is attached to no link; attach it to one with attached_to"
                )
            passed.add(name)
            name = self.resolve(self._frames[name].attached_to, element)
        return name


def read_pose(element: XmlElement | None) -> Pose:
    """Return the <pose> inside an element; none means the same frame."""
    pose = None if element is None else element.find("pose")
    if pose is None or not pose.text.strip():
        return Pose()
    if pose.attributes.get("rotation_format", "euler_rpy") == "quat_xyzw":
        x, y, z, qx, qy, qz, qw = pose.parse(pose.text, 7, "pose")
        try:
            return Pose.from_quaternion((qw, qx, qy, qz), (x, y, z))
        except ModelError as error:
            pose.blame(error)
    x, y, z, *rpy = pose.parse(pose.text, 6, "pose")
    if pose.attributes.get("degrees", "false").strip() in ("true", "1"):
        rpy = [0.017453292519943295 * angle for angle in rpy]
    if not any(rpy):
        return Pose(translation=(x, y, z))
    return Pose.from_rpy(rpy, (x, y, z))


def pose_reference(element: XmlElement) -> str:
    """Return the name of the frame that the <pose> of an element is relative to, if it says so."""
    pose = element.find("pose")
    if pose is None:
        return ""
    return (pose.attributes.get("relative_to") or pose.attributes.get("frame") or "").strip()
