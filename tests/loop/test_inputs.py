"""The inputs reach every API, version and path, and are valid."""

from __future__ import annotations

from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from authorizerd.acl.steps import finish
from authorizerd.daemon.decisions import opa
from authorizerd.daemon.http.api_document import ADMIN_API, ApiDocument
from authorizerd.daemon.queries import acl_list, question_surface
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.decisions import discovery
from authorizerd.protocol.http.messages import Request as HttpMessage
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.messages import decode_request
from authorizerd.protocol.kafka.server_connection import KafkaServerConnection
from tests.loop.http_requests import ADMIN_PATHS, PATHS
from tests.loop.kafka_requests import Request, requests_of
from tests.loop.running import ALICE, ANONYMOUS, NOBODY, ROOT
from tests.loop.stations import BEFORE_LOG_IN, STATIONS
from tests.support.answers import answer_of

VERSIONS = [(api_key, version) for api_key, api in APIS.items() for version in api.versions]


def played(name: str, caller: str) -> set[tuple[ApiKey, int]]:
    return {
        (each.api_key, each.version)
        for each in STATIONS[name].inputs(caller, False)
        if isinstance(each, Request)
    }


def test_every_api_and_version_is_played() -> None:
    assert played("Kafka", ROOT) | played("log-ins", NOBODY) == set(VERSIONS)


@pytest.mark.parametrize(("name", "caller"), [("Kafka", ANONYMOUS), ("before loading", ALICE)])
def test_every_api_is_played_without_a_right(name: str, caller: str) -> None:
    forwarded = {ApiKey.ENVELOPE}  # opening it needs a right
    found = {api_key for api_key, _ in played(name, caller)}
    assert found == set(APIS) - BEFORE_LOG_IN - forwarded


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_requests_are_valid(api_key: ApiKey, version: int) -> None:
    """An invalid request would never reach its handler."""
    for asked in requests_of(api_key, version, is_plain=True, items=10):
        connection = KafkaServerConnection(1 << 20)
        connection.receive_data(asked.frame())
        request = connection.next_request()
        assert request is not None
        assert (request.api_key, request.api_version) == (api_key, version)
        finish(decode_request(api_key, version, request.body, is_exact=True))


def test_every_path_of_the_decision_port_is_played() -> None:
    paths = {
        path
        for module in (acl_list, discovery, opa, question_surface)
        for name, path in vars(module).items()
        if name.endswith("_PATH")
    }
    assert len(paths) == 11
    for path in paths:
        assert any(each.startswith(path) for each in PATHS)


async def test_every_path_of_the_admin_port_is_played() -> None:
    document = ApiDocument(ADMIN_API, frozenset)
    handler = AdminHandler(CollectorRegistry(), cast(Readiness, None), document=document)
    answer = await answer_of(
        handler(HttpMessage(method="GET", path="/", query="", headers={}, body=b""))
    )
    listed = answer.body.decode().partition("expected one of ")[2].partition(";")[0]
    assert set(listed.split(", ")) == set(ADMIN_PATHS)
