"""Functions of other frameworks against the kernel they call: what the way there costs.

Forward dynamics of an arm on one thread, 4096 states and one, from JAX inside `jit` and from an
operator of PyTorch. Results must have the bits of the kernel.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

SIZE = 4096
JAX_BATCH, JAX_ONE = 0.87, 15e-6
TORCH_BATCH, TORCH_ONE = 0.8, 60e-6


def run(duration: float) -> Iterator[Figure]:
    """Measure batches against the kernel, and single calls against a limit.

    Args:
        duration: Time to spend on each side [s].
    """
    yield from _jax(duration)
    yield from _torch(duration)


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


MEASUREMENT = Measurement(
    "frameworks", "Forward dynamics from JAX and PyTorch, one thread", run, place=26
)
