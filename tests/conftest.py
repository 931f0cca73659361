from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.daemon_process import DaemonProcess, new_log, running

settings.register_profile("authorizerd", deadline=None)  # timings never decide a test
settings.load_profile("authorizerd")

REAL_LOG = Path(__file__).parent / "data" / "kafka-4.3.1.tar.xz"


@pytest.fixture(scope="session")
def real_log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack a log directory that an Apache Kafka 4.3.1 broker wrote. Change only copies of it.

    It also has ``acls-list.txt``, the output of ``kafka-acls --list`` at the end of the log, and
    ``kafka-authorizer.log.xz``, the broker's audit log.
    """
    unpacked = tmp_path_factory.mktemp("real")
    with tarfile.open(REAL_LOG) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked / "kafka-4.3.1"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Run a daemon on an empty log; clients without a login may do anything."""
    with running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon:
        yield daemon
