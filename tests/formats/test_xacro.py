"""Xacro files: expanded by the package xacro, or refused with the extra that installs it."""

import sys

import pytest

import tiburon as tb

ARM = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="mass" default="1.5"/>
<xacro:include filename="$(find parts)/part.xacro"/>
<link name="base"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<xacro:part name="a" parent="base" length="${2 * 0.25}"/>
<xacro:part name="b" parent="a" length="0.3"/></robot>"""

PART = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:macro name="part" params="name parent length">
<link name="${name}"><inertial><mass value="$(arg mass)"/><origin xyz="${length} 0 0"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="${name}_joint" type="continuous"><parent link="${parent}"/><child link="${name}"/>
<axis xyz="0 0 1"/></joint></xacro:macro></robot>"""


@pytest.fixture
def arm(tmp_path):
    """Return a xacro file that includes one of a package, and the folder of packages."""
    (tmp_path / "packages" / "parts").mkdir(parents=True)
    (tmp_path / "packages" / "parts" / "part.xacro").write_text(PART)
    (tmp_path / "robots").mkdir()
    path = tmp_path / "robots" / "arm.urdf.xacro"
    path.write_text(ARM)
    return path, tmp_path / "packages"


def test_macros_packages_and_arguments_are_expanded(arm):
    """Expressions, defaults, values that are given, floating bases."""
    pytest.importorskip("xacro", reason="needs xacro: pip install 'tiburon[xacro]'")
    path, packages = arm
    model = tb.load(path, package_paths=[packages])
    assert model.name == "arm"
    assert model.v_names == ("a_joint", "b_joint")
    assert [body.inertia.com[0] for body in model.bodies[-2:]] == [0.5, 0.3]
    assert model.total_mass == 4.0
    heavy = tb.load(
        path, package_paths=[packages], xacro_arguments={"mass": 2}, root_joint=tb.Free("base")
    )
    assert heavy.total_mass == 5.0
    assert heavy.nv == 8


def test_what_cannot_be_expanded_says_why(arm):
    """A missing package, a missing argument, broken XML; nothing is left changed."""
    xacro = pytest.importorskip("xacro", reason="needs xacro: pip install 'tiburon[xacro]'")
    path, packages = arm
    before = xacro.substitution_args._eval_find
    with pytest.raises(tb.ModelFileError, match=r"package 'parts' was not found; load it with pac"):
        tb.load(path)
    with pytest.raises(tb.ModelFileError, match="the file has no argument 'mas'; it has 'mass'"):
        tb.load(path, package_paths=[packages], xacro_arguments={"mas": 2.0})
    path.write_text(ARM.replace('<xacro:arg name="mass" default="1.5"/>', ""))
    with pytest.raises(tb.ModelFileError, match=r"mass.*; pass xacro_arguments=\{\.\.\.\}"):
        tb.load(path, package_paths=[packages])
    path.write_text(ARM.replace("${2 *", "${nothing *"))
    with pytest.raises(tb.ModelFileError, match=r"xacro cannot expand it \(.*nothing"):
        tb.load(path, package_paths=[packages])
    path.write_text("<robot")
    with pytest.raises(tb.ModelFileError, match="xacro cannot expand it"):
        tb.load(path, package_paths=[packages])
    assert xacro.substitution_args._eval_find is before


def test_without_the_package_the_extra_is_named(arm, monkeypatch):
    """In words that can be run; arguments of xacro are refused for other files."""
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(tb.MissingExtraError, match=r"arm.urdf.xacro: .*'tiburon\[xacro\]'"):
        tb.load(arm[0])
    with pytest.raises(tb.ModelError, match=r"panda: xacro_arguments are for xacro files"):
        tb.load("panda", xacro_arguments={"a": 1})
