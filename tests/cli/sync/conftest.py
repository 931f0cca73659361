from collections.abc import Iterator

import pytest

from tests.support.daemon_process import DaemonProcess, new_log, running


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("sync")
    with running(folder, new_log(folder), super_users="User:ANONYMOUS") as daemon:
        yield daemon
