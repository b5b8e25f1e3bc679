"""Settings shared by all tests."""

import gc
import os
import signal
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# the same examples on every run and machine: a red test is a change, not bad luck;
# no deadline, because the first example may pay for a compilation
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
# HYPOTHESIS_PROFILE=search looks for new counterexamples
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# jobs in the background of a script ignore Ctrl-C and so do the programs they start: those that
# tests interrupt would run for ever
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session):
    """Take the collected tests out of the garbage collector's work.

    Every full collection would visit the objects of some ten thousand tests, which live to the end.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_random_numbers(request):
    """Give each test its own numbers, whichever tests its worker ran before it.

    A module that draws from a generator named RANDOM gets it seeded from the name of the test.
    """
    generator = getattr(request.module, "RANDOM", None)
    if generator is not None:
        seed = zlib.crc32(request.node.name.encode())
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
