"""Every surface has it audited who asks."""

import json
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.filter import AuditRules
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import complete
from tests.daemon.api_requests import decision_handler, example_requests
from tests.daemon.decision_place import OTHER, ROOT, Place
from tests.daemon.opa_requests import asked, post
from tests.daemon.stream_questions import MAY, MAY_NOT
from tests.daemon.stream_service import new_server, start
from tests.support.acls import acl
from tests.support.api_documents import DECISION_ENDPOINTS

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HEADERS = {b"x-request-id": b"r-1", b"traceparent": TRACE.encode()}
FROM_ROOT = AuditedCaller("token", ROOT, "10.0.0.9", "r-1", TRACE)
BY_TYPE = post(
    asked(
        ("action.resourcePattern", {"resourceType": "TOPIC", "name": "", "patternType": "PREFIXED"})
    )
)
EXPLAINED = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "read"}}
AUDITED = {
    "AuthZEN", "Explain", "SubjectSearch", "ResourceSearch", "ActionSearch", "ListAcls",
    "WatchAcls", "OPA",
}  # fmt: skip


def sent(request: Request, token: str = "root.secret", **changes: object) -> Request:
    """Return the request with headers, from an address."""
    headers = {**request.headers, **HEADERS, b"authorization": f"Bearer {token}".encode()}
    return replace(request, **{"address": "10.0.0.9", "headers": headers, **changes})


def find_example() -> Request:
    """Return the example of one evaluation."""
    requests = example_requests(DECISION_ENDPOINTS)
    return next(each for each in requests if each.path == EVALUATION_PATH)


async def test_each_endpoint_names_the_caller(tmp_path: Path) -> None:
    """Also for a refused caller, and in one step as well as in turns."""
    place = Place(tmp_path, acl("User:alice", "READ", topic="orders"))
    place.auditor.reconfigure(AuditLevel.TRACE, AuditRules())
    handler = decision_handler(place)
    audited = set()
    for request in (*example_requests(DECISION_ENDPOINTS), BY_TYPE):
        for token, caller in (
            ("root.secret", FROM_ROOT),
            ("other.secret", replace(FROM_ROOT, principal=OTHER)),
        ):
            del place.audit_log.events[:]
            whole = sent(request, token)
            response = await complete(handler(whole))
            if not isinstance(response, Response):
                response.close()
            assert {event.caller for event in place.audit_log.events} <= {caller}
            audited |= {event.request_name for event in place.audit_log.events}
    assert audited >= AUDITED


@pytest.mark.parametrize("path", [EVALUATION_PATH, EVALUATIONS_PATH])
async def test_trusted_caller_has_no_principal(path: str) -> None:
    place = Place(None)
    handler = decision_handler(place)
    request = find_example()
    body = request.body
    if path == EVALUATIONS_PATH:
        body = b'{"evaluations":[%b,%b]}' % (body, body)
    for address in ("10.0.0.1", None):
        await complete(handler(sent(request, path=path, body=body, address=address)))
    assert {event.caller for event in place.audit_log.events} == {
        AuditedCaller("trusted", None, "10.0.0.1", "r-1", TRACE),
        AuditedCaller("trusted", None, "unix", "r-1", TRACE),
    }


async def test_explained_evaluation_names_the_caller(tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = {
        **EXPLAINED, "resource": {"type": "topic", "id": "t"}, "context": {"explain": True},
    }  # fmt: skip
    request = replace(find_example(), body=json.dumps(document).encode())
    await complete(decision_handler(place)(sent(request)))
    assert [event.caller for event in place.audit_log.events] == [FROM_ROOT]


async def test_stream_names_the_caller_of_its_hello(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Its address is that of the connection; a stream without one is a Unix socket."""
    place = Place(tmp_path)
    server = new_server(place)
    client = (await start(nursery, server)).connect_client()
    await client.greet("root.secret")
    await client.ask([MAY, MAY_NOT])
    await client.stream.aclose()
    assert {event.caller for event in place.audit_log.events} == {
        AuditedCaller("token", ROOT, "unix")
    }
