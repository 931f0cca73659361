"""``/v1/acls``: all ACLs of one state, in bounded memory."""

import json
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.filters import accepts
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclFilter,
    AclRemoved,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.actors.published import Published
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.queries.acl_list import ACLS_PATH, AclListHandler
from authorizerd.daemon.queries.acl_state import STATE_PATH
from authorizerd.daemon.queries.acl_watch import WATCH_PATH
from authorizerd.daemon.queries.client import LISTING_SECONDS_MAX
from authorizerd.protocol.http.streamed import StreamedResponse
from tests.daemon.decision_place import OTHER, PROXY, Place, settings_of
from tests.daemon.decisions.acl_place import DESCRIBE, DESCRIBE_ID, AclPlace
from tests.daemon.local_queries import LocalQueries
from tests.daemon.search_place import image_of
from tests.support.acl_events import AclCopy, copy_of, shown, shown_id
from tests.support.acls import acl
from tests.support.requests import http_request
from tests.support.strategies import HOSTS, PRINCIPALS, acls, resource_names

MANY = [acl(topic=f"t{number}") for number in range(1, 2000)]


def numbered(acls: Iterable[Acl]) -> list[tuple[bytes, Acl]]:
    return [(number.to_bytes(16, "big"), each) for number, each in enumerate(acls, 1)]


FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([code for code in ResourceType if code]),
    resource_name=st.none() | resource_names,
    pattern_type=st.sampled_from([code for code in PatternType if code]),
    principal=st.none() | st.sampled_from(PRINCIPALS),
    host=st.none() | st.sampled_from(HOSTS),
    operation=st.sampled_from([code for code in Operation if code]),
    permission_type=st.sampled_from([code for code in PermissionType if code]),
)


def to_query(wanted: AclFilter, *, is_lower: bool) -> str:
    texts = {
        "resource_type": ResourceType(wanted.resource_type).name,
        "resource_name": wanted.resource_name,
        "pattern_type": PatternType(wanted.pattern_type).name,
        "principal": wanted.principal,
        "host": wanted.host,
        "operation": Operation(wanted.operation).name,
        "permission_type": PermissionType(wanted.permission_type).name,
    }
    names = ("resource_type", "pattern_type", "operation", "permission_type")
    return urlencode(
        {
            name: text.lower() if is_lower and name in names else text
            for name, text in texts.items()
            if text is not None
        }
    )


@given(held=st.lists(acls(), max_size=6, unique=True), wanted=FILTERS, is_lower=st.booleans())
async def test_listing_has_exactly_the_acls_that_the_filter_matches(
    tmp_path_factory: pytest.TempPathFactory, held: list[Acl], wanted: AclFilter, is_lower: bool
) -> None:
    async with trio.open_nursery() as nursery:
        place = await AclPlace(tmp_path_factory.mktemp("tokens")).load(nursery, *numbered(held))
        copy = AclCopy()
        copy.begin_with(await place.list(to_query(wanted, is_lower=is_lower)))
        assert copy.acls == {
            shown_id(number.to_bytes(16, "big")): shown(each)
            for number, each in enumerate(held, 1)
            if accepts(wanted, each)
        }
        nursery.cancel_scope.cancel()


async def test_listing_is_of_one_state(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Changes during the listing are not in it."""
    place = await AclPlace(tmp_path).load(nursery, *numbered(MANY))
    before = copy_of(place.applier.applied.newest)
    response = await place.ask(ACLS_PATH)
    assert isinstance(response, StreamedResponse)
    parts: list[bytes] = []

    async def send(data: bytes) -> None:
        number = len(parts) + 1
        await place.change(
            AclRemoved(number.to_bytes(16, "big")),
            AclAdded((5000 + number).to_bytes(16, "big"), acl(topic=f"new{number}")),
        )
        parts.append(data)

    await response.write(send)
    response.close()
    assert len(parts) > 3
    copy = AclCopy()
    copy.begin_with(b"".join(parts))
    assert (copy.offset, copy.acls) == (0, before)
    assert copy_of(place.applier.applied.newest) != before


async def test_memory_of_a_listing_is_bounded(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Parts stay small, whatever the ACLs' lengths and number."""
    place = AclPlace(tmp_path)
    name = "x" * 3000
    await place.load(nursery, *numbered(acl(topic=f"{name}{n}") for n in range(1, 4000)))
    response = await place.ask(ACLS_PATH)
    assert isinstance(response, StreamedResponse)
    sizes: list[int] = []

    async def send(data: bytes) -> None:
        sizes.append(len(data))

    tracemalloc.start()
    try:
        await response.write(send)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        response.close()
    assert sum(sizes) > 10_000_000
    assert max(sizes) < SEND_BYTES + 10_000
    assert peak < 1_000_000


@pytest.mark.usefixtures("autojump_clock")
async def test_listing_that_takes_too_long_is_cut_off(place: AclPlace) -> None:
    """It keeps its state in memory."""
    response = await place.ask(ACLS_PATH)
    assert isinstance(response, StreamedResponse)

    async def send(data: bytes) -> None:
        await trio.sleep(2 * LISTING_SECONDS_MAX)

    with pytest.raises(ClosingError, match="took longer than"):
        await response.write(send)
    response.close()


each_path = pytest.mark.parametrize("path", [ACLS_PATH, STATE_PATH, WATCH_PATH])


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (ACLS_PATH, "topic=x",
         "unknown parameter 'topic': expected one of resource_type, resource_name"),
        (ACLS_PATH, "operation=FLY",
         "operation: unknown value 'FLY': expected one of ANY, ALL, READ"),
        (ACLS_PATH, "operation=UNKNOWN", "operation: unknown value 'UNKNOWN'"),
        (ACLS_PATH, "resource_type=", "resource_type: unknown value ''"),
        (ACLS_PATH, "pattern_type=READ",
         "pattern_type: unknown value 'READ': expected one of ANY, MATCH"),
        (ACLS_PATH, "host=%80", "invalid query"),
        (ACLS_PATH, "&".join(f"a{number}=1" for number in range(20)), "invalid query"),
        (STATE_PATH, "after=1", "unknown parameter 'after': expected none"),
        (WATCH_PATH, "after=x", "after: expected a log offset, found 'x'"),
        (WATCH_PATH, "after=", "after: expected a log offset, found ''"),
        (WATCH_PATH, "after=%D9%A3", "after: expected a log offset"),  # a digit, but not of ASCII
        (WATCH_PATH, "after=1&after=2", "the parameter 'after' occurs twice"),
        (WATCH_PATH, "before=1", "unknown parameter 'before': expected one of after"),
        (WATCH_PATH, "after=%ff", "invalid query"),
        (WATCH_PATH, "after=" + "1" * 30, "after: expected a log offset"),
    ],
)  # fmt: skip
async def test_bad_query_is_refused(place: AclPlace, path: str, query: str, expected: str) -> None:
    status, text = await place.refusal(path, query)
    assert status == 400
    assert text.startswith(expected)


@each_path
async def test_caller_needs_the_right_to_read(place: AclPlace, path: str) -> None:
    lines = (await place.list(token="proxy.secret")).splitlines()
    assert json.loads(lines[1])["acl"] == shown(DESCRIBE)
    assert await place.refusal(path, token="other.secret") == (
        403,
        f"{OTHER} may not list or watch ACLs: authorizerd.callers.read does not list it\n",
    )
    for token in (None, "proxy.wrong"):
        status, text = await place.refusal(path, token=token)
        assert (status, text.startswith("expected a valid token")) == (401, True)


@pytest.mark.parametrize("takes_token", [False, True])
async def test_listing_ends_once_the_right_is_gone(
    takes_token: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A slow reader could otherwise get the rest for minutes."""
    place = await AclPlace(tmp_path).load(nursery, *numbered(MANY))
    response = await place.ask(ACLS_PATH, token="proxy.secret")
    assert isinstance(response, StreamedResponse)
    parts: list[bytes] = []

    async def send(data: bytes) -> None:
        parts.append(data)
        if takes_token:
            place.rewrite_tokens("")
        else:
            place.callers.reconfigure(settings_of(ask=PROXY, search=PROXY))
        await trio.lowlevel.checkpoint()

    with pytest.raises(ClosingError, match="ended early"):
        await response.write(send)
    assert len(parts) == 1
    response.close()


@each_path
async def test_trusted_callers_may_not_list_or_watch(nursery: trio.Nursery, path: str) -> None:
    """Nothing proves who they are."""
    place = await AclPlace(None).load(nursery, (DESCRIBE_ID, DESCRIBE))
    status, text = await place.refusal(path, token=None)
    assert status == 403
    assert "set authorizerd.tokens.file" in text


@each_path
async def test_nobody_lists_or_watches_before_acls_are_loaded(tmp_path: Path, path: str) -> None:
    """Not even a super user: a watch has no offset to begin from."""
    place = AclPlace(tmp_path)
    for token in ("root.secret", "proxy.secret"):
        refused = await place.refusal(path, token=token)
        assert refused == (503, "AUTHORIZER_NOT_READY: the ACLs are not loaded yet\n")


async def test_nobody_lists_while_a_required_audit_cannot_be_written(tmp_path: Path) -> None:
    place = Place(tmp_path)
    queries = LocalQueries(place.snapshot, Published(image_of()))
    handler = AclListHandler(place.authorizer, place.callers, queries)
    request = http_request(ACLS_PATH, method="GET", caller="root")
    assert isinstance(await handler(request), StreamedResponse)
    assert [line.partition(" from ")[0] for line in place.audit_log.lines] == [
        "DEBUG Principal = User:root is Allowed operation = ANY"
    ]
    place.audit_log.is_refusing = True
    assert (await handler(request)).status == 503
