from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from tests.clients.python_clients import CLIENTS, AnyClient, NewClient
from tests.clients.remote_clients import REMOTE
from tests.clients.tls_peer import TlsFiles, write_certificates
from tests.daemon.decision_place import entry
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
    tokens.write_text(entry("proxy", "User:proxy") + entry("self", "User:self"))
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


ALL_CLIENTS = CLIENTS | REMOTE
"""All client libraries, by their names."""


@pytest.fixture(params=ALL_CLIENTS)
async def new_client(request: pytest.FixtureRequest) -> AsyncIterator[NewClient]:
    """Return what makes clients of one library, which are closed after the test."""
    clients: list[AnyClient] = []

    def new(*arguments: object, **options: object) -> AnyClient:
        if isinstance(tls := options.get("tls"), TlsFiles) and request.param in CLIENTS:
            options["tls"] = tls.new_context()
        clients.append(ALL_CLIENTS[request.param](*arguments, **options))
        return clients[-1]

    yield new
    for client in clients:
        client.close()


in_python = pytest.mark.parametrize("new_client", CLIENTS, indirect=True)
"""Runs a test with the Python clients only."""


@contextmanager
def daemon_with_tokens(
    folder: Path, more: dict[str, str] | None = None, **settings: str
) -> Iterator[DaemonProcess]:
    """Run a daemon for the holders of ``root.secret``, a super user, and ``other.secret``."""
    tokens = folder / "tokens"
    tokens.write_text(entry("root", "User:root") + entry("other", "User:other"))
    log_dir = folder / "log" if (folder / "log").exists() else new_log(folder)
    users = {"super.users": "User:ANONYMOUS;User:root", "authorizerd.tokens.file": str(tokens)}
    with running(folder, log_dir, users | (more or {}), **settings) as daemon:
        yield daemon
