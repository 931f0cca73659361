from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("authorizerd", deadline=None)  # timings never decide a test
settings.load_profile("authorizerd")

REAL_LOG = Path(__file__).parent / "data" / "kafka-4.3.1.tar.xz"


@pytest.fixture(scope="session")
def real_log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory that an Apache Kafka 4.3.1 broker wrote; copy it before changing a file.

    Beside ``__cluster_metadata-0`` stand ``acls-list.txt``, what ``kafka-acls --list`` printed at
    the log's end, and ``kafka-authorizer.log.xz``, the broker's audit log.
    """
    unpacked = tmp_path_factory.mktemp("real")
    with tarfile.open(REAL_LOG) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked / "kafka-4.3.1"
