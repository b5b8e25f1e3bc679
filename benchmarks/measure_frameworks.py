"""Functions of other frameworks against the kernel they call: what the way there costs.

Forward dynamics of an arm on one thread, 4096 states and one, from JAX inside `jit`, from an
operator of PyTorch, and from a mapped function of CasADi against single calls of the kernel; steps
of an exported unit of FMI against those of a stepper. Results must have the bits of the kernel.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

SIZE = 4096
JAX_BATCH, JAX_ONE = 0.87, 15e-6
TORCH_BATCH, TORCH_ONE = 0.8, 60e-6
CASADI_ONE = 0.67
FMU_STEP, FMU_STEPS = 0.5, 1000


def run(duration: float) -> Iterator[Figure]:
    """Measure batches against the kernel, and single calls against a limit.

    Args:
        duration: Time to spend on each side [s].
    """
    yield from _jax(duration)
    yield from _torch(duration)
    yield from _casadi(duration)
    yield from _fmu(duration)


def _states() -> Any:
    import numpy as np

    import tiburon as tb

    arm = tb.load("panda")
    q, v, tau = np.random.default_rng(0).standard_normal((3, SIZE, arm.nv))
    kernel = tb.compile(tb.forward_dynamics, arm)
    out = np.empty((SIZE, arm.nv))
    return arm, (q, v, tau), kernel, lambda: kernel(q, v, tau, threads=1, out=out)


def _jax(duration: float) -> Iterator[Figure]:
    try:
        import jax
    except ImportError:
        return
    import tiburon as tb

    jax.config.update("jax_enable_x64", True)
    arm, given, kernel, ours = _states()
    f = jax.jit(tb.to_jax(tb.forward_dynamics, arm))
    arrays = [jax.numpy.asarray(x) for x in given]
    one = [array[:1] for array in arrays]
    check_equal("to_jax", f(*arrays), kernel(*given), 1e-15)
    times = measure(
        {
            "kernel": ours,
            "jax": lambda: f(*arrays).block_until_ready(),
            "one": lambda: f(*one).block_until_ready(),
        },
        duration=duration,
    )
    kernel_time = times["kernel"].per(SIZE)
    name = f"JAX, jit, {SIZE} states"
    yield Figure(name, times["jax"].per(SIZE), "the kernel", kernel_time, JAX_BATCH)
    yield Figure("JAX, jit, batch of one state", times["one"], must=JAX_ONE)


def _torch(duration: float) -> Iterator[Figure]:
    try:
        import torch
    except ImportError:
        return
    import tiburon as tb

    arm, given, kernel, ours = _states()
    f = tb.to_torch(tb.forward_dynamics, arm, threads=1)
    tensors = [torch.from_numpy(x) for x in given]
    one = [tensor[:1].clone() for tensor in tensors]
    check_equal("to_torch", f(*tensors).numpy(), kernel(*given), 1e-15)
    times = measure(
        {"kernel": ours, "torch": lambda: f(*tensors), "one": lambda: f(*one)}, duration=duration
    )
    kernel_time = times["kernel"].per(SIZE)
    name = f"PyTorch, operator, {SIZE} states"
    yield Figure(name, times["torch"].per(SIZE), "the kernel", kernel_time, TORCH_BATCH)
    yield Figure("PyTorch, operator, batch of one state", times["one"], must=TORCH_ONE)


def _casadi(duration: float) -> Iterator[Figure]:
    try:
        import casadi
        import ziglang  # noqa: F401
    except ImportError:
        return
    import numpy as np

    import tiburon as tb

    arm, given, kernel, _ = _states()
    f = tb.to_casadi(tb.forward_dynamics, arm)
    mapped = f.map(SIZE)
    columns = [casadi.DM(x.T) for x in given]
    check_equal("to_casadi", np.array(mapped(*columns)).T, kernel(*given), 1e-15)
    buffer, evaluate = mapped.buffer()
    inputs = [np.ascontiguousarray(x).ravel() for x in given]
    result = np.empty(SIZE * arm.nv)
    for k, x in enumerate(inputs):
        buffer.set_arg(k, memoryview(x))
    buffer.set_res(0, memoryview(result))
    evaluate()
    check_equal("to_casadi", result.reshape(SIZE, arm.nv), kernel(*given), 1e-15)
    one, out = [x[0].copy() for x in given], np.empty(arm.nv)
    times = measure(
        {"kernel": lambda: kernel(*one, out=out), "casadi": evaluate}, duration=duration
    )
    name = f"CasADi, map of {SIZE} states, per state"
    yield Figure(
        name, times["casadi"].per(SIZE), "a call of the kernel", times["kernel"], CASADI_ONE
    )


def _fmu(duration: float) -> Iterator[Figure]:
    try:
        import fmpy
        import ziglang  # noqa: F401
    except ImportError:
        return
    import numpy as np

    import tiburon as tb

    arm = tb.load("panda")
    dt = 1e-3
    interval = FMU_STEPS * dt
    with tempfile.TemporaryDirectory() as folder:
        path = tb.export_fmu(arm, f"{folder}/arm.fmu", method=tb.RK4(dt=dt))
        description = fmpy.read_model_description(str(path))
        unit = fmpy.fmi2.FMU2Slave(
            guid=description.guid,
            unzipDirectory=fmpy.extract(str(path), f"{folder}/unit"),
            modelIdentifier=description.coSimulation.modelIdentifier,
        )
        unit.instantiate()
        unit.setupExperiment(startTime=0.0)
        unit.enterInitializationMode()
        unit.exitInitializationMode()
        arms = tb.stepper(arm, method=tb.RK4(dt=dt), substeps=FMU_STEPS)
        start = arms.start(cases=1)
        first = unit.getFMUState()
        out = arms.step(start)
        unit.doStep(0.0, interval)
        places = [v.valueReference for v in description.modelVariables if "position." in v.name]
        found = np.array(unit.getReal(places[: arm.nq]))
        check_equal("export_fmu", found, out.state.q[0], 1e-15)

        def advance() -> None:
            unit.setFMUState(first)
            unit.doStep(0.0, interval)

        times = measure(
            {"stepper": lambda: arms.step(start, out=out), "unit": advance}, duration=duration
        )
        name = f"FMI 2.0 unit of panda, RK4 step, {FMU_STEPS} a call"
        yield Figure(
            name,
            times["unit"].per(FMU_STEPS),
            "the step of a stepper",
            times["stepper"].per(FMU_STEPS),
            FMU_STEP,
        )
        unit.terminate()
        unit.freeInstance()


MEASUREMENT = Measurement(
    "frameworks", "Forward dynamics from JAX, PyTorch and CasADi; FMI; one thread", run, place=27
)
