import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.report.differences import Change, assess_difference, compare
from authorizerd.replay.report.findings import assess
from authorizerd.replay.report.rendering import make_difference_page, make_page
from authorizerd.replay.report.results import ResultFile, Results
from authorizerd.replay.report.wording import NAME_MAX
from authorizerd.replay.whatif.report import NOTHING_CHANGED, OperationCount
from tests.ops.replay.report import examples
from tests.ops.replay.report.elements import HOSTILE, Elements, call_macro
from tests.ops.replay.report.examples import dry_run, ingested, load, usage, whatif
from tests.support.sizes import size


def make(title: str = "run", **results: Any) -> str:  # noqa: ANN401 - one result of each kind
    found = Results(files={}, texts={}, **results)
    return make_page(title, found, [*assess(found)])


def all_of(name: str) -> dict[str, Any]:
    """Return results of each kind with this name everywhere."""
    return {
        "ingest": ingested(name), "whatif": whatif(name), "usage": usage(name), "load": load(name),
    }  # fmt: skip


def make_full(name: str, title: str = "run") -> str:
    return make(title, **all_of(name))


def make_difference(name: str, title: str = "run") -> str:
    """Return a page that compares results with this name everywhere with others."""
    was, now = (
        Results(
            files=dict.fromkeys(examples.KINDS, ResultFile(path=each, bytes=1, sha256="0")),
            texts={},
            **all_of(each),
        )
        for each in ("before", name)
    )
    difference = compare(was, now, ("before", title))
    return make_difference_page(difference, was, now, [*assess_difference(difference)])


MAKERS: list[Callable[..., str]] = [make_full, make_difference]
INNOCENT = {make: Elements(make("innocent")) for make in MAKERS}


@pytest.mark.parametrize("make_one", MAKERS)
@settings(max_examples=size(20, 100))
@given(HOSTILE)
def test_hostile_name_changes_no_element_or_code(make_one: Callable[..., str], name: str) -> None:
    html = make_one(name, name)
    hostile, innocent = Elements(html), INNOCENT[make_one]
    assert [(tag, sorted(attributes)) for tag, attributes in hostile.tags] == [
        (tag, sorted(attributes)) for tag, attributes in innocent.tags
    ]
    assert hostile.code == innocent.code
    assert not hostile.comments
    assert escape_unprintable(name) in hostile.texts
    assert all(line.isprintable() for text in hostile.texts for line in text.split("\n"))
    ElementTree.fromstring(re.sub(r"(?s)^<!DOCTYPE html>|<(style|script)>.*?</\1>", "", html))


@pytest.mark.parametrize("make_one", MAKERS)
def test_page_may_load_nothing_and_is_equal_for_equal_results(make_one: Callable[..., str]) -> None:
    html = make_one("x")
    assert make_one("x") == html, "equal results make equal pages"
    elements = Elements(html)
    policies = [
        attributes["content"]
        for attributes in elements.attributes_of("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    hashes = {
        name: base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        for name, code in elements.code.items()
    }
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; "
        f"script-src 'sha256-{hashes['script']}'; base-uri 'none'; form-action 'none'"
    ]
    assert not re.search(r"(?i)https?:|url\(|@import|src=|<link|<iframe|style=", html)
    assert all(str(link["href"]).startswith("#") for link in elements.attributes_of("a"))


def check_links(elements: Elements, expected: list[str]) -> None:
    """Check that the page has these sections, and a link to each."""
    assert [attributes["id"] for _, attributes in elements.tags if "id" in attributes] == expected
    links = [link["href"] for link in elements.attributes_of("a")]
    assert links == [f"#{place}" for place in expected]


def test_difference_shows_the_inputs_first_and_both_histograms_as_text() -> None:
    elements = Elements(make_difference("x", "friday"))
    check_links(elements, ["inputs", "whatif", "load", "usage", "ingest", "files"])
    plots = elements.attributes_of("svg")
    assert [plot["aria-label"] for plot in plots] == [
        "Histogram of corrected latency in both runs",
        "Histogram of service time in both runs",
        "Percentiles: before, friday",
    ]
    assert elements.names.count("details") == 2


@pytest.mark.parametrize("kind", examples.KINDS)
def test_one_result_is_enough_and_every_link_has_a_target(kind: str) -> None:
    result = {kind: all_of("x")[kind]}
    files = {kind: ResultFile(path=f"{kind}.json", bytes=1, sha256="0")}
    found = Results(files=files, texts={}, **result)
    elements = Elements(make_page("run", found, [*assess(found)]))
    check_links(elements, [kind, "files"])
    assert f"{kind}.json" in elements.texts


def test_head_names_traffic_acls_and_load() -> None:
    texts = Elements(make_full("x", "friday")).texts
    head = " ".join(texts[: texts.index("What if")])
    times = "2026-11-16 06:00:00 to 2026-11-16 07:00:00 (UTC)"
    for expected in ("friday", times, "at log offset 17", "sha256:after", "Load run"):
        assert expected in head


def test_page_says_what_it_leaves_out() -> None:
    text = Elements(make(whatif=whatif(newly_denied=examples.changed(left_out=250)))).text
    assert "of the 1 most frequent changes" in text
    assert "of 251 shown; 250 left out of this page, see whatif.json" in text
    elements = Elements(make(load=dry_run()))
    assert "Dry run: no question was sent." in elements.texts
    assert "svg" not in elements.names
    html = make_full("x" * 1_000_000)
    assert len(html) < 200_000
    assert f"[{1_000_000 - NAME_MAX:,} characters]" in html


@pytest.mark.parametrize(("question", "expected"), [
    (["User:a", None, 3, 2, "orders"], {"User:a", "unknown", "READ", "TOPIC", "orders"}),
    (["User:a", "::1", 99, 99, "orders"], {"::1", "99"}),
])  # fmt: skip
def test_codes_of_a_question_are_named(question: list[object], expected: set[str]) -> None:
    (mismatch,) = load().first_mismatches
    mismatch = msgspec.structs.replace(mismatch, question=question)
    report = msgspec.structs.replace(load(), first_mismatches=[mismatch])
    assert expected <= set(Elements(make(load=report)).texts)


@pytest.mark.parametrize(("names", "maps"), [(["READ"], 1), (["READ", "WRITE"], 2)])
def test_several_operations_have_a_heat_map(names: list[str], maps: int) -> None:
    operations = [OperationCount(operation=name, events=6, tuples=1) for name in names]
    denied = msgspec.structs.replace(examples.changed("READ"), by_operation=operations)
    one = whatif(newly_denied=denied, newly_allowed=NOTHING_CHANGED)
    assert Elements(make(whatif=one)).names.count("figcaption") == maps


@pytest.mark.parametrize(("name", "was", "now", "expected"), [
    ("events", 100, 150, "+50.0 %"),
    ("events", 0, 2, "+2"),
    ("events", None, 2, "different"),
    ("valid", True, False, "different"),
    ("candidate: offset", 100, 150, "different"),
    ("candidate: offset", 100, 100, "same"),
])  # fmt: skip
def test_amounts_change_by_percent(name: str, was: float | None, now: float, expected: str) -> None:
    row = Change(item=(name,), was=was, now=now)
    assert Elements(call_macro("names.html.jinja", "change", row)).texts == [expected]
