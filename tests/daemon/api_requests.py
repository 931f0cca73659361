"""A request to each endpoint of a port, and what answers those of the decision port."""

import json
from collections.abc import Iterator
from pathlib import Path

from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.published import Published
from authorizerd.config.configuration import parse
from authorizerd.daemon.decision_servers import new_decision_handler
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.daemon.decisions.route_file import RouteFile
from authorizerd.daemon.queries.watchers import Watchers
from authorizerd.image.cluster import EMPTY_IMAGE
from authorizerd.protocol.http.messages import Request
from tests.daemon.decision_place import Place
from tests.daemon.local_queries import LocalQueries
from tests.support.api_documents import Endpoint
from tests.support.requests import http_request

CONFIGURATION = parse("node.id=1\nlog.dirs=/log\n", source="test")


def ask(
    method: str,
    path: str,
    body: bytes = b"",
    token: str = "",
    *,
    media_type: str | None = None,
    query: str = "",
) -> Request:
    headers = {b"content-type": (media_type or "application/json").encode(), b"host": b"h"}
    if token:
        headers[b"authorization"] = f"Bearer {token}".encode()
    return http_request(path, body, method=method, query=query, headers=headers)


def example_requests(endpoints: tuple[Endpoint, ...], token: str = "") -> Iterator[Request]:
    """Yield a request to each path and method."""
    for endpoint in endpoints:
        body = b"" if endpoint.example is None else json.dumps(endpoint.example).encode()
        for method in endpoint.methods:
            yield ask(method, endpoint.path.replace("{policy}", "a/b"), body, token)


def decision_handler(place: Place, log_dir: Path = Path("none")) -> PathsHandler:
    watchers = Watchers(AclJournal(1), 8)
    return new_decision_handler(
        CONFIGURATION,
        place.authorizer,
        place.callers,
        watchers,
        LocalQueries(place.snapshot, Published(EMPTY_IMAGE), log_dir),
        RouteFile(None),
    )
