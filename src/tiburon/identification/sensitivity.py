"""Predictions of measured runs, and their exact derivatives by parameters.

The step of a run is a program; its derivative along a direction of state and parameters is a
program, too (`forward_derivative`), compiled as any other. A case of a batch is one run and one
parameter: it carries the state and its derivative. Parameters of the compiled step follow from
named ones by sums and products of at most two of them, whose derivatives central differences give
without truncation error.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.defaults import as_elements
from tiburon.actuation.prescribed import cases_of, prescribed_motions
from tiburon.arrays import Array
from tiburon.errors import TiburonError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.parameter_derivatives import DIFFERENCE, table_changes
from tiburon.identification.measured import MeasuredRun
from tiburon.model import Model, World
from tiburon.model.parameters import component_places
from tiburon.simulation.execution import Execution, checked_execution
from tiburon.simulation.integrators.integrator import Integrator
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.run_parameters import VariedRun, parameters, vary_run
from tiburon.simulation.step import StepSource
from tiburon.simulation.system import System
from tiburon.trace.derivative import forward_derivative

WIDTHS = (7, 6)
"""Position and velocity variables of a free base."""


def parameter_value(known: Mapping[str, Any], name: str) -> float | None:
    """Return the present value of a scalar parameter or component; None if there is none."""
    if name in known:
        value = np.asarray(known[name].value, dtype=np.float64)
        return float(value) if value.ndim == 0 else None
    whole, places = component_places(name, known)
    return float(np.asarray(known[whole].value)[places[0]]) if places else None


class Prediction(NamedTuple):
    """Predicted runs at all steps, with derivatives by the parameters."""

    q: Array
    """Configuration of the base, quaternion first, shape (steps + 1, runs, 7)."""

    v: Array
    """Velocity of the base, shape (steps + 1, runs, 6)."""

    dq: Array
    """Its derivatives, shape (steps + 1, runs, parameters, 7)."""

    dv: Array
    """Its derivatives, shape (steps + 1, runs, parameters, 6)."""


class RunPredictor:
    """Predicts measured runs of a vehicle whose joints follow their measured paths."""

    def __init__(
        self,
        model: Model,
        runs: Sequence[MeasuredRun],
        names: Sequence[str],
        *,
        world: World,
        elements: Sequence[Any] = (),
        method: Integrator,
        smoothing: float,
        trim: float | None,
        execution: Execution | None,
    ) -> None:
        """Prepare the runs.

        Args:
            model: The robot, on a free base.
            runs: The runs.
            names: Scalar parameters by which predictions are differentiated.
            world: Surroundings.
            elements: Elements beside the robot's own.
            method: A one-step integrator with equal steps.
            smoothing: As `MeasuredRun.joint_path` takes it.
            trim: Time at the start over which the mean measured attitude is an equilibrium, by one
                constant moment per run [s]; None for no moment.
            execution: Most threads to use, by an `Execution`.
        """
        self.model, self.world, self.names = model, world, tuple(names)
        self.runs, self.dt, self.trim = tuple(runs), method.dt, trim
        carried = checked_execution(execution, ("threads",), "identification")
        self.threads = carried.threads
        joints = sorted({name for run in runs for name in run.joints or {}})
        self.paths = [
            run.joint_path(joints, smoothing=smoothing) if joints else None for run in runs
        ]
        given = {}
        for name in joints:
            given[name] = [path.of(name) for path in self.paths if path is not None]
        motions = prescribed_motions(model, given)
        self._cases = cases_of(motions) if len(runs) > 1 else {}
        self._elements = (*as_elements(elements), *motions)
        self._bare = model.without_passive().without_limits().without_servos()
        self.known = parameters(self._bare, world=world, elements=self._elements)
        self.count = max(len(run.time) for run in runs) - 1
        start = [parameter_value(self.known, name) or 0.0 for name in names]
        varied = self._varied(np.array(start)[:, None])
        self.system = System(varied.model, varied.world, varied.elements, steps=True)
        # rows that follow from the parameters; numbers of paths do not
        self._rows = [name for name in varied.rows if name != ELEMENTS]
        self._source = StepSource(self.system, method.scheme)

    @cached_property
    def _plain(self) -> Any:
        """Kernel of a step."""
        from tiburon.native.kernel import make_kernel

        return make_kernel(self._source, self.system.parameters(), part="many")

    @cached_property
    def _kernel(self) -> Any:
        """Kernel of a step and its derivative along a direction of state and parameters."""
        from tiburon.native.kernel import ProgramSource, make_kernel

        by = ["q", "v", "u", *self._rows]
        program = forward_derivative(self._source.program(), by=by, values=True)
        return make_kernel(ProgramSource(program), self.system.parameters(), part="many")

    def _varied(self, values: Array) -> VariedRun:
        """Return the run of parameters, shape (parameters, cases)."""
        named = {name: np.asarray(x) for name, x in zip(self.names, values, strict=True)}
        named = {name: x[0] if x.size == 1 else x for name, x in named.items()}
        return vary_run(self._bare, self.world, self._elements, None, named)

    def feasible(self, values: Array) -> bool:
        """Return whether a robot may have these values: no mass or drag below zero, and so on."""
        try:
            self._varied(values[:, None])
        except TiburonError:
            return False
        return True

    def rows(self, values: Array, scale: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return parameters of the compiled step, and their derivatives, shape (parameters, k)."""
        return table_changes(self._lowered, self.feasible, values, scale)

    def _lowered(self, table: Array) -> dict[str, Array]:
        """Return the parameters of the compiled step in all cases."""
        rows = self._varied(table).rows
        return {name: np.asarray(rows[name]) for name in self._rows}

    def start(self, values: Array) -> tuple[Array, Array, Array]:
        """Return q, v and trimming joint forces at the start, shape (runs, ...)."""
        model = self.model
        q, v = (np.stack(x) for x in zip(*(run.start(model) for run in self.runs), strict=True))
        for k, path in enumerate(self.paths):
            if path is not None:
                now = path.at(float(self.runs[k].time[0]))
                q[k, model.indices(path.joints, of="q")] = now.position
                v[k, model.indices(path.joints, of="v")] = now.velocity
        return q, v, self.moments(values)

    def moments(self, values: Array) -> Array:
        """Return constant joint forces that balance each run at its start, shape (runs, nv)."""
        model = self.model
        found = np.zeros((len(self.runs), model.nv))
        if self.trim is None:
            return found
        poses = np.stack([self._resting(k) for k in range(len(self.runs))])
        zero = np.zeros((len(self.runs), model.nv))
        named = dict(zip(self.names, map(float, values), strict=True))
        whole = inverse_dynamics(model, poses, zero, zero, world=self.world, parameters=named)
        # moments about the level axes of the body: roll and pitch
        found[:, :2] = whole[:, :2]
        return found

    def _resting(self, k: int) -> Array:
        """Return the mean pose of a run over its first seconds."""
        run, model = self.runs[k], self.model
        first = run.time <= run.time[0] + (self.trim or 0.0)
        q = np.array(model.neutral(), dtype=np.float64)
        assert run.quaternion is not None
        mean = run.quaternion[first].mean(axis=0)
        q[:4] = mean / np.linalg.norm(mean)
        path = self.paths[k]
        if path is not None:
            times = run.time[first]
            q[model.indices(path.joints, of="q")] = path.at(times).position.mean(axis=0)
        return q

    def predict(self, values: Array, scale: Array, *, derivatives: bool = True) -> Prediction:
        """Predict all runs.

        Args:
            values: The parameters.
            scale: Size of a change of each of them.
            derivatives: Whether to compute derivatives; without, those arrays are empty.
        """
        model, runs = self.model, len(self.runs)
        count = len(values) if derivatives else 1
        # the longest run first, so that those that still go on are the first ones
        order = np.argsort([-len(run.time) for run in self.runs], kind="stable")
        lengths = np.array([len(self.runs[k].time) - 1 for k in order])
        rows, changes = self.rows(values, scale) if derivatives else (self._one(values), {})

        def spread(x: Array) -> Array:
            return np.ascontiguousarray(np.repeat(x[order], count, axis=0))

        q, v, force = self.start(values)
        u = np.zeros((runs, self.system.drive_size))
        u[:, : model.nv] = force
        state, held = [spread(q), spread(v)], spread(u)
        per_case = {name: spread(x) for name, x in self._per_case().items()}
        tangents: list[Array] = []
        extra: list[Array] = []
        if derivatives:
            tangents = [np.zeros((runs * count, k)) for k in (model.nq, model.nv)]
            du = np.zeros((runs, count, self.system.drive_size))
            du[..., : model.nv] = self._moment_changes(values, scale)
            extra = [np.ascontiguousarray(du[order].reshape(runs * count, -1))]
            extra += [np.ascontiguousarray(np.tile(x, (runs, 1))) for x in changes.values()]
        found = [np.full((self.count + 1, runs, k), np.nan) for k in WIDTHS]
        rates = [
            np.full((self.count + 1, runs, count if derivatives else 0, k), np.nan) for k in WIDTHS
        ]

        def keep(step: int, going: int) -> None:
            for target, x in zip(found, state, strict=True):
                target[step, order[:going]] = x[::count, : target.shape[-1]]
            for wide, x in zip(rates, tangents, strict=False):
                part = x[:, : wide.shape[-1]].reshape(going, *wide.shape[2:])
                wide[step, order[:going]] = part

        keep(0, runs)
        for step in range(self.count):
            going = int(np.count_nonzero(lengths > step))
            if not going:
                break
            size = going * count
            clock = np.array([0.0, self.dt, self.dt, float(step)])
            bound = {**rows, **{name: x[:size] for name, x in per_case.items()}}
            given = [x[:size] for x in (*state, held)]
            if derivatives:
                along = [x[:size] for x in (*tangents, *extra)]
                answer = self._kernel(*given, clock, *along, threads=self.threads, **bound)
                state, tangents = list(answer[:2]), list(answer[2:4])
            else:
                state = list(self._plain(*given, clock, threads=self.threads, **bound))
            keep(step + 1, going)
        return Prediction(*found, *rates)

    def _moment_changes(self, values: Array, scale: Array) -> Array:
        """Return the derivatives of `moments`, shape (runs, parameters, nv)."""
        found = np.zeros((len(self.runs), len(values), self.model.nv))
        if self.trim is None:
            return found
        for k in range(len(values)):
            step = DIFFERENCE * scale[k] * (np.arange(len(values)) == k)
            # weights and buoyancy enter linearly, so that a step to one side is exact
            up = self.moments(values + step) - self.moments(values)
            found[:, k] = up / (DIFFERENCE * scale[k])
        return found

    def _one(self, values: Array) -> dict[str, Array]:
        rows = self._varied(values[:, None]).rows
        return {name: np.asarray(rows[name]) for name in self._rows}

    def _per_case(self) -> dict[str, Array]:
        """Return run-time parameters of elements in each run: the numbers of their paths."""
        if not self._cases:
            return {}
        numbers = []
        for k in range(len(self.runs)):
            row: list[float] = []
            for element in self.system.elements:
                own = list(element.parameters())
                if f"{element.name}.case" in self._cases:
                    own = [float(k)]
                row += own
            numbers.append(row)
        return {ELEMENTS: np.array(numbers)}
