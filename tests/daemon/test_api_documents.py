"""The OpenAPI documents of the ports describe every answer of their handlers."""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from prometheus_client import CollectorRegistry

from authorizerd.daemon.decision_servers import ANONYMOUS_PATHS
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.daemon.http.api_document import (
    ADMIN_API,
    DECISION_API,
    OPENAPI_PATH,
    ApiDocument,
    describe_port,
)
from authorizerd.daemon.queries.acl_list import ACLS_PATH
from authorizerd.daemon.queries.acl_state import STATE_PATH
from authorizerd.daemon.queries.acl_watch import WATCH_PATH
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.decisions.discovery import DISCOVERY_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import StreamedResponse, complete
from tests.daemon.api_requests import ask, decision_handler, example_requests
from tests.daemon.decision_place import Place
from tests.support.acls import acl
from tests.support.answers import answer_of
from tests.support.api_description import ApiDescription, exchange_of
from tests.support.api_documents import ADMIN_ENDPOINTS, DECISION_ENDPOINTS, read_document
from tests.support.log_files import added, write_log

OTHER_VALUES: tuple[object, ...] = (None, 1, "", "x", [], {}, True)


class Ready(Readiness):
    def __init__(self, *, is_ready: bool) -> None:
        self._is_ready_now = is_ready

    @property
    def is_ready(self) -> bool:
        return self._is_ready_now

    @property
    def text(self) -> str:
        return "a line"


def changed_documents(document: Mapping[str, Any]) -> Iterator[Any]:
    """Yield copies of a JSON document with one field changed, removed or added."""
    for path in places(document):
        for value in (*OTHER_VALUES, ...):
            place: Any = copy.deepcopy(document)
            changed = place
            for key in path[:-1]:
                place = place[key]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield changed
    yield from OTHER_VALUES
    yield {**document, "unknown": [1]}


def places(document: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a JSON document."""
    if path:
        yield path
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from places(value, (*path, key))


def write_past(folder: Path) -> Path:
    """Return a log whose past can be asked about."""
    write_log(folder / "log", [added(1)])
    return folder / "log"


def admin_handler(*, is_ready: bool) -> AdminHandler:
    document = ApiDocument(ADMIN_API, frozenset)
    return AdminHandler(CollectorRegistry(), Ready(is_ready=is_ready), document=document)


def decision_requests() -> Iterator[tuple[Place, Request]]:
    """Yield valid and invalid requests, and the parts behind the port that they are sent to."""
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    yield from ((place, request) for request in example_requests(DECISION_ENDPOINTS))
    yield place, ask("GET", "/other")
    for endpoint in DECISION_ENDPOINTS:
        path = endpoint.path.replace("{policy}", "a")
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            yield place, ask(method, path)
        if endpoint.example is not None:
            for changed in changed_documents(endpoint.example):
                yield place, ask("POST", path, json.dumps(changed).encode())
            yield place, ask("POST", path, json.dumps(endpoint.example).encode(), media_type="a/b")
            yield place, ask("POST", path, b"{")


@pytest.fixture
def description() -> ApiDescription:
    return ApiDescription(read_document(DECISION_API))


async def test_decision_port_is_as_described(description: ApiDescription, tmp_path: Path) -> None:
    """A generated corpus of requests gives every described answer, and no other."""
    handlers: dict[Place, PathsHandler] = {}
    log_dir = write_past(tmp_path)
    requests = list(decision_requests())
    with_tokens, not_loaded = Place(tmp_path), Place(None, loaded=False)
    not_ready = Place(tmp_path, loaded=False)
    for place, token in (
        (with_tokens, ""),
        (with_tokens, "other.secret"),
        (with_tokens, "root.secret"),
        (not_loaded, ""),
        (not_ready, "root.secret"),
    ):
        requests += [(place, each) for each in example_requests(DECISION_ENDPOINTS, token)]
    # Only without evaluations, this path answers as the other: a batch has no status of its own.
    single = json.dumps(DECISION_ENDPOINTS[0].example).encode()
    requests.append((with_tokens, ask("POST", EVALUATIONS_PATH, single, "other.secret")))
    no_host = msgspec.structs.replace(ask("GET", DISCOVERY_PATH), headers={})
    requests.append((not_loaded, no_host))
    requests.append((not_loaded, msgspec.structs.replace(no_host, method="HEAD")))
    requests += [
        (with_tokens, ask(method, path, token="root.secret", query=query))
        for method in ("GET", "HEAD")
        for path, query in (
            (ACLS_PATH, "a=b"),
            (STATE_PATH, "a=b"),
            (WATCH_PATH, "a=b"),
            (WATCH_PATH, "after=-7"),
        )
    ]
    for place, request in requests:
        if place not in handlers:
            handlers[place] = decision_handler(place, log_dir)
        description.check(exchange_of(request, await complete(handlers[place](request))))
    own = {
        (endpoint.path, method, status)
        for endpoint in DECISION_ENDPOINTS
        for method in endpoint.methods
        for status in endpoint.statuses
    }
    assert own - description.seen == set()


def test_every_path_of_the_decision_port_is_described() -> None:
    """A new path must be added to the document."""
    served = {path.removesuffix("/") for path in decision_handler(Place(None)).paths}
    assert served == {endpoint.path.partition("/{")[0] for endpoint in DECISION_ENDPOINTS}


def test_only_described_paths_need_no_credentials() -> None:
    assert {each.path for each in DECISION_ENDPOINTS if each.is_open} == ANONYMOUS_PATHS


@pytest.mark.parametrize(("path", "start"), [(ACLS_PATH, ""), (WATCH_PATH, "data: ")])
async def test_each_part_of_a_stream_is_described(
    path: str, start: str, tmp_path: Path, description: ApiDescription
) -> None:
    """A listing ends by itself; a watch is ended after its first part."""
    place = Place(tmp_path, acl("User:alice", "READ", topic="orders"))
    response = await complete(decision_handler(place)(ask("GET", path, token="root.secret")))
    assert isinstance(response, StreamedResponse)
    sent: list[bytes] = []
    with trio.CancelScope() as scope:

        async def send(data: bytes) -> None:
            sent.append(data)
            if response.is_live:
                scope.cancel()
            await trio.lowlevel.checkpoint()

        await response.write(send)
    response.close()
    answer = description.document["paths"][path]["get"]["responses"]["200"]
    schema = answer["content"][response.content_type]["schema"]["x-itemSchema"]
    lines = [
        line.removeprefix(start)
        for line in b"".join(sent).decode().splitlines()
        if line.startswith(start)
    ]
    assert len(lines) == (1 if response.is_live else 3)
    for line in lines:
        assert description.accepts(schema, json.loads(line)), line


async def test_admin_port_answers_as_described() -> None:
    description = ApiDescription(read_document(ADMIN_API))
    for handler in (admin_handler(is_ready=True), admin_handler(is_ready=False)):
        for request in (*example_requests(ADMIN_ENDPOINTS), ask("GET", "/"), ask("PUT", "/readyz")):
            description.check(exchange_of(request, await complete(handler(request))))
    own = {
        (endpoint.path, method, status)
        for endpoint in ADMIN_ENDPOINTS
        for method in endpoint.methods
        for status in endpoint.statuses
    }
    assert description.seen == own


async def test_examples_are_answered(tmp_path: Path) -> None:
    """An example that is refused would mislead."""
    handler = decision_handler(Place(tmp_path), write_past(tmp_path))
    for request in example_requests(DECISION_ENDPOINTS, "root.secret"):
        response = await complete(handler(request))
        assert exchange_of(request, response).status == 200, request


@pytest.mark.parametrize(
    ("has_tokens", "has_client_auth", "security"),
    [
        (False, False, []),
        (True, False, [{"token": []}]),
        (False, True, [{"certificate": []}]),
        (True, True, [{"token": []}, {"certificate": []}]),
    ],
)
async def test_document_names_the_credentials_in_force(
    has_tokens: bool, has_client_auth: bool, security: list[dict[str, list[str]]], tmp_path: Path
) -> None:
    """TLS may begin to ask for certificates at a reload."""
    place = Place(tmp_path if has_tokens else None)
    handler = decision_handler(place)
    if has_client_auth:
        place.callers.require_credentials()
    answer = await complete(handler(ask("GET", OPENAPI_PATH)))
    assert isinstance(answer, Response)
    assert answer.body == describe_port(DECISION_API, place.callers.accepted_schemes())
    document = json.loads(answer.body)
    assert document["paths"]["/access/v1/evaluation"]["post"]["security"] == security


@pytest.mark.parametrize("path", [ACLS_PATH, WATCH_PATH])
async def test_port_that_trusts_everyone_describes_that_it_lists_no_acls(path: str) -> None:
    """It does not know who calls. The document for all settings has the listing as well."""
    place = Place(None)
    accepted = place.callers.accepted_schemes()
    description = ApiDescription(describe_port(DECISION_API, accepted))
    request = ask("GET", path)
    exchange = exchange_of(request, await complete(decision_handler(place)(request)))
    description.check(exchange)
    own = description.document["paths"][path]["get"]["responses"]
    assert exchange.status == 403
    assert own.keys().isdisjoint({"200", "410"})
    assert "refuses every request" in own["403"]["description"]
    for text in (read_document(DECISION_API), describe_port(DECISION_API, {"token"})):
        assert "200" in json.loads(text)["paths"][path]["get"]["responses"]


async def test_metrics_port_has_no_document() -> None:
    handler = AdminHandler(CollectorRegistry(), Ready(is_ready=True), is_public=True)
    answer = await answer_of(handler(ask("GET", OPENAPI_PATH)))
    assert (answer.status, b"openapi" in answer.body) == (404, False)
