"""A daemon, desired files, and rounds of ``authorizerd sync`` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.cli.change.planning import Planned, make_plan
from authorizerd.cli.main import new_parser
from authorizerd.cli.sync import rounds
from authorizerd.cli.sync.arguments import read_sync_request
from authorizerd.cli.sync.metrics import Status
from authorizerd.cli.sync.rounds import Outcome, Rounds
from authorizerd.management.formats.listing import format_acls
from tests.cli.change.acl_servers import open_server, set_acls
from tests.support.acls import KNOWN_SETTINGS
from tests.support.printed import run_main


class Stage:
    """Files in a folder, and the ACLs of a daemon at an address."""

    def __init__(self, address: str, folder: Path, acls: Iterable[Acl]) -> None:
        self.address = address
        self.folder = folder
        self.desired = folder / "desired.txt"
        self.blocked = folder / "blocked.json"
        self.flags: list[str | Path] = ["--blocked-plan", self.blocked]
        self.set_acls(acls)

    def want(self, acls: Iterable[Acl]) -> None:
        self.desired.write_text(format_acls(acls))

    def set_acls(self, acls: Iterable[Acl]) -> None:
        async def change() -> None:
            async with open_server(self.address) as server:
                await set_acls(server, acls)

        trio.run(change)

    def list_all(self) -> set[Acl]:
        async def read() -> set[Acl]:
            async with open_server(self.address) as server:
                return set((await server.list_acls()).acls.values())

        return trio.run(read)

    @property
    def acls(self) -> set[Acl]:
        """The ACLs without notes."""
        return {acl for acl in self.list_all() if not is_note(acl)}

    def words(self, *flags: str | Path) -> list[str | Path]:
        source = ("--bootstrap-server", self.address, *KNOWN_SETTINGS)
        return ["sync", self.desired, *source, *self.flags, *flags]

    def once(self, *flags: str | Path, code: int = 0) -> list[dict[str, Any]]:
        """Run one round as a command, and return the lines that it logs."""
        printed = run_main(*self.words("--once", *flags), code=code)
        return list(map(json.loads, printed.out.splitlines()))

    def new_rounds(self, *flags: str | Path) -> Patient:
        return Patient(self.words(*flags))


class Patient:
    """Rounds of one process.

    Attributes:
        status: what the metrics are read from.
    """

    def __init__(self, words: list[str | Path]) -> None:
        self.status = Status()
        given = new_parser().parse_words([str(word) for word in words])
        self._rounds = Rounds(read_sync_request(given), self.status)

    def run(self) -> Outcome:
        return self._rounds.run()


def watch_plans(
    monkeypatch: pytest.MonkeyPatch, after: Callable[[], object] = lambda: None
) -> list[Planned]:
    """Return a list of the plans that are made from now on, and call ``after`` after each."""
    made: list[Planned] = []

    def make(*words: Any, **flags: Any) -> Planned:  # noqa: ANN401 - passed on
        made.append(make_plan(*words, **flags))
        after()
        return made[-1]

    monkeypatch.setattr(rounds, "make_plan", make)
    return made
