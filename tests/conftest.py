"""Settings shared by all tests."""

import gc
import os
import signal
import time
import zlib
from collections import Counter

# each worker has a core: threads of the linear algebra behind NumPy, which read this when they are
# loaded, would wait for each other and burn more processor time than they save
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

# jobs in the background of a script ignore Ctrl-C and so do the programs they start: those that
# tests interrupt would run for ever
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Register the profile of tests whose examples take long: half of all unless slow tests run."""
    ours = settings.get_profile(PROFILE)
    part = 2 if config.option.markexpr == "not slow" else 1
    settings.register_profile("few", ours, max_examples=ours.max_examples // part)


def pytest_collection_finish(session):
    """Take the collected tests out of the garbage collector's work.

    Every full collection would visit the objects of some ten thousand tests, which live to the end.
    Traces make many objects and hardly any cycles: collections are rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


BEGIN = pytest.StashKey[float]()
processor_time = Counter()
"""Processor time of tests by directory, child processes included [s]."""
FURTHER = (
    *("contact", "compliant", "terrain", "exact_runs", "friction", "demos"),
    *("load_sharing", "parallel", "identification", "interfaces"),
)
"""Words in paths of tests that have a budget of their own."""


def pytest_addoption(parser):
    """Add an option that measures the budget of CONTRIBUTING.md."""
    parser.addoption(
        "--processor-time", action="store_true", help="sum the processor time of tests by directory"
    )


def processor_clock():
    """Return the processor time of this process and of its children that ended [s]."""
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Note the processor time at which a test begins, before its fixtures are made."""
    item.stash[BEGIN] = processor_clock()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the processor time of a test to its last report, which workers send."""
    report = yield
    if call.when == "teardown":
        spent = processor_clock() - item.stash[BEGIN]
        report.user_properties.append(("processor_time", spent))
    return report


def pytest_runtest_logreport(report):
    """Sum the processor time of a directory."""
    place = report.nodeid.partition("::")[0].split("/")
    directory = place[1] if len(place) > 2 else "tests"
    if any(word in "/".join(place) for word in FURTHER):
        directory = f"({directory})"
    processor_time[directory] += dict(report.user_properties).get("processor_time", 0.0)


def pytest_terminal_summary(terminalreporter, config):
    """Print the processor time by directory."""
    if config.getoption("--processor-time"):
        terminalreporter.section("processor time of tests [s], (of contact and later rooms)")
        for directory, spent in processor_time.most_common():
            terminalreporter.write_line(f"{spent:8.1f}  {directory}")
        first = sum(spent for name, spent in processor_time.items() if not name.startswith("("))
        terminalreporter.write_line(f"{first:8.1f}  all but these")
        terminalreporter.write_line(f"{sum(processor_time.values()):8.1f}  all")


@pytest.fixture(autouse=True)
def own_random_numbers(request):
    """Give each test its own numbers, whichever tests its worker ran before it.

    A module that draws from a generator named RANDOM gets it seeded from the name of the test.
    """
    generator = getattr(request.module, "RANDOM", None)
    if generator is not None:
        seed = zlib.crc32(request.node.name.encode())
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret graphs instead of compiling them, for claims that do not depend on machine code.

    Quicker where functions are called a few times. Robots must be those of the test alone: they
    keep what was made for them.
    """
    monkeypatch.setenv("TIBURON_ENGINE", "interpreter")
