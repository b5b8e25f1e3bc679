"""Robots as co-simulation units of FMI 2.0: the step of `simulate` as C, for tools without Python.

A unit holds one robot with its surroundings, elements and contact. Inputs are commands, outputs are
states; run-time parameters of the step can be tuned. Each communication step is a whole number of
steps of the unit, with the bits of `simulate` where the compiler keeps those of C.
"""

import hashlib
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import ModelError, OptionError, RunFileError
from tiburon.interfaces.c_library import TARGETS, compile_c, native_target
from tiburon.interfaces.extras import needed
from tiburon.model import Model
from tiburon.native.c_source import c_source
from tiburon.native.kernel import kernel_of
from tiburon.simulation.located_contact import has_meshes
from tiburon.simulation.step import StepSource, step_kernel
from tiburon.simulation.stepper import stepper
from tiburon.simulation.system import TABLES
from tiburon.version import installed_version
from tiburon.written_file import replacing

__all__ = ["export_fmu"]

EXTRA = "fmu"

PLATFORMS = {
    "linux-x86_64": "linux64",
    "windows-x86_64": "win64",
    "macos-x86_64": "darwin64",
}
"""Folder of each target in a unit, as FMI 2.0 names them; it has none for other processors."""


@public
def export_fmu(
    model: Model,
    path: str | Path,
    dt: float = 1e-3,
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    method: str | None = None,
    targets: str | Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """Write a robot as a co-simulation unit (FMU) of FMI 2.0.

    Inputs are ``command.NAME``, outputs ``position.NAME``, ``velocity.NAME``, ``state.NAME`` and
    ``discrete.NAME``, parameters ``ARRAY[k]`` the run-time parameters of the step kernel. A
    communication step must be a whole number of steps. On Linux results have the bits of
    `simulate`.

    Args:
        model: The robot.
        path: Of the file.
        dt: Length of a step [s].
        q: Initial configuration; as in `simulate` by default.
        v: Initial joint velocity; at rest by default.
        method: Name of the integrator, one-step methods only.
        targets: Systems, of `PLATFORMS`; this machine by default. Others are linked, not run.
        **options: Further keywords of `stepper`: `world`, `fluid`, `contact`, `forces`, `control`
            (a traced controller without discrete states), ...

    Returns:
        The path.

    Raises:
        MissingExtraError: If ziglang is not installed.
        ModelError: If the step needs Python: tables, meshes, sampled controllers.

    Example:
        ``tb.export_fmu(arm, "arm.fmu", dt=1e-3, targets=["linux-x86_64", "windows-x86_64"])``
    """
    chosen = (targets,) if isinstance(targets, str) else tuple(targets or (native_target(),))
    for target in chosen:
        if target not in PLATFORMS:
            raise OptionError("targets", PLATFORMS, target)
    own = stepper(model, dt, method=method, **options)
    system, setup = own.system, own._ready.setup
    state = own.start(cases=1, q=q, v=v)
    kernel = step_kernel(StepSource(system, setup.method), "one")
    signature = kernel_of(kernel)._code.signature
    names = [item.name for item in signature.inputs]
    reason = None
    if TABLES in names:
        reason = "reads tables of this process (paths, height fields)"
    elif has_meshes(system):
        reason = "locates contacts of meshes in Python"
    elif system.held:
        reason = "samples a controller"
    elif "memory" in names:
        reason = f"has a multi-step method, {setup.method!r}"
    if reason is not None:
        raise ModelError(
            f"export_fmu of model {model.name!r}: expected a step that is C alone, got one that "
            f"{reason}; leave it out, or take another method",
            name=model.name,
        )
    variables = _Variables(own, state, kernel_of(kernel), setup)
    identifier = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.name)
    source = c_source(kernel, name="tiburon_step")
    text = variables.unit(setup)
    identity = hashlib.blake2b((source + text).encode(), digest_size=16).hexdigest()
    text = text.replace("@IDENTITY@", identity)
    needed("ziglang", EXTRA, "export_fmu")
    file = Path(path)
    with (
        tempfile.TemporaryDirectory() as folder,
        replacing(file, RunFileError) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        description = variables.description(model, identifier, identity, setup)
        archive.writestr("modelDescription.xml", description)
        archive.writestr(f"sources/{identifier}.c", f"{source}\n{text}")
        for target in chosen:
            library = Path(folder) / f"{target}{TARGETS[target].suffix}"
            compile_c([f"{source}\n{text}"], library, target)
            place = f"binaries/{PLATFORMS[target]}/{identifier}{TARGETS[target].suffix}"
            archive.write(library, place)
    return file


class _Variables:
    """All numbers of a unit in one array: commands, states, held values, parameters."""

    def __init__(self, own: Any, state: Any, kernel: Any, setup: Any) -> None:
        system, model = own.system, own.system.model
        held = state.held[0]
        self._parts: dict[str, int] = {}
        self.rows: list[tuple[str, str, float]] = []
        # joint forces and commands of elements, and what follows them among the held values
        commands = len(system.command_names)
        listed = [f"command.{name}" for name in system.command_names]
        self._add("u", listed, _INPUT, held[:commands])
        rest = [f"discrete.{name}" for name in system.z_names]
        self._add("", rest, _DISCRETE, held[commands:])
        self._add("q", [f"position.{n}" for n in model.q_names], _OUTPUT, state.q[0])
        self._add("v", [f"velocity.{n}" for n in model.v_names], _OUTPUT, state.v[0])
        self._add("x", [f"state.{n}" for n in system.x_names], _OUTPUT, state.x[0])
        self._first = len(self.rows)
        for name, values in kernel.parameters.items():
            flat = np.ravel(values)
            self._add(name, [f"{name}[{k}]" for k in range(flat.size)], _PARAMETER, flat)
        self._signature = kernel._code.signature
        self._chained = [output.name for output in self._signature.outputs]
        # contact and loops: a start that was not checked here would be wrong without a word
        self._fixed_start = bool(model.loops) or system.contact is not None or system.prescribes
        self._commands = commands

    def _add(self, part: str, names: list[str], kind: str, values: Any) -> None:
        if part:
            self._parts[part] = len(self.rows)
        for name, value in zip(names, values, strict=True):
            self.rows.append((name, kind, float(value)))

    def unit(self, setup: Any) -> str:
        """Write the functions of the interface around the step."""
        given = [
            "clock" if item.name == "clock" else f"me->x + {self._parts[item.name]}"
            for item in self._signature.inputs
        ]
        made = [f"me->x + {self._parts[output.name]}" for output in self._signature.outputs]
        start = ", ".join(value.hex() for _, _, value in self.rows)
        # tools may set commands, parameters, and states where any start is one
        last = self._first if self._fixed_start else self._commands
        replaced = {
            "@COUNT@": str(len(self.rows)),
            "@START@": start,
            "@COMMANDS@": str(self._commands),
            "@PARAMETERS@": str(self._first),
            "@LAST@": str(last),
            "@BEGIN@": float(setup.begin).hex(),
            "@DT@": float(setup.dt).hex(),
            "@IN@": ", ".join(given),
            "@OUT@": ", ".join(made),
        }
        text = _UNIT
        for mark, value in replaced.items():
            text = text.replace(mark, value)
        return text

    def description(self, model: Model, identifier: str, identity: str, setup: Any) -> str:
        """Write the description of the unit."""
        rows = "\n".join(
            f'<ScalarVariable name={quoteattr(name)} valueReference="{k}" {kind}>'
            f'<Real start="{value!r}"/></ScalarVariable>'
            for k, (name, kind, value) in enumerate(self.rows)
        )
        outputs = "".join(
            f'<Unknown index="{k + 1}"/>'
            for k, (_, kind, _) in enumerate(self.rows)
            if 'causality="output"' in kind
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<fmiModelDescription fmiVersion="2.0" modelName={quoteattr(model.name)} '
            f'guid="{identity}" generationTool="tiburon {installed_version()}" '
            'variableNamingConvention="flat">\n'
            f'<CoSimulation modelIdentifier="{identifier}" '
            'canHandleVariableCommunicationStepSize="true" canGetAndSetFMUstate="true" '
            'canSerializeFMUstate="true"/>\n'
            f'<DefaultExperiment startTime="{setup.begin!r}" stepSize="{setup.dt!r}"/>\n'
            f"<ModelVariables>\n{rows}\n</ModelVariables>\n"
            f"<ModelStructure><Outputs>{outputs}</Outputs></ModelStructure>\n"
            "</fmiModelDescription>\n"
        )


_INPUT = 'causality="input" variability="continuous"'
_OUTPUT = 'causality="output" variability="continuous" initial="exact"'
_DISCRETE = 'causality="output" variability="discrete" initial="exact"'
_PARAMETER = 'causality="parameter" variability="tunable"'

_UNIT = r"""
#include <stdlib.h>
#ifdef _WIN32
#define FMI __declspec(dllexport)
#else
#define FMI __attribute__((visibility("default")))
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
/* fused multiply-add and AVX2, which this code was compiled for */
static int tb_able(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 12)) || !(c & (1u << 28))) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 5));
}
#else
static int tb_able(void) { return 1; }
#endif
enum { OK = 0, DISCARD = 2, ERROR = 3, COUNT = @COUNT@ };
typedef void *Handle;
typedef unsigned int Reference;
typedef const char *Text;
typedef struct { double x[COUNT]; double begin, done; } Unit;
static const double tb_start[COUNT] = { @START@ };

static void tb_reset(Unit *me)
{
    memcpy(me->x, tb_start, sizeof tb_start);
    me->begin = @BEGIN@;
    me->done = 0.0;
}
FMI Text fmi2GetTypesPlatform(void) { return "default"; }
FMI Text fmi2GetVersion(void) { return "2.0"; }
FMI int fmi2SetDebugLogging(Handle h, int on, size_t n, const Text *which)
{ (void)h; (void)on; (void)n; (void)which; return OK; }
FMI Handle fmi2Instantiate(Text name, int kind, Text identity, Text place, const void *calls,
                           int visible, int logging)
{
    (void)name; (void)place; (void)calls; (void)visible; (void)logging;
    if (kind != 1 || strcmp(identity, "@IDENTITY@") || !tb_able()) return 0;
    Unit *me = calloc(1, sizeof *me);
    if (me) tb_reset(me);
    return me;
}
FMI void fmi2FreeInstance(Handle h) { free(h); }
FMI int fmi2SetupExperiment(Handle h, int tol, double tolerance, double start, int ends,
                            double stop)
{
    (void)tol; (void)tolerance; (void)ends; (void)stop;
    ((Unit *)h)->begin = start;
    return OK;
}
FMI int fmi2EnterInitializationMode(Handle h) { (void)h; return OK; }
FMI int fmi2ExitInitializationMode(Handle h) { (void)h; return OK; }
FMI int fmi2Terminate(Handle h) { (void)h; return OK; }
FMI int fmi2Reset(Handle h) { tb_reset(h); return OK; }
FMI int fmi2GetReal(Handle h, const Reference *r, size_t n, double *value)
{
    const Unit *me = h;
    for (size_t k = 0; k < n; ++k) {
        if (r[k] >= COUNT) return ERROR;
        value[k] = me->x[r[k]];
    }
    return OK;
}
FMI int fmi2SetReal(Handle h, const Reference *r, size_t n, const double *value)
{
    Unit *me = h;
    for (size_t k = 0; k < n; ++k) {
        if (r[k] >= COUNT) return ERROR;
        /* states between commands and parameters follow from a start that was checked */
        if (r[k] >= @COMMANDS@ && r[k] < @LAST@ && value[k] != me->x[r[k]]) return ERROR;
        me->x[r[k]] = value[k];
    }
    return OK;
}
#define TB_NONE(NAME, T) \
    FMI int NAME(Handle h, const Reference *r, size_t n, T v) \
    { (void)h; (void)r; (void)v; return n ? ERROR : OK; }
TB_NONE(fmi2GetInteger, int *)
TB_NONE(fmi2GetBoolean, int *)
TB_NONE(fmi2GetString, Text *)
TB_NONE(fmi2SetInteger, const int *)
TB_NONE(fmi2SetBoolean, const int *)
TB_NONE(fmi2SetString, const Text *)
FMI int fmi2GetFMUstate(Handle h, void **s)
{
    if (!*s) *s = malloc(sizeof(Unit));
    if (!*s) return ERROR;
    memcpy(*s, h, sizeof(Unit));
    return OK;
}
FMI int fmi2SetFMUstate(Handle h, void *s) { memcpy(h, s, sizeof(Unit)); return OK; }
FMI int fmi2FreeFMUstate(Handle h, void **s) { (void)h; free(*s); *s = 0; return OK; }
FMI int fmi2SerializedFMUstateSize(Handle h, void *s, size_t *n)
{ (void)h; (void)s; *n = sizeof(Unit); return OK; }
FMI int fmi2SerializeFMUstate(Handle h, void *s, unsigned char *b, size_t n)
{ (void)h; if (n < sizeof(Unit)) return ERROR; memcpy(b, s, sizeof(Unit)); return OK; }
FMI int fmi2DeSerializeFMUstate(Handle h, const unsigned char *b, size_t n, void **s)
{
    (void)h;
    if (n != sizeof(Unit)) return ERROR;
    if (!*s) *s = malloc(n);
    if (!*s) return ERROR;
    memcpy(*s, b, n);
    return OK;
}
FMI int fmi2GetDirectionalDerivative(Handle h, const Reference *z, size_t nz, const Reference *v,
                                     size_t nv, const double *dv, double *dz)
{ (void)h; (void)z; (void)nz; (void)v; (void)nv; (void)dv; (void)dz; return ERROR; }
FMI int fmi2SetRealInputDerivatives(Handle h, const Reference *r, size_t n, const int *o,
                                    const double *v)
{ (void)h; (void)r; (void)o; (void)v; return n ? ERROR : OK; }
FMI int fmi2GetRealOutputDerivatives(Handle h, const Reference *r, size_t n, const int *o,
                                     double *v)
{ (void)h; (void)r; (void)o; (void)v; return n ? ERROR : OK; }
FMI int fmi2DoStep(Handle h, double time, double length, int keep)
{
    Unit *me = h;
    (void)time; (void)keep;
    const double steps = length / @DT@, whole = floor(steps + 0.5);
    /* a part of a step cannot be taken */
    if (!(whole >= 1.0) || fabs(steps - whole) > 1e-6 * whole) return ERROR;
    for (double k = 0.0; k < whole; k += 1.0) {
        const double clock[4] = { me->begin, @DT@, @DT@, me->done };
        Unit before = *me;
        const double *in[] = { @IN@ };
        double *out[] = { @OUT@ };
        (void)clock;
        if (tiburon_step(in, out)) { *me = before; return ERROR; }
        me->done += 1.0;
    }
    return OK;
}
FMI int fmi2CancelStep(Handle h) { (void)h; return ERROR; }
#define TB_STATUS(NAME, T) \
    FMI int NAME(Handle h, int k, T v) { (void)h; (void)k; (void)v; return DISCARD; }
TB_STATUS(fmi2GetStatus, int *)
TB_STATUS(fmi2GetRealStatus, double *)
TB_STATUS(fmi2GetIntegerStatus, int *)
TB_STATUS(fmi2GetBooleanStatus, int *)
TB_STATUS(fmi2GetStringStatus, Text *)
"""
