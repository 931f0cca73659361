"""Requests of Kafka's OPA plugin: captured bytes, and variations of them."""

import json
from typing import Any

from authorizerd.protocol.http.messages import Request
from tests.support.requests import http_request

PATH = "/v1/data/kafka/authz/allow"

CAPTURED_BODY = (
    b'{"input":{"requestContext":{"clientAddress":"/192.168.64.1","clientInformation":'
    b'{"softwareName":"apache-kafka-java","softwareVersion":"3.4.0"},'
    b'"connectionId":"127.0.0.1:9092-127.0.0.1:58864-0","header":{"name":{"clientId":"rdkafka",'
    b'"correlationId":5,"requestApiKey":3,"requestApiVersion":12},"headerVersion":2},'
    b'"listenerName":"SASL_PLAINTEXT","principal":{"principalType":"User","name":"u1"},'
    b'"securityProtocol":"SASL_PLAINTEXT"},"action":{"resourcePattern":{"resourceType":"TOPIC",'
    b'"name":"topic-1","patternType":"LITERAL","unknown":false},"operation":"DESCRIBE",'
    b'"resourceReferenceCount":1,"logIfAllowed":true,"logIfDenied":true}}}'
)
CAPTURED_HEAD = (
    b"POST /v1/data/kafka/authz/allow HTTP/1.1\r\n"
    b"Connection: Upgrade, HTTP2-Settings\r\n"
    b"Content-Length: 630\r\n"
    b"Host: 127.0.0.1:9181\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
    b"Upgrade: h2c\r\n"
    b"User-Agent: Java-http-client/17.0.15\r\n"
    b"Content-Type: application/json\r\n"
    b"\r\n"
)
"""Sent by opa-authorizer 1.5.1 in Kafka 3.4, with the HttpClient of Java 17."""


def asked(*changes: tuple[str, object]) -> dict[str, Any]:
    """Return the captured question, changed by dotted paths below ``input`` and values.

    An ellipsis removes the field.
    """
    body: dict[str, Any] = json.loads(CAPTURED_BODY)
    for path, value in changes:
        *folders, name = path.split(".")
        place = body["input"]
        for folder in folders:
            place = place[folder]
        if value is ...:
            del place[name]
        else:
            place[name] = value
    return body


def post(
    body: bytes | dict[str, Any] = CAPTURED_BODY,
    *,
    path: str = PATH,
    query: str = "",
    method: str = "POST",
    headers: dict[bytes, bytes] | None = None,
) -> Request:
    lines = {b"content-type": b"application/json", **(headers or {})}
    return http_request(path, body, method=method, query=query, headers=lines)
