"""The commands of docs/zookeeper.md print what the page shows, with a scripted ZooKeeper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.management.zookeeper.export import Target, list_parents
from authorizerd.management.zookeeper.paths import Pattern, pattern_path
from authorizerd.management.zookeeper.znode import write_acls
from tests.end_to_end.documents import ROOT, blocks_of, commands_of
from tests.support.acls import acl
from tests.support.scripted_zookeeper import running_zookeeper

PAGE = ROOT / "docs" / "zookeeper.md"
SERVERS = "zk1:2181,zk2:2181"
OURS = "authorizerd "
ACLS = (
    acl("User:alice", topic="orders"),
    acl("User:alice", group="billing"),
    acl("User:bob", "WRITE", topic="pay-", pattern="PREFIXED", deny=True),
)


def run(text: str, capfd: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """Return what a command prints, and its exit code. Ours run in this process."""
    words = text.partition("#")[0].split()
    if text.startswith(OURS):
        try:
            code = main(words[1:])
        except SystemExit as end:
            code = int(str(end.code))
    else:
        code = subprocess.run(words, check=False).returncode
    return "".join(capfd.readouterr()).strip("\n"), code


def test_commands_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    with running_zookeeper() as server:
        for chroot in ("/kafka", "/old"):
            for path in list_parents(Target().oldest):
                server.put(chroot + path)
        for each in ACLS:
            server.put("/kafka" + pattern_path(Pattern.of(each)), write_acls([each]))
        for block in blocks_of(PAGE):
            if block.language != "console":
                continue
            for command in commands_of(block.text):
                printed, code = run(command.text.replace(SERVERS, server.address), capfd)
                printed = printed.replace(server.address, SERVERS)
                assert code == command.exit_code, (command.text, printed)
                if not command.matches(printed):
                    assert printed == command.shown, command.text
                ran += 1
    assert ran >= 10
