"""AuthZEN's discovery, and the paths of the decision port."""

import json

import pytest

from authorizerd.daemon.decisions.discovery import DiscoveryHandler
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.protocol.decisions.discovery import DISCOVERY_PATH
from authorizerd.protocol.http.messages import Request, Response
from tests.support.answers import answer_of
from tests.support.requests import http_request


def get(
    path: str = DISCOVERY_PATH, *, host: bytes | None = b"localhost", method: str = "GET"
) -> Request:
    headers = {} if host is None else {b"host": host}
    return http_request(path, method=method, headers=headers)


def new_handler(
    base_url: str = "", *, is_tls: bool = False, has_searches: bool = True
) -> DiscoveryHandler:
    return DiscoveryHandler(base_url, is_tls=is_tls, has_searches=has_searches)


@pytest.mark.parametrize(
    ("host", "is_tls", "url"),
    [
        (b"localhost:8181", False, "http://localhost:8181"),
        (b"pdp.example.com", True, "https://pdp.example.com"),
        (b"[::1]:8181", False, "http://[::1]:8181"),
    ],
)
async def test_endpoints_have_the_url_of_the_client(host: bytes, is_tls: bool, url: str) -> None:
    """A client compares this URL with the one to which it sent the request."""
    answer = await new_handler(is_tls=is_tls)(get(host=host))
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == {
        "policy_decision_point": url,
        "access_evaluation_endpoint": f"{url}/access/v1/evaluation",
        "access_evaluations_endpoint": f"{url}/access/v1/evaluations",
        "search_subject_endpoint": f"{url}/access/v1/search/subject",
        "search_resource_endpoint": f"{url}/access/v1/search/resource",
        "search_action_endpoint": f"{url}/access/v1/search/action",
    }


async def test_a_configured_url_counts_before_the_clients() -> None:
    answer = await new_handler("https://gw.example/kafka")(get())
    metadata = json.loads(answer.body)
    assert metadata["policy_decision_point"] == "https://gw.example/kafka"
    assert metadata["access_evaluation_endpoint"].startswith("https://gw.example/kafka/access/")


@pytest.mark.parametrize(
    ("base_url", "caching"), [("", b"no-store"), ("https://gw.example", b"max-age=3600")]
)
async def test_no_cache_keeps_a_url_that_a_client_has_chosen(base_url: str, caching: bytes) -> None:
    """A cache that ignores Host would send other clients, with their tokens, to this URL."""
    answer = await new_handler(base_url)(get(host=b"evil.example"))
    assert answer.headers == ((b"Cache-Control", caching),)


async def test_endpoints_that_are_not_served_are_left_out() -> None:
    """An empty value would promise a search."""
    answer = await new_handler(has_searches=False)(get())
    assert not [key for key in json.loads(answer.body) if key.startswith("search")]


@pytest.mark.parametrize("host", [None, b"", b"a/b", b"a b", b'a"', b"u@h", b"a:b", b"[::1"])
async def test_a_host_that_is_none_gets_no_url(host: bytes | None) -> None:
    answer = await new_handler()(get(host=host))
    assert (answer.status, answer.content_type) == (400, "text/plain; charset=utf-8")


async def test_discovery_is_a_get() -> None:
    assert (await new_handler()(get(method="HEAD"))).status == 200
    refused = await new_handler()(get(method="POST"))
    assert (refused.status, refused.headers) == (405, ((b"Allow", b"GET, HEAD"),))


class _Named:
    """A handler that answers with its name."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    async def __call__(self, request: Request) -> Response:
        return Response(status=200, body=self._name)


@pytest.mark.parametrize(
    ("path", "name"),
    [("/a", b"a"), ("/a/b", b"a/b"), ("/below", b"below"), ("/below/x", b"below"), ("/a/", None),
     ("/b", None), ("/", None), ("/A", None)],
)  # fmt: skip
async def test_each_path_has_one_handler(path: str, name: bytes | None) -> None:
    """An unknown path gets 404 with the known ones."""
    handler = PathsHandler(
        {"/a": _Named(b"a"), "/a/b": _Named(b"a/b")}, {"/below": _Named(b"below")}
    )
    answer = await answer_of(handler(get(path)))
    if name is None:
        assert answer.status == 404
        assert answer.body.decode() == (
            "no such path: expected one of /a, /a/b, /below/…; metrics, health and console are on"
            " the port of authorizerd.admin.http\n"
        )
    else:
        assert answer.body == name
