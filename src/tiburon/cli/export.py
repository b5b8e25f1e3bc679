"""`tiburon export`: robots for other tools, as C code and as units of FMI."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.console import Force, PackagePath, Robot, load_quietly

if TYPE_CHECKING:
    from tiburon.model import Model

application = typer.Typer(
    help="Write a robot for other tools: C code, co-simulation units.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EXAMPLES = """
tiburon export fmu arm.urdf arm.fmu
tiburon export fmu panda panda.fmu --dt 0.002 --target linux-x86_64 --target windows-x86_64
tiburon export fmu panda panda.fmu --version 3.0 --parameter link_7.mass --parameter world.gravity
tiburon export c panda panda-c --function forward_dynamics --function inverse_dynamics
"""

Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="System such as windows-x86_64; may be repeated."),
]


@application.command("fmu")
def export_unit(
    source: Robot,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .fmu.")],
    dt: Annotated[float, typer.Option(help="Step size [s].")] = 1e-3,
    pose: Annotated[str | None, typer.Option(help="Named initial pose.")] = None,
    method: Annotated[str | None, typer.Option(help="Integrator.")] = None,
    version: Annotated[str, typer.Option(help="Version of FMI: 2.0 or 3.0.")] = "2.0",
    parameter: Annotated[
        list[str] | None,
        typer.Option(help="Run-time parameter that tools may tune; may be repeated."),
    ] = None,
    targets: Targets = None,
    package_path: PackagePath = None,
    force: Force = False,
) -> None:
    """Write a robot on dry land as a co-simulation unit of FMI."""
    import tiburon as tb

    if target.exists() and not force:
        raise tb.ModelFileError(target, "exists already; choose another name, or pass --force")
    model, warnings = load_quietly(source, package_path or ())
    for warning in warnings:
        print(f"warning: {warning}")
    if pose is not None and pose not in model.poses:
        raise tb.UnknownNameError("pose", pose, tuple(model.poses))
    q = None if pose is None else model.poses[pose]
    tb.export_fmu(
        model,
        target,
        dt,
        version=version,
        q=q,
        method=method,
        parameters=parameter or (),
        targets=targets or None,
    )
    print(f"wrote {target}: {model.name}, FMI {version}, steps of {dt:g} s")


@application.command("c")
def export_code(
    source: Robot,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")],
    function: Annotated[
        list[str] | None, typer.Option(help="Function of this package; may be repeated.")
    ] = None,
    package_path: PackagePath = None,
    force: Force = False,
) -> None:
    """Write functions of a robot as C: source, header, CMake file and an example."""
    import tiburon as tb
    from tiburon.written_file import write_file

    model, warnings = load_quietly(source, package_path or ())
    for warning in warnings:
        print(f"warning: {warning}")
    names = function or ["forward_dynamics"]
    known = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "bias_force")
    for name in names:
        if name not in known:
            raise tb.OptionError("--function", known, name)
    title = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.name)
    if not title[0].isalpha():
        title = f"robot_{title}"
    kernels = [tb.compile(getattr(tb, name), model) for name in names]
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
    """Write a program that calls a function in the neutral configuration, at rest."""
    from tiburon.native.kernel import kernel_of

    native = kernel_of(kernel)._code.signature
    neutral = ", ".join(repr(float(x)) for x in model.neutral())
    lines = [f'#include "{title}.h"', "#include <stdio.h>", "", "int main(void)", "{"]
    given = []
    for item in native.inputs:
        if item.parameter:
            given.append(f"{name}_{item.name}")
        else:
            values = neutral if item.name == "q" else "0.0"
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
