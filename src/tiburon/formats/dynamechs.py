"""Robots of DynaMechs, the simulator of McMillan 1994 (``.dm`` files, versions 2.0.3 to 4.0).

A file holds one system: a tree of links, written link after link with `Branch` blocks where it
parts, and in a `ClosedArticulation` joints that close loops. Links without mass (`ZScrewTxLink`,
`StaticRootLink`) move nothing: they become named frames. Conventions are listed in
`dynamechs_links`. What DynaMechs does not read, text after the system, is not read here either.
"""

from collections.abc import Iterable
from pathlib import Path

from tiburon.errors import ModelError, ModelFileError, nearest_name
from tiburon.formats.dynamechs_blocks import Block, parse_blocks
from tiburon.formats.dynamechs_links import Parts, quaternion, read_link, read_loop
from tiburon.formats.lenient import Findings, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.model import WORLD, Frame, LoopClosure, MeshShape, Model, Pose, Shape

SYSTEMS = ("System", "Articulation", "ClosedArticulation")
"""Blocks that hold a robot."""

MOVING = (
    "MobileBaseLink",
    "DynamicRefMember",
    "RevoluteLink",
    "PrismaticLink",
    "SphericalLink",
    "QuaternionLink",
)
"""Links that have mass and a joint."""

BRANCHES = ("Branch", "Articulation", "TreeStructure")
"""Blocks whose links follow one another, and after which the trunk goes on."""

INITIAL = "initial"
"""Name of the position in which the file starts the robot."""

SCENERY = ("Graphics_Model", "Graphics_Model_Index", "Number_Graphics_Models")


def read_dynamechs(path: Path, package_paths: Iterable[str | Path] = ()) -> Model:
    """Read a robot from a DynaMechs file.

    Args:
        path: The file.
        package_paths: Folders beside the file's own in which graphics models may lie.

    Returns:
        The robot; its pose "initial" is the position in which the file starts it.

    Raises:
        ModelFileError: If the file cannot be read; the message names file, line, element and cure.

    Warns:
        ModelWarning: If something could not be expressed, or is unknown.
    """
    budget = Budget(str(path))
    root = parse_blocks(read_bytes(path), budget, last=SYSTEMS)
    system = next((block for block in root.blocks if block.kind in SYSTEMS), None)
    if system is None:
        raise ModelFileError(
            budget.file,
            f"expected a block {', '.join(SYSTEMS[:-1])} or {SYSTEMS[-1]}, got none; is this a "
            "DynaMechs file?",
        )
    reader = _Reader(path, package_paths, budget, root, system)
    model = reader.read()
    reader.findings.warn()
    return model


class _Reader:
    """Reads one system."""

    def __init__(
        self,
        path: Path,
        package_paths: Iterable[str | Path],
        budget: Budget,
        root: Block,
        system: Block,
    ) -> None:
        self.path = path
        self.folders = [path.parent.resolve(), *(Path(p).resolve() for p in package_paths)]
        self.budget = budget
        self.root = root
        self.system = system
        self.findings = Findings(budget.file)
        self.parts = Parts()
        self.frames: list[Frame] = []
        self.names: set[str] = {WORLD}
        # the first of each name, which is what DynaMechs finds
        self.named: dict[str, str] = {}
        self.count = 0
        self.depth = {WORLD: 0}

    def read(self) -> Model:
        system = self.system
        carrier, place = WORLD, _placement(system, self.findings)
        blocks = list(system.blocks)
        loops: list[LoopClosure] = []
        closing = [block for block in blocks if block.kind == "SecondaryJoints"]
        blocks = [block for block in blocks if block.kind != "SecondaryJoints"]
        if system.kind == "System":
            # versions 2: what is fixed or floats comes first, and all articulations are on it
            if not blocks or blocks[0].kind not in ("StaticRefMember", "DynamicRefMember"):
                system.fail("expected StaticRefMember or DynamicRefMember first; add it")
            if blocks[0].kind == "StaticRefMember":
                place = _placement(blocks.pop(0), self.findings)
        self._walk(blocks, carrier, place)
        for block in closing:
            loops += [read_loop(joint, self.named, self.findings) for joint in block.blocks]
        return self._model(loops)

    def _walk(self, blocks: list[Block], carrier: str, place: Pose) -> None:
        """Read links that follow one another, and their branches."""
        # each: what is still to be read, in reverse, and what carries it
        open_branches = [(blocks[::-1], carrier, place)]
        while open_branches:
            rest, carrier, place = open_branches.pop()
            while rest:
                block = rest.pop()
                if block.kind in BRANCHES:
                    open_branches.append((rest, carrier, place))
                    rest = block.blocks[::-1]
                    self._check_labels(block)
                    continue
                carrier, place = self._link(block, carrier, place)
                self._check_labels(block)

    def _link(self, block: Block, carrier: str, place: Pose) -> tuple[str, Pose]:
        """Read one link; return what carries the next one."""
        self.count += 1
        self.budget.check_links(self.count)
        if self.count % 256 == 0:
            self.budget.check_time()
        if block.kind in MOVING:
            name = self._name(block)
            shapes = self._shapes(block)
            self.depth[name] = self.depth[carrier] + 1
            self.budget.check_depth(self.depth[name], name)
            read_link(block, name, carrier, place, shapes, self.parts, self.findings)
            return name, Pose()
        if block.kind in ("ZScrewTxLink", "ZScrewLinkTx"):
            d, theta = block.numbers("ZScrew_Parameters", 2)
            place = place @ Pose.from_axis_angle((0.0, 0.0, 1.0), theta, (0.0, 0.0, d))
        elif block.kind != "StaticRootLink":
            known = (*MOVING, "ZScrewTxLink", "StaticRootLink", "Branch")
            near = nearest_name(block.kind, known)
            hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
            block.fail(f"{block.kind[:40]!r} is no kind of link; {hint}")
        if block.name.strip():
            self.frames.append(Frame(self._name(block), carrier, place))
        return carrier, place

    def _name(self, block: Block) -> str:
        """Return a name for a link, which may have none or that of another."""
        given = block.name.strip()
        name = given or f"link_{len(self.parts.bodies) + 1}"
        number = 1
        while name in self.names:
            number += 1
            name = f"{given or 'link'}_{number}"
        if given and number > 1:
            self.findings.add(f"a second {given!r} is called {name!r}", block.line)
        self.names.add(name)
        if given:
            self.named.setdefault(given, name)
        return name

    def _shapes(self, block: Block) -> tuple[Shape, ...]:
        """Return the graphics model of a link, if its file is in a known folder."""
        file = ""
        if block.has("Graphics_Model"):
            file = block.text("Graphics_Model")
        elif block.has("Graphics_Model_Index"):
            index = block.whole("Graphics_Model_Index")
            file = self._graphics[index] if 0 <= index < len(self._graphics) else ""
        if not file:
            return ()
        try:
            path = (self.path.parent / file).resolve()
            known = path.is_file() and any(path.is_relative_to(f) for f in self.folders)
        except (OSError, ValueError, RuntimeError):
            known = False
        return (Shape(MeshShape(str(path)), role="visual"),) if known else ()

    @property
    def _graphics(self) -> list[str]:
        """The files of the list that versions 2 have at the top."""
        for block in self.root.blocks:
            if block.kind == "Graphics_Models":
                return [v for v in block.values("Number_Graphics_Models") if isinstance(v, str)]
        return []

    def _check_labels(self, block: Block) -> None:
        """Note labels that are unknown: DynaMechs skips them with a warning, too."""
        for label, line in block.unused():
            if label not in SCENERY and label != "Name":
                self.findings.add(f"{block.describe()}: skipped the unknown label {label!r}", line)

    def _model(self, loops: list[LoopClosure]) -> Model:
        self._check_labels(self.system)
        parts = self.parts
        if not parts.bodies:
            self.system.fail("a robot must have a link that moves, got none; add a RevoluteLink")
        for words, times in parts.lost.items():
            self.findings.add(f"left out: {words} ({times}); a model has no such part")
        try:
            model = lenient_model(
                self.budget.file,
                self.system.name.strip() or self.path.stem or "robot",
                parts.bodies,
                findings=self.findings,
                frames=self.frames,
                loops=loops,
                contacts=parts.contacts,
                actuators=parts.actuators,
                poses={INITIAL: parts.start} if parts.start else None,
            )
        except ModelFileError:
            raise
        except ModelError as error:
            raise ModelFileError(self.budget.file, str(error), name=error.name) from error
        self.budget.check_time()
        return model


def _placement(block: Block, findings: Findings) -> Pose:
    """Return where a system stands in the world; at its origin if it does not say."""
    if not block.has("Position"):
        return Pose()
    turn = quaternion(block, findings) if block.has("Orientation_Quat") else (1.0, 0.0, 0.0, 0.0)
    return Pose.from_quaternion(turn, block.numbers("Position", 3))
