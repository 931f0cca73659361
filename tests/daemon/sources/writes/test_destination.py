"""Where changes go, and what counts as read, for both kinds of sources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.daemon.sources.writes.destination import BrokersDestination, QuorumDestination
from authorizerd.kafka_client.address import Address
from tests.support.acls import acl

NODE = Address("node", 9093)


class Source:
    """A source of either kind. ``error`` is raised by its barrier."""

    def __init__(self, node: Address | None, error: Exception | None = None) -> None:
        self.broker = node
        self.leader = None if node is None else (node, 3)
        self.error = error
        self.passed: list[object] = []
        self.lost: list[Address] = []

    def leader_lost(self, address: Address) -> None:
        self.lost.append(address)

    async def barrier(self, created: Sequence[Acl] = (), deleted: Sequence[AclFilter] = ()) -> None:
        if self.error is not None:
            raise self.error
        self.passed.append((created, deleted))


@pytest.mark.parametrize("node", [NODE, None])
async def test_changes_go_to_the_leader(node: Address | None) -> None:
    source = Source(node)
    destination = QuorumDestination(source)
    assert destination.address == node
    assert await destination.confirm([acl()], [])
    destination.report_lost(NODE)
    assert (source.passed, source.lost) == ([((), ())], [NODE])


@pytest.mark.parametrize("node", [NODE, None])
async def test_changes_go_to_the_pinned_broker(node: Address | None) -> None:
    """A listing must show them."""
    source = Source(node)
    destination = BrokersDestination(source)
    assert destination.address == node
    assert await destination.confirm([acl()], [AclFilter()])
    destination.report_lost(NODE)
    assert source.passed == [([acl()], [AclFilter()])]


@pytest.mark.parametrize("error", [UpdateRefusedError("too many"), trio.TooSlowError()])
async def test_listing_that_does_not_come_confirms_nothing(error: Exception) -> None:
    """The change is made, so this does not refuse it."""
    assert not await BrokersDestination(Source(NODE, error)).confirm([acl()], [])
