"""`tiburon export`: robots for other tools, as C code and as units of FMI."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.console import (
    Base,
    Contact,
    Fluid,
    Force,
    Ground,
    PackagePath,
    Pose,
    Position,
    Robot,
    RootJoint,
    WorldFile,
    load_quietly,
)

if TYPE_CHECKING:
    from tiburon.model import Model, World

application = typer.Typer(
    help="Write a robot for other tools: C code, co-simulation units.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EXAMPLES = """
tiburon export fmu arm.urdf arm.fmu
tiburon export fmu panda panda.fmu --dt 0.002 --target linux-x86_64 --target windows-x86_64
tiburon export fmu panda panda.fmu --version 3.0 --parameter link_7.mass --parameter world.gravity
tiburon export fmu rov.urdf --base free --fluid current=0.3,0,0
tiburon export c panda panda-c --function forward_dynamics --function inverse_dynamics
"""

Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="System such as windows-x86_64; may be repeated."),
]


@application.command("fmu")
def export_unit(
    source: Robot,
    target: Annotated[
        Path | None,
        typer.Argument(metavar="OUT", help="The file to write; NAME.fmu by default."),
    ] = None,
    dt: Annotated[float, typer.Option(help="Step size [s].")] = 1e-3,
    pose: Pose = None,
    position: Position = None,
    method: Annotated[str | None, typer.Option(help="Integrator.")] = None,
    version: Annotated[str, typer.Option(help="Version of FMI: 2.0 or 3.0.")] = "2.0",
    parameter: Annotated[
        list[str] | None,
        typer.Option(help="Run-time parameter that tools may tune; may be repeated."),
    ] = None,
    targets: Targets = None,
    fluid: Fluid = None,
    world: WorldFile = None,
    ground: Ground = None,
    contact: Contact = None,
    base: Base = None,
    package_path: PackagePath = None,
    force: Force = False,
) -> None:
    """Write a robot in its world as a co-simulation unit of FMI."""
    import tiburon as tb
    from tiburon.cli.run_options import clear_start, contact_of, integrator_of

    model, around = _robot(source, package_path, base, world, ground, fluid)
    target = target or Path(f"{_title(model)}.fmu")
    if target.exists() and not force:
        raise tb.ModelFileError(target, "exists already; choose another name, or pass --force")
    touch = contact_of(contact)
    tb.export_fmu(
        model,
        target,
        version=version,
        q=clear_start(model, around, pose, position, touch),
        method=integrator_of(method, dt),
        parameters=parameter or (),
        targets=targets or None,
        world=around,
        contact=touch,
    )
    print(f"wrote {target}: {model.name}, FMI {version}, steps of {dt:g} s")


@application.command("c")
def export_code(
    source: Robot,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder for the files; NAME-c by default."),
    ] = None,
    function: Annotated[
        list[str] | None, typer.Option(help="Function of this package; may be repeated.")
    ] = None,
    fluid: Fluid = None,
    world: WorldFile = None,
    base: Base = None,
    package_path: PackagePath = None,
    force: Force = False,
) -> None:
    """Write functions of a robot as C: source, header, CMake file and an example.

    Water acts, ground does not: contact belongs to the steps of a run (`tiburon export fmu`).
    """
    import tiburon as tb
    from tiburon.written_file import write_file

    model, around = _robot(source, package_path, base, world, None, fluid)
    names = function or ["forward_dynamics"]
    known = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "bias_force")
    for name in names:
        if name not in known:
            raise tb.OptionError("--function", known, name)
    title = _title(model)
    folder = folder or Path(f"{title}-c")
    kernels = [tb.compile(getattr(tb, name), model, world=around) for name in names]
    functions = [f"{title}_{name}" for name in names]
    files = tb.c_source(kernels, name=functions, header=True)
    texts = {
        f"{title}.c": files.source,
        f"{title}.h": files.header,
        "CMakeLists.txt": _cmake(title),
        "example.c": _example(title, functions[0], kernels[0], model),
    }
    folder.mkdir(parents=True, exist_ok=True)
    taken = [name for name in texts if (folder / name).exists()]
    if taken and not force:
        problem = "exists already; choose another folder, or pass --force"
        raise tb.ModelFileError(folder / taken[0], problem)
    for name, text in texts.items():
        write_file(folder / name, text, tb.ModelFileError)
    print(f"wrote {folder}: {', '.join(functions)}; {', '.join(texts)}")


def _robot(
    source: str,
    package_path: list[Path] | None,
    base: RootJoint | None,
    world: Path | None,
    ground: float | None,
    fluid: list[str] | None,
) -> "tuple[Model, World]":
    """Return a robot and its world, as `tiburon simulate` would; print warnings."""
    from tiburon.cli.run_options import surroundings

    model, warnings = load_quietly(source, package_path or (), base)
    for warning in warnings:
        print(f"warning: {warning}")
    return model, surroundings(world, None, None, None, None, ground, source, fluid)


def _title(model: "Model") -> str:
    """Return the name of a robot as one of C."""
    title = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.name)
    return title if title[0].isalpha() else f"robot_{title}"


def _cmake(title: str) -> str:
    return f"""cmake_minimum_required(VERSION 3.10)
project({title} C)
add_library({title} {title}.c)
target_include_directories({title} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_property(TARGET {title} PROPERTY C_STANDARD 99)
if(NOT MSVC)
  # results keep their bits only if the compiler neither contracts nor reorders arithmetic
  target_compile_options({title} PRIVATE -O2 -ffp-contract=off -march=native)
  target_link_libraries({title} PUBLIC m)
endif()
add_executable(example example.c)
target_link_libraries(example {title})
"""


def _example(title: str, name: str, kernel: Callable[..., Any], model: "Model") -> str:
    """Write a program that calls a function where runs of the robot start, at rest."""
    from tiburon.cli.run_options import start_of
    from tiburon.native.kernel import kernel_of

    native = kernel_of(kernel)._code.signature
    start = ", ".join(repr(float(x)) for x in start_of(model, None, None))
    lines = [f'#include "{title}.h"', "#include <stdio.h>", "", "int main(void)", "{"]
    given = []
    for item in native.inputs:
        if item.parameter:
            given.append(f"{name}_{item.name}")
        else:
            values = start if item.name == "q" else "0.0"
            lines.append(f"    const double {item.name}[{max(item.size, 1)}] = {{{values}}};")
            given.append(item.name)
    size = 1
    for count in native.outputs[0].shape:
        size *= count
    lines += [
        f"    double result[{size}];",
        f"    const double *in[] = {{{', '.join(given)}}};",
        "    double *out[] = {result};",
        f"    if ({name}(in, out)) return 1;",
        f'    for (int k = 0; k < {size}; ++k) printf("%.17g\\n", result[k]);',
        "    return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)
