"""The time until a server decides by a new ACL, with servers in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from authorizerd.acl.model import Acl
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.rig import RigError
from tools.bench import visibility
from tools.bench.visibility import time_visibility


class Server:
    """A server that allows after a number of questions that follow the creation."""

    def __init__(self, questions: float) -> None:
        self.created: set[str] = set()
        self._left: dict[str, float] = {}
        self._questions = questions

    def may_describe(self, topic: str) -> bool:
        if topic not in self.created:
            return False
        self._left[topic] = self._left.get(topic, self._questions) - 1
        return self._left[topic] < 0


class Creator:
    def __init__(self, *servers: Server) -> None:
        self._servers = servers

    def create(self, acls: Sequence[Acl]) -> None:
        for server in self._servers:
            server.created |= {acl.resource_name for acl in acls}


def times_ms(*servers: Server, samples: int = 3) -> list[list[float]]:
    creator = cast(Admin, Creator(*servers))
    return time_visibility(creator, [cast(Admin, each) for each in servers], "u", samples)


def test_slower_server_has_longer_times() -> None:
    fast, slow = times_ms(Server(0), Server(40))
    assert len(fast) == len(slow) == 3
    assert slow == sorted(slow)
    assert min(slow) > 40 * visibility.POLL_SECONDS * 1000


def test_server_that_allows_everyone_is_not_measured() -> None:
    server = Server(0)
    server.created = {"visible-000000"}
    with pytest.raises(RigError, match="before its ACL was created"):
        times_ms(server)


def test_server_that_never_allows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "SECONDS_MAX", 0.01)
    with pytest.raises(RigError, match="no permission for visible-000000"):
        times_ms(Server(float("inf")))
