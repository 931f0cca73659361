"""``/v1/state`` describes the state that decides, and nothing after it may not decide any more."""

import json
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from authorizerd.acl.model import AclAdded, AclRemoved
from authorizerd.acl.state_version import combine_ids
from authorizerd.actors.record_applier import Renew, Suspend
from authorizerd.daemon.queries.acl_state import STATE_PATH
from authorizerd.protocol.http.messages import Response
from tests.daemon.decisions.acl_place import DESCRIBE, DESCRIBE_ID, AclPlace
from tests.support.acls import acl

OTHER_ID, OTHER = b"sixteen bytes id", acl("User:alice", "READ", topic="orders")


async def read_state(place: AclPlace) -> dict[str, Any]:
    response = await place.ask(STATE_PATH)
    assert isinstance(response, Response)
    assert (response.status, response.headers) == (200, ((b"Cache-Control", b"no-store"),))
    state: dict[str, Any] = json.loads(response.body)
    return state


def expected(offset: int, *ids: bytes, **other: object) -> dict[str, Any]:
    return {
        "offset": offset, "count": len(ids), "version": combine_ids(ids).hex(),
        "releases": ["4.3", "4.4"], "super_users": ["User:root"],
        "allow_everyone_if_no_acl_found": False, "valid_ms": None,
    } | other  # fmt: skip


async def test_state_follows_changes_and_settings(nursery: trio.Nursery, tmp_path: Path) -> None:
    place = await AclPlace(tmp_path).load(nursery, (DESCRIBE_ID, DESCRIBE))
    assert await read_state(place) == expected(0, DESCRIBE_ID)
    await place.change(AclAdded(OTHER_ID, OTHER))
    assert await read_state(place) == expected(1, OTHER_ID, DESCRIBE_ID)
    await place.change(AclRemoved(DESCRIBE_ID))
    settings = {
        "super.users": "User:root;User:eve", "allow.everyone.if.no.acl.found": "true"
    }  # fmt: skip
    place.authorizer.reconfigure(settings)
    assert await read_state(place) == expected(
        2, OTHER_ID, super_users=["User:eve", "User:root"], allow_everyone_if_no_acl_found=True
    )


async def test_state_says_how_long_it_may_decide(
    nursery: trio.Nursery, tmp_path: Path, mock_clock: MockClock
) -> None:
    place = await AclPlace(tmp_path).load(nursery, (DESCRIBE_ID, DESCRIBE))
    await place.feed.send(Renew(trio.current_time() + 10))
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(4)
    assert (await read_state(place))["valid_ms"] == 6000
    mock_clock.jump(6)
    assert (await place.refusal(STATE_PATH))[0] == 503
    await place.feed.send(Renew(trio.current_time() + 10))
    await trio.testing.wait_all_tasks_blocked()
    assert (await read_state(place))["valid_ms"] == 10_000
    await place.feed.send(Suspend("another cluster"))
    await trio.testing.wait_all_tasks_blocked()
    assert await place.refusal(STATE_PATH) == (503, "AUTHORIZER_NOT_READY: another cluster\n")
