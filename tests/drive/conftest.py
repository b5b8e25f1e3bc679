"""A running robot, and the servers in front of it."""

import pytest

from tests.drive.serving import Served
from tests.drive.vehicles import rov
from tiburon.drive.servers import AccessControl


@pytest.fixture(scope="module")
def drive():
    """A vehicle that runs against the wall clock."""
    with rov() as made:
        made.ticker.paused = False
        yield made


@pytest.fixture
def served(drive):
    """New servers for each test, with a token: attacks leave connections behind."""
    made = Served(drive, AccessControl(token="secret"))
    yield made
    made.close()
    drive.release()
