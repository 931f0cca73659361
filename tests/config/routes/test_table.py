"""The table of routes: the first route that matches decides, and each route can be reached."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.route_tests import ask_table
from authorizerd.config.routes.table import (
    METHODS,
    ROUTES_MAX,
    Line,
    RouteFault,
    RouteTable,
    parse_route,
    parse_routes,
)
from tests.config.routes.naive_routes import Row, ask_naively, paths, tables


def lines_of(texts: Sequence[str]) -> list[Line]:
    return [Line(text, number) for number, text in enumerate(texts, 1)]


def table_of(*texts: str) -> RouteTable:
    table, faults = parse_routes(lines_of(texts))
    assert faults == []
    return table


def asked(table: RouteTable, request: str) -> str:
    """Return what a request asks, as text, or DENY."""
    method, _, target = request.partition(" ")
    return str(ask_table(table, method, target)[0])


def faults_of(*texts: str) -> list[RouteFault]:
    return parse_routes(lines_of(texts))[1]


def reachable(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are left when the table refuses no more."""
    faults = faults_of(*(row.text for row in rows))
    bad = {fault.line.number for fault in faults}
    return [row for number, row in enumerate(rows, 1) if number not in bad]


@given(tables(), st.lists(paths(), max_size=6), st.data())
def test_table_asks_as_a_plain_scan(
    rows: list[Row], requests: list[list[str]], data: st.DataObject
) -> None:
    """Each character may be encoded, which changes nothing."""
    rows = reachable(rows)
    table = table_of(*(row.text for row in rows))
    for segments in requests:
        plain = data.draw(st.sampled_from(["", "aB", "abABxX"]))
        target = "/" + "/".join(quote_all(segment, but=plain) for segment in segments)
        for method in ("GET", "POST", "PUT"):
            names = ask_naively(rows, method, segments)
            # Names other than these need quotes as text.
            found = ask_table(table, method, target)[0].questions
            assert found == tuple(f"READ TOPIC {name}" for name in names), target


def quote_all(text: str, *, but: str) -> str:
    """Encode each character that is not in ``but``, even those that need no encoding."""
    return "".join(
        each if each in but else "".join(f"%{byte:02x}" for byte in each.encode()) for each in text
    )


@given(tables())
def test_route_is_unreachable_only_if_an_earlier_one_matches_all_of_its_requests(
    rows: list[Row],
) -> None:
    """For such a route, the fault names both lines; and no other route is refused."""
    faults = {fault.line.number: fault.reason for fault in faults_of(*(row.text for row in rows))}
    sound: list[Row] = []
    for number, row in enumerate(rows, 1):
        samples = list(sample_paths(row))
        covered = [
            (method, earlier)
            for method in row.methods
            for earlier in rows[: number - 1]
            if method in earlier.methods
            and all(earlier.match(path, ignores_case=True) is not None for path in samples)
        ]
        if number in faults:
            assert covered
            lines = re.findall(r"line (\d+)", faults[number])
            assert rows[int(lines[0]) - 1] in [earlier for _, earlier in covered]
        else:
            sound.append(row)
            assert not [earlier for _, earlier in covered if earlier in sound[:-1]]


def sample_paths(row: Row) -> list[str]:
    """Return paths that a row matches, of which any other segment matches only some."""
    samples = [""]
    for segment in row.segments:
        values = ("q",) if "{" not in segment else ("q", "ab", "qq")
        if segment == "**":
            choices = ["/q", "/q/q", "/ab/a/b", "/a", "/b"]
        else:
            choices = ["/" + re.sub(r"\{\w+\}", value, segment) for value in values]
        samples = [before + choice for before in samples for choice in choices]
    return [each or "/" for each in samples]


def test_example_routes_ask_their_questions() -> None:
    table = table_of(
        "POST /topics/{topic} -> WRITE TOPIC {topic}",
        "GET /consumers/{group}/topics/{topic} -> READ TOPIC {topic}, READ GROUP {group}",
        "GET /subjects/{topic}-value/versions -> READ TOPIC {topic}",
        "GET|HEAD /connectors/{name}/status -> DESCRIBE GROUP connect-{name}",
        "GET /connectors/** -> DESCRIBE CLUSTER kafka-cluster",
        "POST /consumers/{group} -> DENY the topics are named in the body",
        'PUT /x -> READ TOPIC "a b", WRITE TOPIC "a, \\"b\\" \\\\ 100%"',
        "GET / -> DESCRIBE CLUSTER kafka-cluster",
    )
    for request, expected in (
        ("POST /topics/orders", "WRITE TOPIC orders"),
        ("POST /topics/a%20b", 'WRITE TOPIC "a b"'),
        ("POST /topics/a%2Fb", "DENY"),
        ("POST /topics", "DENY"),
        ("GET /topics/orders", "DENY"),
        ("post /topics/orders", "DENY"),
        ("POST /Topics/orders", "DENY"),
        ("GET /consumers/g/topics/t?timeout=1", "READ TOPIC t, READ GROUP g"),
        ("GET /subjects/orders-value/versions", "READ TOPIC orders"),
        ("GET /subjects/a-value-value/versions", "READ TOPIC a-value"),
        ("GET /subjects/-value/versions", "DENY"),
        ("GET /subjects/orders-VALUE/versions", "DENY"),
        ("GET /connectors/c/status", "DESCRIBE GROUP connect-c"),
        ("HEAD /connectors/c/status", "DESCRIBE GROUP connect-c"),
        ("HEAD /connectors/c", "DENY"),
        ("GET /connectors/c", "DESCRIBE CLUSTER kafka-cluster"),
        ("GET /connectors/c/d/e", "DESCRIBE CLUSTER kafka-cluster"),
        ("GET /connectors", "DENY"),
        ("POST /consumers/g", "DENY"),
        ("PUT /x", 'READ TOPIC "a b", WRITE TOPIC "a, \\"b\\" \\\\ 100%"'),
        ("GET /", "DESCRIBE CLUSTER kafka-cluster"),
        ("GET /?a", "DESCRIBE CLUSTER kafka-cluster"),
    ):
        assert asked(table, request) == expected, request


def test_letter_case_never_leads_past_a_route() -> None:
    """A server that ignores case would serve the first route, whose question was not asked."""
    table = table_of(
        "GET /topics/{topic} -> READ TOPIC {topic}", "GET /{page}/{name} -> READ GROUP {page}"
    )
    assert asked(table, "GET /other/x") == "READ GROUP other"
    for target in ("/Topics/x", "/TOPICS/x", "/top%C4%B1cs/x", "/t%C3%B6pics/x", "/top%C4%B0cs/x"):
        with pytest.raises(
            RefusedRequestError, match="differs in letter case or accents from a route: GET /t"
        ):
            table.find("GET", target)


@pytest.mark.parametrize(("text", "reason"), [
    ("", "expected METHOD PATTERN -> QUESTION, such as"),
    ("GET /x", "expected METHOD PATTERN -> QUESTION"),
    ("GET /x READ TOPIC x", "expected METHOD PATTERN -> QUESTION"),
    ("GET /x => READ TOPIC x", "expected METHOD PATTERN -> QUESTION"),
    ("GET /x ->", "expected METHOD PATTERN -> QUESTION"),
    ("/x -> READ TOPIC x", "expected METHOD PATTERN -> QUESTION"),
    ("GET /a b -> READ TOPIC x", "expected METHOD PATTERN -> QUESTION"),
    ("get /x -> READ TOPIC x",
     "unknown method 'get' (did you mean GET?): expected one of GET, HEAD"),
    ("GTE /x -> READ TOPIC x", "unknown method 'GTE' (did you mean GET?)"),
    ("TRACE /x -> READ TOPIC x", "unknown method 'TRACE': expected one of"),
    ("GET|FETCH /x -> READ TOPIC x", "unknown method 'FETCH'"),
    ("GET| /x -> READ TOPIC x", "unknown method ''"),
    ("GET|GET /x -> READ TOPIC x", "the method GET occurs twice"),
    ("* /x -> READ TOPIC x", "unknown method '*'"),
    ("GET /x -> DENY", "expected a reason after DENY"),
    ("GET /x -> deny it", "expected OPERATION TYPE NAME"),
    ("GET /x -> ALLOW it", "expected OPERATION TYPE NAME"),
    ("GET /x -> READ TOPIC x,", "question '': expected OPERATION TYPE NAME"),
    ("GET /x -> READ TOPIC x, DENY it", "question 'DENY it': expected OPERATION TYPE NAME"),
    ("GET /x -> READ TOPIC x y", "question 'READ TOPIC x y': expected OPERATION TYPE NAME"),
    ("GET /x -> READ TOPIC", "question 'READ TOPIC': expected OPERATION TYPE NAME"),
    ('GET /x -> READ TOPIC "x', "expected OPERATION TYPE NAME"),
    ('GET /x -> READ TOPIC "x"y', "expected OPERATION TYPE NAME"),
    ('GET /x -> READ TOPIC "a\\b"', "expected OPERATION TYPE NAME"),
    ('GET /x -> READ TOPIC ""', "expected a name, found an empty one"),
    ("GET /x -> READ TOPICS x", "unknown resource type 'TOPICS' (did you mean TOPIC?)"),
    ("GET /x -> READ topic x", "unknown resource type 'topic' (did you mean TOPIC?)"),
    ("GET /x -> READ ANY x", "unknown resource type 'ANY'"),
    ("GET /x -> read TOPIC x", "unknown operation on TOPIC 'read' (did you mean READ?)"),
    ("GET /x -> ALL TOPIC x", "unknown operation on TOPIC 'ALL': expected one of READ, WRITE"),
    ("GET /x -> WRITE GROUP x", "unknown operation on GROUP 'WRITE': expected one of READ, DELETE"),
    ("GET /x -> DESCRIBE CLUSTER other", "expected the name kafka-cluster"),
    ("GET /{a} -> DESCRIBE CLUSTER {a}", "expected the name kafka-cluster"),
    ("GET /{a} -> READ TOPIC {b}", "unknown variable {b}: the pattern's variables: {a}"),
    ("GET /x -> READ TOPIC {b}", "unknown variable {b}: the pattern's variables: none"),
    ("GET /a/** -> READ TOPIC {rest}", "unknown variable {rest}"),
    ("GET /{a} -> READ TOPIC {a", "expected braces only around a variable"),
    ("GET /{a} -> READ TOPIC {{a}}", "expected braces only around a variable"),
    ("GET /x -> " + ", ".join(["READ TOPIC x"] * 17), "at most 16 questions, found 17"),
    ("GET x -> READ TOPIC x", "pattern x: expected a path that begins with '/'"),
    ("GET //x -> READ TOPIC x", "expected no empty segment"),
    ("GET /x/ -> READ TOPIC x", "expected no empty segment"),
    ("GET /x/./y -> READ TOPIC x", "expected no segment '.'"),
    ("GET /x/../y -> READ TOPIC x", "expected no segment '..'"),
    ("GET /a%20b -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /a?b -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /a#b -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /a;b -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /a+b -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /é -> READ TOPIC x", "a pattern is written decoded"),
    ("GET /**/x -> READ TOPIC x", "expected '*' only in '**' as the last segment"),
    ("GET /a* -> READ TOPIC x", "expected '*' only in '**' as the last segment"),
    ("GET /* -> READ TOPIC x", "expected '*' only in '**' as the last segment"),
    ("GET /{a}{b} -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET /{a}-{b} -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET /{} -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET /{1a} -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET /{a-b} -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET /{a}/{a} -> READ TOPIC {a}", "the variable {a} occurs twice"),
    ("GET /{a -> READ TOPIC x", "expected at most one variable in a segment"),
    ("GET " + "/a" * 33 + " -> READ TOPIC x", "expected at most 32 segments"),
])  # fmt: skip
def test_line_that_is_no_route_names_its_fault(text: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(reason)):
        parse_route(Line(text, 1))
    (fault,) = faults_of("GET /sound -> READ TOPIC x", text)
    assert reason in fault.reason
    assert fault.line.number == 2


@pytest.mark.parametrize(("first", "second"), [
    ("GET /x", "GET /x"), ("GET /x", "GET /X"), ("GET /{a}", "GET /x"), ("GET /{a}", "GET /{b}"),
    ("GET /{a}", "GET /{b}-value"), ("GET /{a}-value", "GET /x-value"), ("GET /a{a}", "GET /ab{b}"),
    ("GET /**", "GET /{a}/{b}"), ("GET /**", "GET /a/**"), ("GET /{a}/**", "GET /a/b"),
    ("GET|POST /x", "POST|PUT /x"), ("GET /", "GET /"), ("GET /a{x}", "GET /A{y}B"),
])  # fmt: skip
def test_unreachable_route_is_a_fault_that_names_both_lines(first: str, second: str) -> None:
    (fault,) = faults_of(
        f"{first} -> READ TOPIC x", "PUT /other -> READ TOPIC x", f"{second} -> READ TOPIC y"
    )
    assert fault.line.number == 3
    assert (
        f"the earlier route of line 1 matches all of them (letter case ignored): '{first} ->"
        in fault.reason
    )


@pytest.mark.parametrize(("first", "second"), [
    ("GET /x", "POST /x"), ("GET /x", "GET /{a}"), ("GET /{a}-value", "GET /{a}"), ("GET /**",
     "GET /"),
    ("GET /{a}", "GET /**"), ("GET /a/**", "GET /a"), ("GET /a{a}", "GET /a"), ("GET /{a}b",
     "GET /b"),
    ("GET /a{x}a", "GET /aa"), ("GET /ab{x}", "GET /a{x}"),
])  # fmt: skip
def test_route_that_an_earlier_one_covers_in_part_is_sound(first: str, second: str) -> None:
    assert faults_of(f"{first} -> READ TOPIC x", f"{second} -> READ TOPIC y") == []


def test_number_of_routes_is_limited() -> None:
    texts = [f"GET /{number} -> READ TOPIC x" for number in range(ROUTES_MAX + 2)]
    (fault,) = faults_of(*texts)
    assert fault.reason == f"expected at most {ROUTES_MAX} routes"
    assert fault.line.number == ROUTES_MAX + 1
    table = table_of(*texts[:ROUTES_MAX])
    assert asked(table, f"GET /{ROUTES_MAX - 1}") == "READ TOPIC x"
    assert asked(table, f"GET /{ROUTES_MAX}") == "DENY"


def test_all_methods_can_be_routed() -> None:
    table = table_of(f"{'|'.join(METHODS)} /x -> READ TOPIC x")
    assert [asked(table, f"{method} /x") for method in METHODS] == ["READ TOPIC x"] * len(METHODS)
