"""The OPA plugin's JSON: a captured request, its variants, and invalid texts."""

import json
import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.protocol.decisions.opa import (
    OpaError,
    OpaQuestion,
    decode_question,
    token_in_query,
)
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.messages import Request, text_response
from authorizerd.protocol.http.request_head import HttpLimits
from tests.daemon.opa_requests import CAPTURED_BODY, CAPTURED_HEAD, PATH, asked

QUESTION = OpaQuestion(
    principal="User:u1",
    host="192.168.64.1",
    operation=Operation.DESCRIBE,
    resource_type=ResourceType.TOPIC,
    resource_name="topic-1",
    request_name="Metadata",
    resource_reference_count=1,
    log_if_allowed=True,
    log_if_denied=True,
)
OPERATION_NAMES = (
    "ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, "
    "ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT"
)
RESOURCE_TYPE_NAMES = "TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER"


def decoded(*changes: tuple[str, object]) -> OpaQuestion:
    return decode_question(json.dumps(asked(*changes)).encode())


def refusal(body: bytes) -> str:
    with pytest.raises(OpaError) as error:
        decode_question(body)
    return str(error.value)


def test_captured_request_is_read_completely() -> None:
    """Java offers an upgrade to h2c with each request. The request still has its body."""
    connection = ServerConnection(HttpLimits(body_bytes_max=10_000))
    for _ in range(2):
        data = CAPTURED_HEAD + CAPTURED_BODY
        for position in range(len(data)):
            assert connection.next_event() is None
            connection.receive_data(data[position : position + 1])
        request = connection.next_event()
        assert isinstance(request, Request)
        assert (request.path, request.body) == (PATH, CAPTURED_BODY)
        answer = connection.send(text_response(200, "x"))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"pgrade" not in answer
        assert not connection.closed


def test_captured_question_is_decoded() -> None:
    assert decode_question(CAPTURED_BODY) == QUESTION


@pytest.mark.parametrize(
    ("header", "request_name"),
    [
        ({"name": {"clientId": None, "requestApiKey": 0}, "headerVersion": 2}, "Produce"),
        ({"data": {"clientId": "c", "requestApiKey": 22}, "headerVersion": 2}, "InitProducerId"),
        ({"name": {"requestApiKey": 30}, "data": {"requestApiKey": 0}}, "CreateAcls"),
        ({"name": {"requestApiKey": 6}}, "UpdateMetadata"),
        ({"name": {"requestApiKey": 93}}, "StreamsGroupTopologyDescriptionUpdate"),
        ({"name": {"requestApiKey": 94}}, "UnregisterController"),
        ({"name": {"requestApiKey": 9999}}, None),
        ({"name": {"requestApiKey": None}}, None),
        ({"name": {}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_both_forms_of_the_header_name_the_request(
    header: dict[str, Any] | None, request_name: str | None
) -> None:
    """The plugin sends ``name``. Its README documents ``data``. Both are optional."""
    assert decoded(("requestContext.header", header)).request_name == request_name


def test_fields_for_the_audit_are_optional() -> None:
    question = decoded(
        ("requestContext.header", ...),
        ("action.resourceReferenceCount", ...),
        ("action.logIfAllowed", ...),
        ("action.logIfDenied", ...),
    )
    assert question == decoded(("requestContext.header", None))


@given(
    address=st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)),
    name=st.text("a-z.0", max_size=12),
    is_slashed=st.booleans(),
)
def test_client_address_follows_the_last_slash(
    address: IPv4Address | IPv6Address, name: str, is_slashed: bool
) -> None:
    """Java writes ``name/address``, often with an empty name."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if mapped is not None or isinstance(address, IPv4Address):
        expected = str(mapped or address)
    else:
        expected = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    text = f"{name}/{address}" if is_slashed else str(address)
    assert decoded(("requestContext.clientAddress", text)).host == expected


@given(st.text())
def test_any_client_address_is_an_address_or_rejected(text: str) -> None:
    body = json.dumps(asked(("requestContext.clientAddress", text))).encode()
    if host_address(text.rpartition("/")[2]) is None:
        assert refusal(body) == "input.requestContext.clientAddress: expected an IP address"
    else:
        assert decode_question(body).host


def test_operations_and_types_have_kafkas_names() -> None:
    for operation in map(Operation, OPERATIONS):
        assert decoded(("action.operation", operation.name)).operation == operation
    for resource_type in map(ResourceType, RESOURCE_TYPES):
        change = ("action.resourcePattern.resourceType", resource_type.name)
        assert decoded(change).resource_type == resource_type


def test_empty_prefix_asks_about_any_resource_of_the_type() -> None:
    """The plugin sends it for authorizeByResourceType. An empty literal name is just a name."""
    pattern = {"resourceType": "GROUP", "name": "", "patternType": "PREFIXED", "unknown": False}
    question = decoded(("action.resourcePattern", pattern), ("action.resourceReferenceCount", 0))
    assert question.resource_name is None
    assert (question.resource_type, question.resource_reference_count) == (ResourceType.GROUP, 0)
    assert decoded(("action.resourcePattern.name", "")).resource_name == ""


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("action.operation", "FLY", f"input.action.operation: expected one of {OPERATION_NAMES}"),
        ("action.operation", "describe",
         f"input.action.operation: expected one of {OPERATION_NAMES}"),
        ("action.operation", "ANY", f"input.action.operation: expected one of {OPERATION_NAMES}"),
        ("action.operation", "UNKNOWN",
         f"input.action.operation: expected one of {OPERATION_NAMES}"),
        ("action.resourcePattern.resourceType", "ANY",
         f"input.action.resourcePattern.resourceType: expected one of {RESOURCE_TYPE_NAMES}"),
        ("action.resourcePattern.patternType", "PREFIXED",
         "input.action.resourcePattern.patternType: expected LITERAL, or PREFIXED with an empty "
         "name"),
        ("action.resourcePattern.patternType", "MATCH",
         "input.action.resourcePattern.patternType: expected LITERAL, or PREFIXED with an empty "
         "name"),
        ("requestContext", ..., "input.requestContext is missing"),
        ("requestContext.clientAddress", None,
         "input.requestContext.clientAddress: expected a string, found null"),
        ("action.resourceReferenceCount", -1,
         "input.action.resourceReferenceCount: expected an integer of at least 0"),
        ("action.resourceReferenceCount", 2**31,
         "input.action.resourceReferenceCount: expected an integer of at most 2147483647"),
        ("requestContext.header.name.requestApiKey", "3",
         "input.requestContext.header.name.requestApiKey: expected an integer, found a string"),
        ("action.logIfAllowed", 1,
         "input.action.logIfAllowed: expected a boolean, found an integer"),
        *((field, ..., f"input.{field} is missing")
          for field in ("requestContext.clientAddress", "requestContext.principal")),
    ],
)  # fmt: skip
def test_ambiguous_question_is_rejected_by_field(path: str, value: object, reason: str) -> None:
    """A denial would be cached by the plugin, so the answer must be an error."""
    assert refusal(json.dumps(asked((path, value))).encode()) == reason


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        (b'"clientAddress":', b'"clientAddress":"/10.0.0.9","clientAddress":'),
        (b'"name":"u1"', b'"name":"bob","n\\u0061me":"u1"'),
        (b'"operation":"DESCRIBE"', b'"operation":"READ","operation":"DESCRIBE"'),
        (b'"unknown":false', b'"unknown":false,"unknown":false'),
    ],
)
def test_repeated_key_is_rejected(once: bytes, twice: bytes) -> None:
    """A proxy may have checked the value that the daemon ignores."""
    assert once in CAPTURED_BODY
    said = refusal(CAPTURED_BODY.replace(once, twice, 1))
    assert re.fullmatch(r"invalid JSON: the key '\w+' occurs twice in an object", said)


@pytest.mark.parametrize(
    "ignored",
    [
        b'"softwareVersion":"3.4.0"', b'"correlationId":5', b'"requestApiVersion":12',
        b'"headerVersion":2', b'"unknown":false',
    ],
)  # fmt: skip
def test_ignored_field_may_be_a_number_of_many_digits(ignored: bytes) -> None:
    """It gives its question nonetheless, and may still not hide a repeated key."""
    many = ignored.partition(b":")[0] + b":" + b"9" * 5000
    body = CAPTURED_BODY.replace(ignored, many, 1)
    assert decode_question(body) == QUESTION
    said = refusal(body.replace(many, b'"x":{"y":1,"y":2},' + many))
    assert said == "invalid JSON: the key 'y' occurs twice in an object"


def test_colon_in_the_principal_type_is_rejected() -> None:
    """Otherwise ``User:a`` and ``b`` would give the same principal as ``User`` and ``a:b``."""
    reason = "input.requestContext.principal.principalType: expected a text without a colon"
    for kind in ("User:a", ":", "User:"):
        principal = {"principalType": kind, "name": "b"}
        body = json.dumps(asked(("requestContext.principal", principal))).encode()
        assert refusal(body) == reason
    principal = {"principalType": "User", "name": "a:b"}
    assert decoded(("requestContext.principal", principal)).principal == "User:a:b"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"input":null}',
        CAPTURED_BODY[:-1],
        CAPTURED_BODY + b"{}",
        b"\xff" + CAPTURED_BODY,
        CAPTURED_BODY.replace(b"topic-1", b"topic-\xff"),
        CAPTURED_BODY.replace(b"topic-1", b"\\ud800"),
        CAPTURED_BODY.replace(b'"unknown":false', b'"unknown":' + b"[" * 90_000),
        CAPTURED_BODY.replace(b'"unknown":false', b'"unknown":' + b'{"a":' * 50_000),
        CAPTURED_BODY.replace(
            b'"resourceReferenceCount":1', b'"resourceReferenceCount":' + b"9" * 9_000
        ),
    ],
)
def test_invalid_json_is_rejected_in_one_short_line(body: bytes) -> None:
    assert len(refusal(body)) < 200


@given(st.integers(0, len(CAPTURED_BODY) - 1), st.binary(max_size=3))
def test_damaged_json_is_a_question_or_rejected(position: int, damage: bytes) -> None:
    body = CAPTURED_BODY[:position] + damage + CAPTURED_BODY[position + len(damage) :]
    question = None
    with suppress(OpaError):
        question = decode_question(body)
    assert question is None or question.resource_name is not None


@pytest.mark.parametrize(
    ("query", "token"),
    [
        ("", None),
        ("token=a.b", "a.b"),
        ("pretty&token=a.b&x=y", "a.b"),
        ("token=", ""),
        ("tokens=a.b", None),
        ("x=token=a.b&token=c.d", "c.d"),
        ("TOKEN=a.b", None),
    ],
)
def test_token_may_be_in_the_query(query: str, token: str | None) -> None:
    """The plugin cannot send it elsewhere."""
    assert token_in_query(query) == token


@pytest.mark.parametrize("query", ["token=a.b&token=c.d", "token=a.b&x&token=a.b", "token=&token="])
def test_several_tokens_in_a_query_are_refused(query: str) -> None:
    """A proxy may have checked a different one than the daemon would."""
    with pytest.raises(OpaError, match="token: expected a single token parameter in the URL"):
        token_in_query(query)
