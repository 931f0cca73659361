"""No hostile target turns one route into another, however the server behind reads it."""

import re
from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.route_tests import ask_table
from authorizerd.config.routes.table import Line, RouteTable, parse_routes
from authorizerd.config.routes.target import split_target
from tests.config.routes.backends import see_decoded, see_leniently, see_once
from tests.config.routes.naive_routes import Row
from tests.support.sizes import size

TARGETS = size(20, 1_000)
"""Of each example: every night 100,000 in all."""
BACKENDS = (see_once, see_decoded, see_leniently)
ROWS = tuple(
    Row(("GET",), tuple(pattern[1:].split("/")) if pattern != "/" else (), (question,))
    for pattern, question in (
        ("/topics/{t}", "topic-{t}"),
        ("/topics/{t}/partitions/{p}", "partition-{t}"),
        ("/subjects/{s}-value/versions", "value-{s}"),
        ("/subjects/{s}/versions", "subject-{s}"),
        ("/connectors/{c}/status", "connector-{c}"),
        ("/connectors/**", "connectors"),
        ("/{page}/{name}", "page-{page}.{name}"),
        ("/", "root"),
        ("/**", "anything"),
    )
)
WORDS = (
    "topics", "subjects", "connectors", "versions", "partitions", "status", "secret", "public", "a",
    "secret-value", "x.y", "100", "topics", "secret",
)  # fmt: skip
SEPARATORS = (
    "/", "/", "/", "/", "/", "/", "//", "/./", "/../", "%2F", "%2f", "%252F", "%25252f", "\\",
    "%5C",
    "%255c", "/%2e%2e/", "/.%2E/", "/%252e%252e/", "/%2e/", "/..;/", "/.;a/", "%c0%af", "%EF%BC%8F",
    "%u002f", "%E2%81%84", "/ /", "/%20/",
)  # fmt: skip
NOISE = (
    "", "", "", "", "", "", "", "", ";a=b", "%3B", ";", "?", "?a=/topics/secret", "#", "%23", "%3F",
    "%253F", "%00", "%0a", "%0D%0A", "+", "%20", "%2B", ".", "..", "%2e", "%252e", "%", "%4", "%zz",
    "%25", "%C3%A9", "e%CC%81", "%EF%BC%A1", "%E2%84%AA", "%C4%B1", "%C4%B0", "é", "\t", "&", "=",
    ":",
    "@", "*", "{t}", "~", "%2e%2e", "-value", "-VALUE", "%2Dvalue",
)  # fmt: skip
STARTS = ("/", "/", "/", "/", "/", "/", "", "//", "http://h/", "/./", "\\", "*", "%2f", "/;/")

ENDS = ("", "", "", "/", "?", "/?", "/.", "/..")


def write_target(random: Random) -> str:
    """Return a target of words, in any case and encoding, with what attackers put between them."""
    is_hostile = random.random() < 0.7
    parts = [random.choice(STARTS) if is_hostile else "/"]
    words = random.choices(WORDS, k=random.randrange(5))
    if random.random() < 0.6:  # nearly a route
        pattern = random.choice(ROWS).segments
        words = [re.sub(r"{\w+}|[*]{2}", random.choice(WORDS), each) for each in pattern]
    for number, word in enumerate(words):
        if number:
            parts.append(random.choice(SEPARATORS) if is_hostile else "/")
        parts += [write_word(word, random), random.choice(NOISE) if is_hostile else ""]
    return "".join(parts) + (random.choice(ENDS) if is_hostile else "")


def write_word(word: str, random: Random) -> str:
    kind = random.randrange(8)
    if kind == 0:
        return "".join(random.choice((each.upper(), each)) for each in word)
    if kind == 1:
        return "".join(random.choice((f"%{ord(each):02x}", each)) for each in word)
    if kind == 2:
        return word.replace("i", "%C4%B1").replace("s", "%C5%BF")
    return word


def new_table() -> RouteTable:
    table, faults = parse_routes(Line(row.text, number) for number, row in enumerate(ROWS, 1))
    assert faults == []
    return table


TABLE = new_table()


def find_doubts(target: str) -> Iterator[str]:
    """Yield how a server would see another request than the one whose question is asked."""
    try:
        route, values = TABLE.find("GET", target)
    except RefusedRequestError:
        return
    asked = tuple(question.fill(values) for question in route.questions)
    for see in BACKENDS:
        segments = see(target)
        path = "/" + "/".join(segments)
        served = next(
            topics for row in ROWS if (topics := row.match(path, ignores_case=True)) is not None
        )
        if asked != served:
            yield f"{see.__name__} serves {served} at {path}, asked {asked}"
        if list(split_target(target)) != segments:
            yield f"{see.__name__} sees {segments}"


@given(st.integers(0, 2**64))
def test_a_server_serves_only_what_was_asked(seed: int) -> None:
    random = Random(seed)
    for _ in range(TARGETS):
        target = write_target(random)
        assert not list(find_doubts(target)), target


def test_hostile_targets_are_neither_all_refused_nor_all_accepted() -> None:
    """Otherwise the test above would show nothing."""
    random = Random(1)
    targets = [write_target(random) for _ in range(2_000)]
    accepted = [target for target in targets if ask_table(TABLE, "GET", target)[0].questions]
    assert 200 < len(accepted) < 1_000
    assert len({ask_table(TABLE, "GET", target)[1] for target in accepted}) == len(ROWS)


def test_each_hostile_part_is_refused_within_a_name() -> None:
    """A part that is accepted is one of a name."""
    accepted = []
    for part in {*SEPARATORS, *NOISE} - {""}:
        try:
            split_target(f"/topics/x{part}y")
        except RefusedRequestError:
            continue
        accepted.append(part)
    assert sorted(accepted) == sorted(
        ("/", "%20", "%2B", ".", "..", "%2e", "%C3%A9", "%C4%B1", "%C4%B0", "&", "=", ":", "@",
         "*", "~",
         "%2e%2e", "-value", "-VALUE", "%2Dvalue", "?", "?a=/topics/secret", "%E2%81%84")
    )  # fmt: skip
