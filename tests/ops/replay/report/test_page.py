"""The page is whole, needs nothing, and is made of our elements alone."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.replay.report.findings import findings
from authorizerd.replay.report.page import page
from authorizerd.replay.report.results import Results, read_results
from authorizerd.replay.report.wording import NAME_MAX
from authorizerd.replay.whatif.report import NOTHING_CHANGED, OperationCount, shown
from tests.ops.replay.report.elements import Elements
from tests.ops.replay.report.examples import (
    changed,
    dry_run,
    ingested,
    load,
    usage,
    whatif,
    write_results,
)

HOSTILE_PARTS = st.sampled_from(
    [
        *("</script>", "<script>alert(1)</script>", "</style>", "<!--", "-->", "]]>", "</td>"),
        *('"', "'", "=", " onload=x ", "&", "&lt;", "&#60;", "<img src=x>", "`", "<", ">", "\\"),
        *("\x00", "\x1b[31m", "\r\n", "\u202e", "\u200f", "\u2028", "שלום", "\u0301", "é", "😀"),
    ]
)
HOSTILE = (
    st.lists(HOSTILE_PARTS | st.text(max_size=3), min_size=1, max_size=6).map("".join).filter(bool)
)


def made(results: Results, title: str = "run") -> str:
    return page(title, results, findings(results))


def all_of(name: str) -> Results:
    return Results(
        files={},
        texts={},
        ingest=ingested(name),
        whatif=whatif(name),
        usage=usage(name),
        load=load(name),
    )


INNOCENT = Elements(made(all_of("innocent")))


@settings(max_examples=40)
@given(HOSTILE)
def test_a_name_is_never_more_than_text(name: str) -> None:
    """The elements and the code are those of a page with an innocent name in the same places."""
    html = made(all_of(name), name)
    hostile = Elements(html)
    assert hostile.names == INNOCENT.names
    assert [sorted(attributes) for _, attributes in hostile.tags] == [
        sorted(attributes) for _, attributes in INNOCENT.tags
    ]
    assert hostile.code == INNOCENT.code
    assert not hostile.comments
    assert shown(name) in hostile.texts
    assert all(line.isprintable() for line in hostile.texts)
    ElementTree.fromstring(re.sub(r"(?s)^<!DOCTYPE html>|<(style|script)>.*?</\1>", "", html))


def test_the_page_may_load_nothing() -> None:
    """Its policy names its style and its script by hash; there is no address in it."""
    html = made(all_of("x"))
    elements = Elements(html)
    policies = [
        attributes["content"]
        for name, attributes in elements.tags
        if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
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
    assert all(
        str(attributes["href"]).startswith("#") for name, attributes in elements.tags if name == "a"
    )


def test_equal_results_make_equal_pages() -> None:
    """No clock and no chance plays a part."""
    assert made(all_of("x")) == made(all_of("x"))


@pytest.mark.parametrize("kind", ["ingest", "whatif", "usage", "load"])
def test_one_result_is_enough(tmp_path: Path, kind: str) -> None:
    """Its section and the files are there, and every link leads somewhere."""
    write_results(tmp_path / "all")
    (tmp_path / "run").mkdir()
    (tmp_path / "all" / f"{kind}.json").rename(tmp_path / "run" / f"{kind}.json")
    elements = Elements(made(read_results(tmp_path / "run")))
    places = [attributes["id"] for _, attributes in elements.tags if "id" in attributes]
    links = [attributes["href"] for name, attributes in elements.tags if name == "a"]
    assert places == [kind, "files"]
    assert links == [f"#{place}" for place in places]
    assert f"{kind}.json" in elements.texts


def test_the_head_says_what_the_report_is_of() -> None:
    """Which traffic, which ACLs by digest and offset, which run."""
    texts = Elements(made(all_of("x"), "friday")).texts
    head = " ".join(texts[: texts.index("What if")])
    assert "friday" in head
    assert "2026-11-16 06:00:00 to 2026-11-16 07:00:00 (UTC)" in head
    assert "at log offset 17" in head
    assert "sha256:after" in head
    assert "Load run" in head


def test_what_is_left_out_is_said() -> None:
    """The map is of the listed changes only, and so is the table."""
    some = whatif(newly_denied=changed(left_out=250))
    text = Elements(made(Results(files={}, texts={}, whatif=some))).text
    assert "of the 1 most frequent changes" in text
    assert "of 251 shown; 250 left out of this page, see whatif.json" in text


def test_a_dry_run_shows_its_plan() -> None:
    """And no figures."""
    elements = Elements(made(Results(files={}, texts={}, load=dry_run())))
    assert "A dry run: nothing was asked." in elements.texts
    assert "svg" not in elements.names


def test_codes_of_a_question_are_named() -> None:
    """A stream asks in codes, and people read names."""
    texts = Elements(made(Results(files={}, texts={}, load=load()))).texts
    assert {"READ", "TOPIC"} <= set(texts)


def test_long_names_do_not_make_a_long_page() -> None:
    """They are cut, and say so; all of them stand in the JSON."""
    html = made(all_of("x" * 1_000_000))
    assert len(html) < 200_000
    assert f"[{1_000_000 - NAME_MAX:,} characters]" in html


def test_several_operations_have_a_map_of_their_own() -> None:
    """Of one there is nothing to compare; every cell of a map is a number."""
    one = whatif(newly_denied=changed("READ"), newly_allowed=NOTHING_CHANGED)
    operations = [OperationCount(operation=name, events=6, tuples=1) for name in ("READ", "WRITE")]
    denied = msgspec.structs.replace(one.newly_denied, by_operation=operations)
    several = msgspec.structs.replace(one, newly_denied=denied)
    captions = [
        Elements(made(Results(files={}, texts={}, whatif=each))).names.count("figcaption")
        for each in (one, several)
    ]
    assert captions == [1, 2]
