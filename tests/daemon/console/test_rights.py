"""Every surface of the decision port and of the console requires the rights that its table says.

``tests/daemon/decisions/test_stream_server_connections.py`` has the decision stream.
"""

import json
from pathlib import Path

import pytest

from authorizerd.daemon.console.setup import ACLS_ONLY, CHANGES_PATH, NAVIGATION, NEEDS, PLAN_PATH
from authorizerd.protocol.http.messages import GET, Response
from authorizerd.protocol.http.rights import NOTHING, Right
from authorizerd.protocol.http.streamed import complete
from tests.daemon.console.console_place import MATRIX, REACH, RISKS, ConsolePlace
from tests.daemon.decision_place import PROXY, cluster_action
from tests.support.acls import acl
from tests.support.api_documents import DECISION_ENDPOINTS, Endpoint
from tests.support.caller_rights import documents, is_forbidden
from tests.support.log_files import added, write_log
from tests.support.requests import http_request
from tools.surfaces import ENDPOINT_NEEDS

SETS = [(), *((right,) for right in Right), tuple(Right)]
PAGES = [path for path in NEEDS if path != "/console/"]


def place_of(folder: Path, rights: tuple[Right, ...]) -> ConsolePlace:
    """Return a port whose caller has these rights, and others in ACLs, which do not count."""
    acls = [cluster_action(PROXY), acl(PROXY, "ALL", cluster=True)]
    write_log(folder / "log", [added(number, each) for number, each in enumerate(acls, 1)])
    place = ConsolePlace(folder, *acls, log_dir=folder / "log")
    place.grant(**dict.fromkeys(rights, PROXY))
    return place


@pytest.mark.parametrize("rights", SETS, ids=lambda rights: "+".join(rights) or "none")
async def test_each_endpoint_requires_its_rights(rights: tuple[Right, ...], tmp_path: Path) -> None:
    place = place_of(tmp_path, rights)

    async def send(endpoint: Endpoint, body: bytes, query: str = "") -> int:
        path = endpoint.path.replace("{policy}", "a")
        method = endpoint.methods[0]
        request = http_request(path, body, method=method, query=query, caller="proxy")
        response = await complete(place.decisions(request))
        if not isinstance(response, Response):
            response.close()
        elif response.status == 403:
            assert b"authorizerd.callers." in response.body
        return response.status

    for endpoint in DECISION_ENDPOINTS:
        if endpoint.is_open:
            continue
        needs = ENDPOINT_NEEDS[f"{endpoint.methods[0]} {endpoint.path}"]
        if endpoint.methods == GET:
            for query in ("", "as_of=0") if endpoint.path == "/v1/acls" else ("",):
                expected = is_forbidden(needs, rights, own=True, past=bool(query))
                assert (await send(endpoint, b"", query) == 403) is expected, endpoint.path
            continue
        for document, own, past in documents(endpoint, PROXY, 0):
            status = await send(endpoint, json.dumps(document).encode())
            expected = is_forbidden(needs, rights, own=own, past=past)
            assert status == (403 if expected else 200), (endpoint.path, document)


@pytest.mark.parametrize("rights", SETS, ids=lambda rights: "+".join(rights) or "none")
@pytest.mark.parametrize("path", [each for each in PAGES if each != "/console/live"])
async def test_every_page_requires_its_rights(
    path: str, rights: tuple[Right, ...], tmp_path: Path
) -> None:
    place = place_of(tmp_path, rights)
    question = {"resource_type": "TOPIC", "resource_name": "t", "operation": "READ"}
    for own, principal in ((False, "User:alice"), (True, PROXY)):
        fields = question | {"principal": principal}
        if path == "/console/who":
            fields = question
        elif path in ("/console/acls", "/console/verify", PLAN_PATH, CHANGES_PATH, RISKS):
            fields = {}
        elif path in (MATRIX, REACH):
            fields = {"principal": principal}
        elif path == "/console/history":
            fields["as_of"] = "0"
        status, _ = await place.get(path, "proxy", **fields)
        expected = is_forbidden(NEEDS[path], rights, own=own, past=False)
        assert status == (403 if expected else 200)


def test_every_page_declares_its_rights(tmp_path: Path) -> None:
    assert {*NAVIGATION, *ACLS_ONLY} == NEEDS.keys()
    assert [path for path, needs in NEEDS.items() if needs == NOTHING] == [
        "/console/",
        "/console/live",
    ]
