"""Robots as co-simulation units of FMI 2.0 and 3.0: the step of `simulate` as C, without Python.

A unit holds one robot with its surroundings, elements and contact. Inputs are commands, outputs are
states and sensors; named run-time parameters can be tuned. Each communication step is a whole
number of steps of the unit, with the bits of `simulate` where the compiler keeps those of C. Rates
of the states and directional derivatives are evaluated at communication points.
"""

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.errors import ModelError, OptionError, RunFileError
from tiburon.interfaces.c_library import TARGETS, compile_c, native_target
from tiburon.interfaces.extras import needed
from tiburon.interfaces.fmu_parameters import NamedScalar, named_scalars, tables_program
from tiburon.model import Model
from tiburon.native.c_source import c_signature, programs_c_source
from tiburon.results.header import force_units, position_units, velocity_units
from tiburon.simulation.integrators.integrator import Integrator
from tiburon.simulation.layout import ELEMENTS, TABLES
from tiburon.simulation.linearization import movable_joints
from tiburon.simulation.run_parameters import parameters as run_parameters
from tiburon.simulation.sensing import Sensed, Sensing, Sensor
from tiburon.simulation.step import StepSource
from tiburon.simulation.stepper import stepper
from tiburon.simulation.system import System
from tiburon.trace.array import as_traced
from tiburon.trace.derivative import forward_derivative
from tiburon.trace.program import Input
from tiburon.version import installed_version
from tiburon.written_file import replacing

EXTRA = "fmu"

SOURCES = Path(__file__).parent / "unit"
"""Folder of the C code of units."""

VERSIONS = ("2.0", "3.0")
"""Versions of FMI."""

PLATFORMS = {
    "2.0": {
        "linux-x86_64": "linux64",
        "windows-x86_64": "win64",
        "macos-x86_64": "darwin64",
    },
    "3.0": {
        "linux-x86_64": "x86_64-linux",
        "linux-aarch64": "aarch64-linux",
        "windows-x86_64": "x86_64-windows",
        "macos-x86_64": "x86_64-darwin",
        "macos-aarch64": "aarch64-darwin",
    },
}
"""Folder of each target in a unit, as each version names them; 2.0 has none for ARM."""

LONG_DERIVATIVES = 500_000
"""Characters of the code of derivatives beyond which it is compiled without optimization: that of
robots with several loops takes longer than all else, and derivatives are evaluated rarely."""

PARAMETER_KEYWORDS = ("world", "fluid", "elements", "control")
"""Keywords that `tiburon.parameters` takes, too."""


@public
def export_fmu(
    model: Model,
    path: str | Path,
    *,
    version: str = "2.0",
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    method: Integrator | None = None,
    parameters: Sequence[str] = (),
    sensors: Sequence[Sensor] = (),
    targets: str | Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """Write a robot as a co-simulation unit (FMU) of FMI 2.0 or 3.0.

    Inputs are ``command.NAME``; outputs ``position.NAME``, ``velocity.NAME``, ``state.NAME``,
    ``discrete.NAME`` and ``sensor.NAME.CHANNEL``; local variables the rates ``der(position.NAME)``,
    ``der(velocity.NAME)`` and ``der(state.NAME)``; parameters those of `parameters`, by name and
    with units. A communication step must be a whole number of steps. On Linux results have the bits
    of `simulate`. Directional derivatives of all of these by commands, states and parameters are
    exact (without rigid contact, which has impulses instead of accelerations).

    Args:
        model: The robot.
        path: Of the file.
        version: Of FMI, "2.0" or "3.0".
        q: Initial configuration; as in `simulate` by default.
        v: Initial joint velocity; at rest by default.
        method: One-step integrator with equal steps; ``RK4(dt=1e-3)`` by default.
        parameters: Names of run-time parameters to tune, as `tiburon.parameters` lists them, or of
            components such as "hull.center_of_mass.z".
        sensors: Sensors without errors and delay, read at communication points.
        targets: Systems, of `PLATFORMS`; this machine by default. Others are linked, not run.
        **options: Further keywords of `stepper`: `world`, `fluid`, `contact`, `elements`, `control`
            (a traced controller without discrete states), ...

    Returns:
        The path.

    Raises:
        MissingExtraError: If ziglang is not installed.
        ModelError: If the step needs Python: tables, meshes, sampled controllers.

    Example:
        ``tb.export_fmu(arm, "arm.fmu", method=tb.RK4(dt=1e-3), parameters=["hand.mass"])``
    """
    if version not in VERSIONS:
        raise OptionError("version", VERSIONS, version)
    chosen = (targets,) if isinstance(targets, str) else tuple(targets or (native_target(),))
    folders = PLATFORMS[version]
    for target in chosen:
        if target not in folders:
            raise OptionError(f"targets of FMI {version}", folders, target)
    listed = [parameters] if isinstance(parameters, str) else list(parameters)
    named: list[NamedScalar] = []
    if listed:
        given = {key: value for key, value in options.items() if key in PARAMETER_KEYWORDS}
        named = named_scalars(run_parameters(model, **given), listed, model)
        options = {**options, "parameters": {one.name: one.value for one in named}}
    own = stepper(model, method=method, **options)
    unit = _Unit(own, own.start(cases=1, q=q, v=v), tuple(sensors), named)
    identifier = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.name)
    if not identifier[:1].isalpha():
        identifier = f"robot_{identifier}"
    texts = unit.code(version)
    identity = hashlib.blake2b("".join(texts).encode(), digest_size=16).hexdigest()
    texts = [text.replace("@IDENTITY@", identity) for text in texts]
    needed("ziglang", EXTRA, "export_fmu")
    file = Path(path)
    with (
        tempfile.TemporaryDirectory() as folder,
        replacing(file, RunFileError) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        description = unit.description(version, model, identifier, identity)
        archive.writestr("modelDescription.xml", description)
        for ending, text in zip(("", "_derivatives"), texts, strict=False):
            archive.writestr(f"sources/{identifier}{ending}.c", text)
        for target in chosen:
            library = Path(folder) / f"{target}{TARGETS[target].suffix}"
            # kernels of several units in one process must not meet
            compile_c(
                texts,
                library,
                target,
                hidden=True,
                quickly=lambda text: text is not texts[0] and len(text) > LONG_DERIVATIVES,
            )
            place = f"binaries/{folders[target]}/{identifier}{TARGETS[target].suffix}"
            archive.write(library, place)
    return file


class _Variable(NamedTuple):
    """A number of a unit."""

    name: str
    kind: str
    """Key of `_KINDS`."""

    start: float
    unit: str = ""
    state: int = -1
    """Place of the state whose rate it is; -1 if it is none."""

    least: float = -np.inf


class _Kind(NamedTuple):
    """How FMI describes a variable."""

    causality: str
    variability: str
    initial: str


_KINDS = {
    "input": _Kind("input", "continuous", ""),
    "state": _Kind("output", "continuous", "exact"),
    "discrete": _Kind("output", "discrete", "exact"),
    "rate": _Kind("local", "continuous", "calculated"),
    "sensor": _Kind("output", "continuous", "calculated"),
    "parameter": _Kind("parameter", "tunable", "exact"),
}


class _Unit:
    """Programs of a unit, and all its numbers in one array."""

    def __init__(
        self, own: Any, state: Any, sensors: tuple[Sensor, ...], named: list[NamedScalar]
    ) -> None:
        self._system = system = own.system
        self._setup = own._ready.setup
        self._named = named
        model, method = system.model, self._setup.method
        step = StepSource(system, method).program()
        _refuse(model, system, [item.name for item in step.inputs], method)
        self._sensing = _sensing(system, sensors, self._setup.dt)
        # contact and loops: a start that is not checked here would give silently wrong results
        contact = system.find(ContactElement)
        self._fixed_start = bool(model.loops) or contact is not None or system.prescribes
        self.has_rates = not system.ends_in_contact
        self.rows: list[_Variable] = []
        self._parts: dict[str, int] = {}
        self._lay_out(state)
        tables = {name: np.ravel(values) for name, values in system.parameters().items()}
        tables |= {name: values[0] for name, values in state.parameters.items()}
        self._tables = tables
        starts = np.cumsum([0, *(len(values) for values in tables.values())])
        self._table_places = {name: int(k) for name, k in zip(tables, starts, strict=False)}
        self._programs = {"tb_step": step}
        self._derive(own)

    def _lay_out(self, state: Any) -> None:
        """Give every number its place."""
        system, model = self._system, self._system.model
        held = state.held[0]
        commands = len(system.command_names)
        units = (*force_units(model), *[""] * commands)[:commands]
        angles, speeds = position_units(model), velocity_units(model)
        self._add("u", "command", system.command_names, "input", held[:commands], units)
        self._commands = len(self.rows)
        self._add("", "discrete", system.z_names, "discrete", held[commands:])
        self._add("q", "position", model.q_names, "state", state.q[0], angles)
        self._add("v", "velocity", model.v_names, "state", state.v[0], speeds)
        self._add("x", "state", system.x_names, "state", state.x[0])
        self._states = len(self.rows)
        if self.has_rates:
            for part, given in (("q", angles), ("v", speeds), ("x", [""] * system.nx)):
                begin = self._parts[part]
                self._parts[f"d{part}"] = len(self.rows)
                for k, unit in enumerate(given):
                    name = f"der({self.rows[begin + k].name})"
                    per = {"1": "1/s", "": ""}.get(unit) if unit in ("1", "") else f"{unit}/s"
                    per = (per or "").replace("/s/s", "/s^2")
                    self.rows.append(_Variable(name, "rate", 0.0, per, begin + k))
        if self._sensing is not None:
            labels, units = self._sensing.channel_names, self._sensing.channel_units
            self._add("sensors", "sensor", labels, "sensor", [0.0] * len(labels), units)
        self._first_named = len(self.rows)
        self._parts["named"] = len(self.rows)
        for one in self._named:
            self.rows.append(_Variable(one.name, "parameter", one.value, one.unit, least=one.lower))

    def _add(
        self,
        part: str,
        word: str,
        names: Sequence[str],
        kind: str,
        values: Any,
        units: Sequence[str] | None = None,
    ) -> None:
        if part:
            self._parts[part] = len(self.rows)
        for name, value, unit in zip(names, values, units or [""] * len(names), strict=True):
            self.rows.append(_Variable(f"{word}.{name}", kind, float(value), unit))

    def _derive(self, own: Any) -> None:
        """Trace what follows from the state, the tables, and derivatives of both."""
        system, model = self._system, self._system.model
        if self._named:
            self._programs["tb_tables"] = tables_program(own._ready, self._named)
        if not (self.has_rates or self._sensing):
            return
        sizes = {"q": model.nq, "v": model.nv, "x": system.nx, "u": system.drive_size}
        inputs = [Input(name, (size,)) for name, size in sizes.items() if size]

        def run(given: Any) -> Any:
            q, v, x, u = (
                tuple(scalars(given[name])) if name in given else ()
                for name in ("q", "v", "x", "u")
            )
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else None
            found: dict[str, Any] = {}
            now = Sensed(system, given["time"], q, (*v, *x), u, p)
            if self.has_rates:
                rates = now.rates
                turned = [
                    y
                    for joint, i, j in movable_joints(model)
                    for y in joint.position_rate(q[i], v[j])
                ]
                found = {"dq": turned, "dv": rates[: model.nv], "dx": rates[model.nv :]}
            if self._sensing is not None:
                found["sensors"] = [y for s in self._sensing.sensors for y in s.measure(now)]
            return {name: as_traced(list(values)) for name, values in found.items() if len(values)}

        rates = system.trace(run, [*inputs, Input("time", ())], "rates")
        self._programs["tb_rates"] = rates
        if self.has_rates:
            changing = [item.name for item in inputs]
            if self._named:
                tables = self._programs["tb_tables"]
                known = [item.name for item in rates.inputs]
                changing += [output.name for output in tables.outputs if output.name in known]
                self._programs["tb_tables_change"] = forward_derivative(tables)
            self._programs["tb_change"] = forward_derivative(rates, by=changing)

    @property
    def has_derivatives(self) -> bool:
        """Whether there are directional derivatives."""
        return "tb_change" in self._programs

    def _given(self, program: str) -> str:
        """Return the addresses of the arguments of a program."""
        found = []
        for item in self._programs[program].inputs:
            name, changes = item.name, item.name.endswith("_tangent")
            base = name.removesuffix("_tangent")
            if name in ("clock", "time"):
                found.append(name)
            elif base in self._table_places:
                table = "dt" if changes else "me->d.t"
                found.append(f"{table} + {self._table_places[base]}")
            else:
                table = "dx" if changes else "me->d.x"
                found.append(f"{table} + {self._parts[base]}")
        return ", ".join(found)

    def _made(self, program: str, changes: bool = False) -> str:
        """Return the addresses of the results of a program, or of their changes."""
        found = []
        for output in self._programs[program].outputs:
            if output.name in self._table_places:
                table, place = "t", self._table_places[output.name]
            else:
                table, place = "x", self._parts[output.name]
            found.append(f"{'d' if changes else 'me->d.'}{table} + {place}")
        return ", ".join(found)

    def code(self, version: str) -> list[str]:
        """Write the C code; the identity is left open.

        Returns:
            The code of the unit and, in a file that is compiled beside it, derivatives, if any.
        """
        names = {name: f"tiburon{name[2:]}" for name in self._programs}
        plain, changes = (
            {names[key]: x for key, x in self._programs.items() if key.endswith("_change") is apart}
            for apart in (False, True)
        )
        source = programs_c_source(plain)
        source += "".join(f"{c_signature(name)};\n" for name in changes)
        short = "".join(f"#define {key} {name}\n" for key, name in names.items())
        numbers = np.concatenate([*self._tables.values(), np.zeros(1)])
        setup, named = self._setup, bool(self._named)
        change = ""
        if self.has_derivatives and named:
            change = (
                f"const double *tin[] = {{ {self._given('tb_tables_change')} }};\n"
                f"    double *tout[] = {{ {self._made('tb_tables', True)} }};\n"
                '    if (tb_tables_change(tin, tout)) return tb_fail(me, "parameters overflow");'
            )
        derived = "tb_rates" in self._programs
        replaced = {
            "@HAS_TABLES@": str(int(named)),
            "@HAS_RATES@": str(int(derived)),
            "@HAS_DERIVATIVES@": str(int(self.has_derivatives)),
            "@TABLES_CHANGE@": change,
            "@COMMANDS@": str(self._commands),
            "@STATES@": str(self._states),
            "@NAMED@": str(self._first_named),
            "@COUNT@": str(len(self.rows)),
            "@FIXED_START@": str(int(self._fixed_start)),
            "@ROWS@": str(len(numbers) - 1),
            "@START@": ", ".join([*(row.start.hex() for row in self.rows), "0.0"]),
            "@TABLES@": ", ".join(_c_number(x) for x in numbers),
            "@LOWER@": ", ".join([*(_c_number(one.lower) for one in self._named), "0.0"]),
            "@POSITIVE@": ", ".join([*(str(int(one.positive)) for one in self._named), "0"]),
            "@BEGIN@": float(setup.begin).hex(),
            "@DT@": float(setup.dt).hex(),
            "@DT_TEXT@": f"{setup.dt:g}",
            "@IN@": self._given("tb_step"),
            "@OUT@": self._made("tb_step"),
            "@TABLES_OUT@": self._made("tb_tables") if named else "",
            "@RATES_IN@": self._given("tb_rates") if derived else "",
            "@RATES_OUT@": self._made("tb_rates") if derived else "",
            "@CHANGE_IN@": self._given("tb_change") if self.has_derivatives else "",
            "@CHANGE_OUT@": self._made("tb_rates", True) if self.has_derivatives else "",
        }
        files = ("common.c", "fmi2.c" if version == "2.0" else "fmi3.c")
        text = "".join((SOURCES / file).read_text("utf-8") for file in files)
        for mark, value in replaced.items():
            text = text.replace(mark, value)
        whole = f"{source}\n{short}{text}"
        return [whole, programs_c_source(changes)] if changes else [whole]

    def description(self, version: str, model: Model, identifier: str, identity: str) -> str:
        """Write the description of the unit."""
        two = version == "2.0"
        rows = []
        for k, row in enumerate(self.rows):
            kind = _KINDS[row.kind]
            how = f'causality="{kind.causality}" variability="{kind.variability}"'
            if kind.initial and row.kind != "parameter":
                how += f' initial="{kind.initial}"'
            value = "" if kind.initial == "calculated" else f' start="{row.start!r}"'
            if row.unit and _exponents(row.unit) is not None:
                value += f" unit={quoteattr(row.unit)}"
            if row.state >= 0:
                value += f' derivative="{row.state + 1 if two else row.state}"'
            if np.isfinite(row.least):
                value += f' min="{row.least!r}"'
            head = f'name={quoteattr(row.name)} valueReference="{k}" {how}'
            if two:
                rows.append(f"<ScalarVariable {head}><Real{value}/></ScalarVariable>")
            else:
                rows.append(f"<Float64 {head}{value}/>")
        clock = (
            f'name="time" valueReference="{len(rows)}" causality="independent" '
            'variability="continuous"'
        )
        if two:
            rows.append(f"<ScalarVariable {clock}><Real/></ScalarVariable>")
        else:
            rows.append(f"<Float64 {clock}/>")
        capable = "State" if version == "3.0" else "state"
        derivatives = "providesDirectionalDerivative" + ("" if two else "s")
        interface = (
            f'<CoSimulation modelIdentifier="{identifier}" '
            f'canHandleVariableCommunicationStepSize="true" canGetAndSetFMU{capable}="true" '
            f'canSerializeFMU{capable}="true" '
            f'{derivatives}="{str(self.has_derivatives).lower()}"/>\n'
        )
        token = "guid" if two else "instantiationToken"
        listed = "\n".join(rows)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<fmiModelDescription fmiVersion="{version}" modelName={quoteattr(model.name)} '
            f'{token}="{identity}" generationTool="tiburon {installed_version()}" '
            'variableNamingConvention="flat">\n'
            f"{interface}{self._units()}"
            '<LogCategories><Category name="logStatusError"/></LogCategories>\n'
            f'<DefaultExperiment startTime="{self._setup.begin!r}" '
            f'stepSize="{self._setup.dt!r}"/>\n'
            f"<ModelVariables>\n{listed}\n</ModelVariables>\n"
            f"{self._structure(two)}</fmiModelDescription>\n"
        )

    def _units(self) -> str:
        """Write the units that variables have."""
        found = []
        for name in dict.fromkeys(row.unit for row in self.rows if row.unit):
            exponents = _exponents(name)
            if exponents is not None:
                powers = " ".join(f'{key}="{n}"' for key, n in exponents.items() if n)
                found.append(f"<Unit name={quoteattr(name)}><BaseUnit {powers}/></Unit>\n")
        return f"<UnitDefinitions>\n{''.join(found)}</UnitDefinitions>\n" if found else ""

    def _structure(self, two: bool) -> str:
        """Write outputs, derivatives and what is unknown at the start."""

        def chosen(*kinds: str) -> list[int]:
            return [k for k, row in enumerate(self.rows) if row.kind in kinds]

        lists = {
            "Output": chosen("state", "discrete", "sensor"),
            "Derivative": chosen("rate"),
            "InitialUnknown": chosen("rate", "sensor"),
        }
        parts = []
        for title, places in lists.items():
            if two:
                entries = "".join(f'<Unknown index="{k + 1}"/>' for k in places)
                parts.append(f"<{title}s>{entries}</{title}s>\n" if places else "")
            else:
                word = {"Derivative": "ContinuousStateDerivative"}.get(title, title)
                parts += [f'<{word} valueReference="{k}"/>\n' for k in places]
        return f"<ModelStructure>\n{''.join(parts)}</ModelStructure>\n"


def _refuse(model: Model, system: System, names: list[str], method: str) -> None:
    """Refuse steps that are not C alone."""
    reason = None
    if TABLES in names:
        reason = "reads tables of this process (paths, height fields, vertices of meshes)"
    elif system.has_meshes:
        reason = "locates contacts of meshes in Python"
    elif system.held:
        reason = "samples a controller"
    elif "memory" in names:
        reason = f"has a multi-step method, {method!r}"
    if reason is not None:
        raise ModelError(
            f"export_fmu of model {model.name!r}: expected a step that is C alone, got one that "
            f"{reason}; leave it out, or take another method",
            name=model.name,
        )


def _sensing(system: System, sensors: tuple[Sensor, ...], dt: float) -> Sensing | None:
    """Return the sensors of a unit, checked; None for none."""
    if not sensors:
        return None
    for sensor in sensors:
        for word in ("noise", "bias", "delay", "resolution"):
            if np.any(np.asarray(getattr(sensor, word, 0.0))):
                raise ModelError(
                    f"sensor {sensor.name!r}: units read sensors without errors at communication "
                    f"points, got {word} {getattr(sensor, word)!r}; add it in the tool that runs "
                    "the unit",
                    name=sensor.name,
                )
    return Sensing(system, sensors, dt)


_SI = {
    "N": {"kg": 1, "m": 1, "s": -2},
    "V": {"kg": 1, "m": 2, "s": -3, "A": -1},
    "ohm": {"kg": 1, "m": 2, "s": -3, "A": -2},
    "H": {"kg": 1, "m": 2, "s": -2, "A": -2},
    **{base: {base: 1} for base in ("kg", "m", "s", "A", "rad")},
    "1": {},
}
"""Base units of units."""


def _exponents(unit: str) -> dict[str, int] | None:
    """Return a unit as powers of base units; None if it is not one unit."""
    found: dict[str, int] = {}
    numerator, *denominators = unit.split("/")
    for sign, part in [(1, numerator), *((-1, part) for part in denominators)]:
        for word in part.split():
            match = re.fullmatch(r"([A-Za-z]+|1)(?:\^(\d))?", word)
            if match is None or match[1] not in _SI:
                return None
            for base, power in _SI[match[1]].items():
                found[base] = found.get(base, 0) + sign * power * int(match[2] or 1)
    return found


def _c_number(value: float) -> str:
    if np.isfinite(value):
        return float(value).hex()
    return "INFINITY" if value > 0.0 else "-INFINITY"
