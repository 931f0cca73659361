"""Run the commands of README.md and docs/*.md against a real daemon, and compare the output."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from authorizerd.config.configuration import parse
from tests.end_to_end.documents import ROOT, Block, all_blocks, blocks_of, commands_of
from tests.end_to_end.example_daemon import ExampleDaemon, beside, running_example
from tests.end_to_end.page_shell import SECONDS_MAX, SERVE, check, save_files

BLOCKS: Final = all_blocks()
RUN: Final = [block for block in BLOCKS if block.reason is None and block.test is None]
NO_CODE: Final = ("yaml", "dockerfile", "json")
"""Languages of blocks that are not run: other tests check the files and answers they quote."""
PROGRAMS: Final = ("python", "js", "java", "go", "bash")
"""Languages of the programs that tests/clients/test_page.py runs."""
OPTIONAL: Final = ("node", "promtool")
"""Programs without which a block is not run."""


def is_whole(block: Block) -> bool:
    """Return True if a block is a complete configuration."""
    return block.language == "properties" and "node.id=" in block.text


FindDaemon = Callable[[Block], ExampleDaemon]


@pytest.fixture(scope="module")
def find_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FindDaemon]:
    """Return a function that finds the daemon of a block, or starts it the first time."""
    daemons: dict[tuple[str, str], ExampleDaemon] = {}
    with ExitStack() as stack:

        def find(block: Block) -> ExampleDaemon:
            key = (block.settings, block.daemon)
            if key not in daemons:
                folder = tmp_path_factory.mktemp("document")
                settings = block.settings.split()
                daemons[key] = stack.enter_context(running_example(folder, settings))
                save_files(RUN, folder, daemons[key].ports)
            return daemons[key]

        yield find


def of_language(language: str) -> pytest.MarkDecorator:
    """Select these blocks, but no file for a client, such as one with authentication."""
    blocks = [
        block
        for block in RUN
        if block.language == language and (block.file is None or is_whole(block))
    ]
    return pytest.mark.parametrize("block", blocks, ids=lambda block: block.place)


@of_language("console")
def test_console_block_prints_what_it_shows(block: Block, find_daemon: FindDaemon) -> None:
    """Every command also ends with the exit code that the block states, or 0."""
    daemon = find_daemon(block)
    reloads = 0
    with daemon.shell() as shell:
        for command in commands_of(block.text):
            if command.text.startswith(SERVE):
                shell.serve(beside(daemon, command.text))
                continue
            program = command.text.split()[0]
            if program in OPTIONAL and shutil.which(program) is None:
                pytest.skip(f"no {program}")
            check(command, shell, daemon.ports, daemon.printed)
            if "kill -HUP" in command.text:
                reloads += 1
                daemon.wait_for_reload(reloads)


@of_language("properties")
def test_properties_block_is_a_valid_configuration(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its keys must be known. Required keys are added to a partial block."""
    for name in re.findall(r"\$\{env:(\w+)\}", block.text):
        monkeypatch.setenv(name, "secret")
    text = block.text if is_whole(block) else f"node.id=1\nlog.dirs=log\n{block.text}"
    assert not parse(text, source=block.place).ignored_keys


def test_daemon_answers_as_in_the_stream_example(find_daemon: FindDaemon) -> None:
    """Send the client's bytes in docs/stream.md, and expect the daemon's bytes there."""
    page = (ROOT / "docs/stream.md").read_text()
    frames = re.findall(r"^(client|daemon)((?:\s+[0-9a-f]{2}\b)+)$", page, re.MULTILINE)
    assert [side for side, _ in frames] == ["client", "daemon"] * 2
    plain = Block(place="", language="", text="")
    port = int(find_daemon(plain).ports.to_real(":8183").removeprefix(":"))
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
        for side, digits in frames:
            data = bytes.fromhex(digits)
            if side == "client":
                connection.sendall(data)
                continue
            received = b""
            while len(received) < len(data) and (more := connection.recv(65536)):
                received += more
            assert received.hex(" ") == data.hex(" ")


def test_every_block_is_run_or_has_a_reason() -> None:
    """A block in another language or without commands needs a marker."""
    for block in RUN:
        if block.file is not None:
            continue
        others = PROGRAMS if block.place.startswith("docs/clients.md:") else NO_CODE
        assert block.language in ("console", "properties", *others), block.place
        if block.language == "console":
            commands_of(block.text)
    for block in BLOCKS:
        assert block.reason is None or len(block.reason) > 5, block.place
        if block.test is not None:
            page = Path(block.place.partition(":")[0]).name
            assert page in (ROOT / block.test).read_text(), block.place
    assert len([block for block in RUN if block.language == "console"]) >= 5
    files = [block.file for block in RUN if block.file is not None]
    assert len({*files}) == len(files)


def test_markers_and_commands_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker must be directly above its block."""
    monkeypatch.setattr("tests.end_to_end.documents.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs root -->\n```console\n$ a\n```\n"
        "<!-- not run: needs root -->\n\n```console\n"
        "$ b \\\n  -c   # exit code 3: no\nd…f\n\n$ g\n```\n"
        "<!-- run with: x=1 y=2 -->\n```console\nno command\n```\n"
        "<!-- own daemon: plans -->\n```console\n$ k\n```\n"
        "1. In a list:\n\n    <!-- run with: z=3 -->\n    ```console\n    $ h\n      i\n    ```\n"
        "<!-- file: a.py -->\n```python\npass\n```\n"
        "<!-- run by: tests/a.py -->\n```console\n$ j\n```\n"
        "<!-- file: b.js, run by: tests/b.py -->\n```js\n;\n```\n"
    )
    first, second, third, own, fourth, fifth, sixth, seventh = blocks_of(page)
    assert (first.reason, second.reason, third.reason) == ("needs root", None, None)
    assert (first.place, second.place) == ("page.md:2", "page.md:7")
    assert (third.settings, third.daemon) == ("x=1 y=2", "")
    assert (own.settings, own.daemon) == ("", "page.md: plans")
    assert (fifth.file, fifth.text) == ("a.py", "pass\n")
    assert (sixth.test, sixth.file, sixth.reason) == ("tests/a.py", None, None)
    assert (seventh.test, seventh.file, seventh.reason) == ("tests/b.py", "b.js", None)
    assert (fourth.settings, fourth.text) == ("z=3", "$ h\n  i\n")
    one, two = commands_of(second.text)
    assert (one.shown, one.exit_code) == ("d…f", 3)
    assert (two.text, two.shown, two.exit_code) == ("g", "", 0)
    assert one.matches("d\ne\nf")
    assert not one.matches("d e")
    with pytest.raises(ValueError, match="begins with"):
        commands_of(third.text)
