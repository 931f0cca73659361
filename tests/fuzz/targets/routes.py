"""Files of routes, and what a gateway sends."""

from collections.abc import Iterator
from typing import Final

from authorizerd.config.errors import ConfigurationError
from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.routes.document import parse_routes_file
from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.forwarded import RequestReader
from authorizerd.config.routes.gateways import GATEWAYS
from authorizerd.config.routes.identity import FORMATS, Identity
from authorizerd.config.routes.route_tests import ask_table
from authorizerd.config.routes.table import Line, parse_routes
from tests.fuzz.target import OWN_CHARACTERS_MAX, check_message, in_thread, reader
from tests.fuzz.trace import ROOT

_TABLE, _ = parse_routes(
    Line(text, 1)
    for text in (
        "POST /topics/{t} -> WRITE TOPIC {t}",
        "GET /subjects/{s}-value/versions -> READ TOPIC {s}",
        "GET /** -> DESCRIBE CLUSTER kafka-cluster",
    )
)
_READERS: Final = [
    RequestReader(
        gateway,
        Identity(
            principal="X-User", host="X-Host", form=form, mapping=PrincipalMapping.parse("DEFAULT")
        ),
        _TABLE,
    )
    for gateway in GATEWAYS.values()
    for form in FORMATS
]


def _check_file(data: bytes) -> None:
    """A file is read as a whole, or each of its faults is named."""
    try:
        routes = parse_routes_file(data.decode("utf-8", "replace"), source="routes.yaml")
    except ConfigurationError as error:
        for fault in error.faults:
            check_message(str(fault), characters=OWN_CHARACTERS_MAX)
        return
    assert routes.table.routes
    for test in routes.tests:
        ask_table(routes.table, test.method, test.target)


def _check_request(data: bytes) -> None:
    """A request asks questions about names of text, or its fault is named."""
    method, target, user, host = (*data.split(b"\n", 3), b"", b"", b"")[:4]
    headers = {b"x-user": user, b"x-host": host}
    for gateway in _READERS:
        names = gateway.gateway
        for name, value in ((names.method, method), (names.target, target)):
            headers[name.lower().encode()] = value
        try:
            text = target.decode("latin-1")
            principal, _, (route, values) = gateway.read(method.decode("latin-1"), text, headers)
        except RefusedRequestError:  # the handler escapes and shortens its text
            continue
        assert principal.isprintable()
        for question in route.questions:
            assert question.fill(values)


_FILE: Final = rb"""
gateway: envoy
principal:
  format: certificate
  rules: "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"
host: {header: X-A}
routes:
  - GET|PUT /a{b}c/** -> READ TOPIC "x {b}", READ GROUP g
tests:
  - GET /abc/d -> DENY
"""


def _files() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted((ROOT / "ops/routes").glob("*.yaml")))
    yield _FILE


ROUTE_TARGETS: Final = (
    in_thread("route-files", _check_file, _files,
              words=(b" -> ", b"{a}", b"/**", b"|", b", ", b"DENY ", b"\n  - ", b'"', b"&a "),
              weight=4),
    reader("gateway-requests", _check_request,
           lambda: (
               b"POST\n/topics/a%20b?c=d\nalice\n10.0.0.1",
               b"GET\n/subjects/%C3%A9-value/versions\nGroup:a\n::1",
               b'GET\n/a/b\nHash=a;Subject="CN=a\\, b,O=c";URI=d\nfe80::1%eth0',
           ),
           words=(b"%2F", b"%", b"..", b"//", b";", b"%25", b'Subject="', b"_method=", b"User:*"),
           weight=40),
)  # fmt: skip
