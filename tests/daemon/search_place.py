"""The searches of a decision port, for tests."""

import json
from pathlib import Path
from typing import Any

from authorizerd.acl.model import Acl
from authorizerd.actors.published import Published
from authorizerd.daemon.queries.question_surface import EXPLAIN_PATH, QuestionHandler
from authorizerd.daemon.queries.search import SearchHandler
from authorizerd.image.changes import TopicAdded
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.decisions.discovery import (
    SEARCH_ACTION_PATH,
    SEARCH_RESOURCE_PATH,
    SEARCH_SUBJECT_PATH,
)
from authorizerd.protocol.http.messages import Response
from tests.daemon.decision_place import Place
from tests.daemon.local_queries import LocalQueries
from tests.support.answers import answer_of
from tests.support.requests import http_request

VOCABULARY = Vocabulary(
    {"user": "User", "group": "Group"}, {"topic": 2, "group": 3, "cluster": 4, "user": 7}
)
PATHS = {
    "subject": SEARCH_SUBJECT_PATH,
    "resource": SEARCH_RESOURCE_PATH,
    "action": SEARCH_ACTION_PATH,
}


def image_of(*topics: str) -> ClusterImage:
    """Return an image with these topics."""
    added = (TopicAdded(name, name.encode().ljust(16, b"\0")) for name in topics)
    return apply_cluster_changes(EMPTY_IMAGE, added)


def search_body(
    kind: str,
    user: str = "alice",
    action: str = "read",
    topic: str = "t",
    *,
    host: str | None = None,
    list_hosts: bool = False,
    **page: object,
) -> dict[str, Any]:
    """Return the document of a search: ``kind`` is subject, resource or action."""
    document: dict[str, Any] = {
        "subject": {"type": "user", "id": user},
        "action": {"name": action},
        "resource": {"type": "topic", "id": topic},
    }
    if kind == "action":
        del document["action"]
    else:
        del document[kind]["id"]
    context = {"host": host, "list_hosts": list_hosts or None}
    document["context"] = {name: value for name, value in context.items() if value is not None}
    return document | ({"page": page} if page else {})


class SearchPlace(Place):
    """The parts behind the searches of a decision port."""

    def __init__(
        self, folder: Path | None, *acls: Acl, topics: tuple[str, ...] = (), loaded: bool = True
    ) -> None:
        super().__init__(folder, *acls, loaded=loaded)
        self.image = Published(image_of(*topics))
        self.queries = LocalQueries(self.snapshot, self.image)
        self.handler = SearchHandler(self.authorizer, VOCABULARY, self.callers, self.queries)
        self.explain = QuestionHandler(
            EXPLAIN_PATH, self.authorizer, VOCABULARY, self.callers, self.queries
        )

    def new_handler(self, secret: bytes = bytes(32)) -> SearchHandler:
        """Return another handler of the same state, as in another worker."""
        queries = LocalQueries(self.snapshot, self.image, secret=secret)
        return SearchHandler(self.authorizer, VOCABULARY, self.callers, queries)

    async def post(
        self, kind: str, body: object, *, caller: str = "", handler: SearchHandler | None = None
    ) -> Response:
        """Send a search; ``body`` is bytes or a document."""
        request = http_request(PATHS[kind], body, caller=caller)
        return await answer_of((handler or self.handler)(request))

    async def search(self, kind: str, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a search that succeeds."""
        response = await self.post(kind, search_body(kind, *arguments, **more))
        assert response.status == 200, response.body
        return json.loads(response.body)

    async def refusal(self, kind: str, *arguments: Any, **more: Any) -> str:  # noqa: ANN401
        """Return the text with which a search is refused with status 400."""
        response = await self.post(kind, search_body(kind, *arguments, **more))
        assert response.status == 400
        assert response.content_type == "text/plain; charset=utf-8"
        return response.body.decode().removesuffix("\n")

    async def all_pages(self, kind: str, limit: int, *arguments: Any, **more: Any) -> list[Any]:  # noqa: ANN401
        """Return the results of all pages."""
        results: list[Any] = []
        token = None
        while token != "":
            page = {"limit": limit} if token is None else {"token": token}
            answer = await self.search(kind, *arguments, **more, **page)
            assert len(answer["results"]) == answer["page"]["count"] <= limit
            results += answer["results"]
            token = answer["page"]["next_token"]
        return results
