"""Settings shared by all tests."""

import os

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
