"""The file of routes: what it may contain, and the fault of each line that is not understood."""

import re

import pytest

from authorizerd.config.errors import ConfigurationError
from authorizerd.config.routes.document import Routes, parse_routes_file, parse_tests_file
from authorizerd.config.routes.route_tests import ask_table

ROUTE = "routes:\n  - GET /x -> READ TOPIC x\n"


def read(text: str) -> Routes:
    return parse_routes_file(text, source="routes.yaml")


def test_file_without_options_is_for_nginx() -> None:
    routes = read(ROUTE)
    assert routes.gateway.name == "nginx"
    identity = routes.reader.identity
    assert (identity.principal_header, identity.host_header) == ("X-Forwarded-User", "X-Real-IP")
    assert routes.text == ROUTE
    assert routes.tests == ()


@pytest.mark.parametrize(("options", "headers"), [
    ("gateway: nginx", ("X-Forwarded-User", "X-Real-IP")),
    ("gateway: traefik", ("X-Forwarded-User", "X-Forwarded-For")),
    ("gateway: caddy", ("X-Forwarded-User", "X-Forwarded-For")),
    ("gateway: envoy", ("X-Forwarded-User", "X-Real-IP")),
    ("gateway: envoy\nprincipal: {format: certificate}", ("X-Forwarded-Client-Cert", "X-Real-IP")),
    ("principal: {header: X-User, format: user}\nhost: {header: X-Address}", ("X-User",
     "X-Address")),
])  # fmt: skip
def test_headers_depend_on_the_gateway(options: str, headers: tuple[str, str]) -> None:
    identity = read(f"{options}\n{ROUTE}").reader.identity
    assert (identity.principal_header, identity.host_header) == headers


def test_whole_file_is_read() -> None:
    routes = read("""
gateway: envoy
principal:
  header: x-forwarded-client-cert
  format: certificate
  rules: "RULE:^CN=(.*?),.*$/$1/,DEFAULT"
host:
  header: X-Client-Address
routes:
  - POST /topics/{topic} -> WRITE TOPIC {topic}   # a comment
  - "GET /x: -> READ TOPIC x"
  - >-
    GET /long ->
    READ TOPIC a,
    READ TOPIC b
tests:
  - POST /topics/a%20b -> WRITE TOPIC "a b"
  - POST /topics/a%2Fb -> DENY
  - GET /long -> READ TOPIC b, READ TOPIC a
""")
    assert [route.line.number for route in routes.table.routes] == [10, 11, 12]
    for test in routes.tests:
        asked, _ = ask_table(routes.table, test.method, test.target)
        assert set(asked.questions) == set(test.expected.questions), test
    mapped = routes.reader.identity.read_principal(
        {b"x-forwarded-client-cert": b'Hash=a;Subject="CN=alice,O=x"'}
    )
    assert mapped == "User:alice"


@pytest.mark.parametrize(("text", "fault"), [
    ("", "1: expected a document, found nothing"),
    ("# nothing", "1: expected a document, found nothing"),
    ("- a", "1: expected a mapping with 'routes', found a list"),
    ("routes", "1: expected a mapping with 'routes', found the text 'routes'"),
    ("routes: [", "2: not YAML"),
    ("{}", "1: expected 'routes', a list with at least one route"),
    ("gateway: nginx", "1: expected 'routes', a list with at least one route"),
    ("routes: []", "1: expected 'routes', a list with at least one route"),
    ("routes:", "1: routes: expected a list, found nothing"),
    ("routes: GET /x -> READ TOPIC x", "1: routes: expected a list, found the text"),
    ("routes:\n  - [a]", "2: routes: expected a text, found a list: quote"),
    ("routes:\n  - GET /x: READ TOPIC x",
     "2: routes: expected a text, found a mapping: quote a line that contains ': '"),
    ("routes:\n  - 12", "2: routes: expected a text, found a number"),
    ("routes:\n  - GET /x", "2: routes: 'GET /x': expected METHOD PATTERN -> QUESTION"),
    (f"{ROUTE}  - GET /x -> READ TOPIC y",
     "3: routes: 'GET /x -> READ TOPIC y': no GET request can reach this route"),
    (f"{ROUTE}routes:\n", "3: duplicate key 'routes': it is also in line 1"),
    (f"{ROUTE}---\n{ROUTE}", "3: expected one document, found a second one"),
    (f"{ROUTE}other: 1",
     "3: other: unknown field: expected one of gateway, principal, host, routes, tests"),
    (f"{ROUTE}route: 1", "3: route: unknown field (did you mean routes?)"),
    (f"{ROUTE}Gateway: nginx", "3: Gateway: unknown field (did you mean gateway?)"),
    (f"{ROUTE}gateway: haproxy",
     "3: gateway: expected one of nginx, traefik, caddy, envoy, found 'haproxy'"),
    (f"{ROUTE}gateway: Nginx", "3: gateway: expected one of nginx"),
    (f"{ROUTE}gateway:", "3: gateway: expected a text, found nothing"),
    (f"{ROUTE}gateway: [nginx]", "3: gateway: expected a text, found a list"),
    (f"{ROUTE}gateway: no", "3: gateway: expected a text, found a boolean, 'no': quote it"),
    (f"{ROUTE}principal: X-User",
     "3: principal: expected a mapping with header, format, rules, found the text"),
    (f"{ROUTE}principal:\n  name: X",
     "4: principal.name: unknown field: expected one of header, format, rules"),
    (f"{ROUTE}principal:\n  header: X User",
     "4: principal.header: expected the name of a header that the gateway sets"),
    (f"{ROUTE}principal:\n  header: X_User", "4: principal.header: expected the name of a header"),
    (f"{ROUTE}principal:\n  header: Authorization",
     "4: principal.header: expected the name of a header"),
    (f"{ROUTE}principal:\n  header: cookie", "4: principal.header: expected the name of a header"),
    (f"{ROUTE}principal:\n  header: X-Real-IP",
     "1: expected different headers, found X-Real-IP, X-Real-IP"),
    (f"{ROUTE}host:\n  header: x-forwarded-user", "1: expected different headers"),
    (f"{ROUTE}principal:\n  header: X-Original-URI", "1: expected different headers"),
    (f"{ROUTE}host:\n  header: x-original-method", "1: expected different headers"),
    (f"{ROUTE}principal:\n  format: dn",
     "4: principal.format: expected one of name, user, certificate, found 'dn'"),
    (f"{ROUTE}principal:\n  rules: DEFAULT",
     "4: principal.rules: expected only with format: certificate"),
    (f"{ROUTE}principal:\n  format: certificate\n  rules: RULE:x",
     "5: principal.rules: invalid rule 'RULE:x'"),
    (f"{ROUTE}host: X-Real-IP", "3: host: expected a mapping with header, found the text"),
    (f"{ROUTE}host:\n  name: X", "4: host.name: unknown field: expected one of header"),
    (f"{ROUTE}tests: x", "3: tests: expected a list, found the text"),
    (f"{ROUTE}tests:\n  - GET /x", "4: tests: 'GET /x': expected METHOD TARGET -> QUESTION"),
    (f"{ROUTE}tests:\n  - GET /x -> READ TOPIC {{x}}",
     "4: tests: question 'READ TOPIC {x}': unknown variable {x}"),
    (f"{ROUTE}tests:\n  - GET /x -> DENY it",
     "4: tests: question 'DENY it': expected OPERATION TYPE NAME"),
    (f"{ROUTE}gateway: &a nginx", "3: expected a text or a list, found the anchor &a"),
    ("routes: &a [GET /x -> READ TOPIC x]\ntests: *a",
     "1: expected a text or a list, found the anchor &a"),
    (f"{ROUTE}gateway: !!str nginx", "3: expected no tag, found tag:yaml.org,2002:str"),
    (f"{ROUTE}gateway: !!python/name:os.system x",
     "3: expected no tag, found tag:yaml.org,2002:python/name:os.system"),
    (f"{ROUTE}<<: {{gateway: envoy}}", "3: expected a text as a key, found a merge key"),
    ("routes: [" * 9 + "]" * 9, "1: nested more than 8 levels deep"),
    ("routes:\n  - GET /\x01 -> x", "2: not YAML"),
])  # fmt: skip
def test_fault_names_its_line_and_the_remedy(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read(text)
    assert [
        str(each) for each in refusal.value.faults if str(each).startswith(f"routes.yaml:{fault}")
    ], [str(each) for each in refusal.value.faults]


def test_all_faults_are_reported_in_the_order_of_the_file() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read("gateway: x\nother: 1\nroutes:\n  - GET\n  - PUT /x/ -> READ TOPIC x\ntests:\n  - 1\n")
    assert [fault.line for fault in refusal.value.faults] == [1, 2, 4, 5, 7]
    assert str(refusal.value).endswith("(and 4 more)")


def test_file_of_tests_has_only_tests() -> None:
    (test,) = parse_tests_file("tests:\n  - GET /x -> DENY\n", source="tests.yaml")
    assert (test.method, test.target, test.expected.questions) == ("GET", "/x", ())
    for text, reason in (
        ("tests: []", "tests.yaml:1: expected 'tests', a list with at least one test"),
        (ROUTE, "tests.yaml:1: routes: unknown field: expected one of tests"),
        ("- a", "tests.yaml:1: expected a mapping with 'tests', found a list"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(reason)):
            parse_tests_file(text, source="tests.yaml")
