from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import pytest

from tests.clients.tls_peer import write_certificates
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.log_files import added, write_log


@pytest.fixture(scope="session")
def prepared_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory in which User:alice may read the topics orders and topic-0, 2, 4, …

    Tests copy it: a copy takes less time than formatting one.
    """
    log_dir = new_log(tmp_path_factory.mktemp("prepared"))
    acls = [
        acl("User:alice", "READ", topic="orders"),
        *(acl("User:alice", "READ", topic=f"topic-{number}") for number in range(0, 1000, 2)),
    ]
    write_log(log_dir, [added(number, each) for number, each in enumerate(acls)])
    return log_dir


def require_tokens(folder: Path) -> dict[str, str]:
    """Return the settings of a daemon that requires tokens.

    The token ``proxy.secret`` may ask about everybody, ``self.secret`` only about User:self.
    """
    tokens = folder / "tokens"
    digest = sha256(b"secret").hexdigest()
    tokens.write_text(f"proxy {digest} User:proxy\nself {digest} User:self\n")
    return {"authorizerd.tokens.file": str(tokens), "authorizerd.callers.ask": "User:proxy"}


# Not for the session: a later test measures the CPU time of pytest's children.
@pytest.fixture(scope="module")
def token_daemon(
    tmp_path_factory: pytest.TempPathFactory, prepared_log: Path
) -> Iterator[DaemonProcess]:
    """A daemon with the settings of ``require_tokens``."""
    folder = tmp_path_factory.mktemp("daemon")
    config = require_tokens(folder) | {"authorizerd.update.timeout.ms": "300"}
    with running(folder, Path(copytree(prepared_log, folder / "log")), config) as daemon:
        yield daemon


@pytest.fixture
def log_dir(tmp_path: Path, prepared_log: Path) -> Path:
    return Path(copytree(prepared_log, tmp_path / "log"))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates that ``write_certificates`` names."""
    return write_certificates(tmp_path_factory.mktemp("certificates"))
