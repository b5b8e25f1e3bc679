"""SDF files: the Simulation Description Format of Gazebo.

Every link becomes a body under its name, links of nested models under names such as ``arm::hand``.
A hinge whose joint frame is not on the child link's own axis gets a body of no mass at the joint
frame, named after the joint, to which the link is fixed: so the link keeps its frame and numbers.
Joints that would hold a link a second time close loops. Links that no joint holds float, as the
format means it; the model's pose is then the named position "initial".
"""

from collections.abc import Iterable
from pathlib import Path

from tiburon.formats.findings import Findings
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.sdf_build import build_model
from tiburon.formats.sdf_scope import EXTENSIONS, SdfScope, flag_of, read_version
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.joints import Joint
from tiburon.model.model import Model


def read_sdf(
    path: str | Path,
    *,
    package_paths: Iterable[str | Path] = (),
    root_joint: Joint | None = None,
) -> Model:
    """Read a robot from an SDF file.

    Args:
        path: The file, with one <model>, or a <world> with one that is not static.
        package_paths: Folders that hold models, or are models, for meshes and included models named
            ``model://name/...``; beside these only the file's own folder is looked into.
        root_joint: How the one link that no joint holds moves in the world; by default freely, or
            not at all in a static model.

    Raises:
        ModelFileError: If the file cannot be read or makes no robot; names file, line and element.
    """
    budget = Budget(str(path))
    root = parse_xml(read_bytes(Path(path)), budget, skip=EXTENSIONS)
    meshes = MeshPaths(Path(path).parent, package_paths)
    findings = Findings(str(path))
    scope = SdfScope(budget, meshes, findings)
    model_element, version = _choose_model(root, findings)
    scope.read_top(model_element, version)
    model = build_model(scope, model_element, root_joint)
    findings.warn()
    return model


def _choose_model(root: XmlElement, findings: Findings) -> tuple[XmlElement, tuple[int, int]]:
    """Return the one model of a file and the version it is written in."""
    if root.tag not in ("sdf", "gazebo"):
        root.fail(f"expected <sdf> as the outermost element, got <{root.tag}>; this is no SDF")
    version = read_version(root)
    worlds = list(root.all("world"))
    holders = [root, *worlds]
    models = [m for holder in holders for m in holder.all("model")]
    for holder in worlds:
        for include in holder.all("include"):
            findings.add("models included in a world are not read", include.line)
    moving = [m for m in models if not flag_of(m, "static")]
    chosen = moving if len(models) > 1 else models
    if len(chosen) != 1:
        names = ", ".join(repr(m.attributes.get("name", "?")) for m in chosen[:6]) or "none"
        root.fail(
            f"a robot file must hold one <model> that is not static, got {len(chosen)} ({names}); "
            "put each in a file of its own"
        )
    for other in models:
        if other is not chosen[0]:
            findings.add(f"{other.describe()}: is static and was left out", other.line)
    return chosen[0], version
