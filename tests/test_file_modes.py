"""The modes of the files, folders and sockets that the daemon and its commands create."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from authorizerd.cli.main import main
from authorizerd.cli.shell.conversation import write_history
from authorizerd.daemon.audit.file import AuditFile, AuditLock
from authorizerd.daemon.net.binding import bind_unix
from authorizerd.daemon.telemetry.ready_file import ReadyFile, write_ready_file
from authorizerd.management.formats.listing import format_acls
from authorizerd.replay.text import write_file
from tests.support.acls import acl
from tests.support.copies import open_copy
from tests.support.log_files import added, write_log

ALICE = acl("User:alice", "READ", topic="orders")
UMASKS = (0, 0o077)
ANY_UMASK = frozenset({"socket"})
"""Files whose mode does not depend on the umask: clients in the socket's group must reach it."""


def ready_file(folder: Path) -> None:
    write_ready_file(folder / "ready.json", ReadyFile({}, "", None, "", None, 0))


def audit_log(folder: Path) -> None:
    AuditFile(str(folder / "audit.log"), AuditLock()).close()


def unix_socket(folder: Path) -> None:
    async def bind() -> None:
        for listener in (await bind_unix(folder / "socket", "key")).listen():
            await listener.aclose()

    trio.run(bind)


def copy_of_a_log(folder: Path) -> None:
    open_copy(folder / "copy").close()


def history_of_the_shell(folder: Path) -> None:
    write_history(folder / "state" / "authorizerd" / "shell_history", ["ls"])


def command(*words: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        code = main([each.format(new=folder) for each in words])
        assert code in (0, 10)  # 10: a plan that changes something

    run.__name__ = " ".join(words[:2])
    return run


PLAN = ("acls", "plan", "acls.txt", "--acls", "none.txt", "--super-users=")
TESTS = ("test", "tests.yaml", "--acls", "acls.txt")
CREATED: list[tuple[Callable[[Path], None], dict[str, int]]] = [
    (ready_file, {"ready.json": 0o644}),
    (audit_log, {"audit.log": 0o640}),
    (unix_socket, {"socket": 0o660}),
    (copy_of_a_log, {"copy": 0o700, "copy/copy.properties": 0o600}),
    (history_of_the_shell,
     {"state": 0o700, "state/authorizerd": 0o700, "state/authorizerd/shell_history": 0o600}),
    (command("format", "--config", "own.properties", "--override", "log.dirs={new}/log"),
     {"log": 0o750, "log/meta.properties": 0o640, "log/__cluster_metadata-0": 0o750}),
    (command("import-config", "broker.properties", "--output", "{new}/made"), {"made": 0o600}),
    (command("backup", "--log-dir", "log", "{new}/backup"),
     {"backup": 0o600, "backup.sha256": 0o600}),
    (
        command("token", "--principal", "User:a", "--append", "{new}/tokens"),
        {"tokens": 0o644},  # hashes of tokens, and no token
    ),
    (command("acls", "export", "--log-dir", "log", "--to", "{new}/acls.yaml"),
     {"acls.yaml": 0o664}),
    (command(*PLAN, "--out", "{new}/plan.json"), {"plan.json": 0o664}),
    (command(*TESTS, "--junit", "{new}/junit.xml"), {"junit.xml": 0o664}),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_log(folder / "log", [added(1, ALICE)])
    texts = {
        "acls.txt": format_acls([ALICE]),
        "none.txt": format_acls([]),
        "tests.yaml": "tests: [alice may READ topic orders]",
        "own.properties": "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\n",
        "broker.properties": (
            "process.roles=broker\nnode.id=1\ncontroller.quorum.bootstrap.servers=c1:9093\n"
            "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092\n"
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
@pytest.mark.parametrize(
    ("create", "modes"), CREATED, ids=lambda each: getattr(each, "__name__", "")
)
def test_what_is_created_has_a_safe_mode(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: Callable[[Path], None],
    modes: dict[str, int], mask: int,
) -> None:  # fmt: skip
    """A stricter umask is kept, but no umask lets everyone write, or others read secrets."""
    monkeypatch.chdir(inputs)
    before = os.umask(mask)
    try:
        create(tmp_path)
    finally:
        os.umask(before)
    found = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.lstat().st_mode)
        for path in tmp_path.rglob("*")
    }
    expected = {name: mode if name in ANY_UMASK else mode & ~mask for name, mode in modes.items()}
    assert found.items() >= expected.items()
    assert [name for name, mode in found.items() if mode & stat.S_IWOTH] == []


EXPORT = ("acls", "export", "--log-dir", "log", "--overwrite", "--to")
CHECKPOINT = "00000000000000000009-0000000001.checkpoint"


def result_of_replay(folder: Path) -> None:
    write_file(folder / "result.json", "{}")


@pytest.mark.parametrize(("replace", "name"), [
    (command(*EXPORT, "{new}/acls.yaml"), "acls.yaml"),
    (command(*EXPORT, f"{{new}}/{CHECKPOINT}"), CHECKPOINT),
    (command(*PLAN, "--out", "{new}/plan.json"), "plan.json"),
    (result_of_replay, "result.json"),
])  # fmt: skip
def test_what_replaces_a_file_has_its_mode(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: Callable[[Path], None],
    name: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(inputs)
    before = os.umask(0)
    try:
        replace(tmp_path)
        (tmp_path / name).chmod(0o600)
        replace(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
