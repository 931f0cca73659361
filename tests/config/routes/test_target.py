"""A target is split into decoded segments, or refused if it has two readings."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.routes.errors import REFUSED, RefusedRequestError
from authorizerd.config.routes.target import (
    SEGMENTS_MAX,
    TARGET_BYTES_MAX,
    fold,
    fold_all,
    split_target,
)

ACCEPTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("/", ()),
    ("/?a=b", ()),
    ("/topics/orders", ("topics", "orders")),
    ("/topics/orders?a=/../b;c#%zz//", ("topics", "orders")),
    ("/topics/orders??", ("topics", "orders")),
    ("/topics/a%20b", ("topics", "a b")),
    ("/topic%73/%C3%A9", ("topics", "é")),
    ("/a.b/..c/d../...", ("a.b", "..c", "d..", "...")),
    ("/~a/$b/'c'(d)!*", ("~a", "$b", "'c'(d)!*")),
    ("/clusters/x/topics/t/configs:alter", ("clusters", "x", "topics", "t", "configs:alter")),
    ("/a%2Bb%26c%3Dd%2Ce", ("a+b&c=d,e",)),
    ("/a%22b%7B%7D%5Bc%5D%3C%3E", ('a"b{}[c]<>',)),
    ("/x?key=_method", ("x",)),
    ("/x?auth_method=1&method=2&my_method=3", ("x",)),
    ("/a" * SEGMENTS_MAX, ("a",) * SEGMENTS_MAX),
    (f"/{'a' * (TARGET_BYTES_MAX - 1)}", ("a" * (TARGET_BYTES_MAX - 1),)),
)
REFUSED_TARGETS: tuple[tuple[str, str], ...] = (
    ("", "does not begin with '/'"),
    ("?a", "does not begin with '/'"),
    ("*", "does not begin with '/'"),
    ("topics/x", "does not begin with '/'"),
    ("http://h/topics/x", "does not begin with '/'"),
    ("//", "empty segment"),
    ("//topics/x", "empty segment"),
    ("/topics//x", "empty segment"),
    ("/topics/x/", "empty segment"),
    ("/topics/x/?a", "empty segment"),
    ("/topics/.", "segment '.'"),
    ("/topics/..", "segment '..'"),
    ("/./topics", "segment '.'"),
    ("/../topics", "segment '..'"),
    ("/topics/x/../y", "segment '..'"),
    ("/topics/%2e", "segment '.'"),
    ("/topics/.%2E/y", "segment '..'"),
    ("/topics/%2e%2e/y", "segment '..'"),
    ("/topics/a%2Fb", "encoded '/' (%2F)"),
    ("/topics/a%2fb", "encoded '/' (%2F)"),
    ("/topics/a%5Cb", "encoded '\\' (%5C)"),
    ("/topics/a%3Bb", "encoded ';' (%3B)"),
    ("/topics/a%3Fb", "encoded '?' (%3F)"),
    ("/topics/a%23b", "encoded '#' (%23)"),
    ("/topics/a%252Fb", "encoded '%' (%25)"),
    ("/topics/100%25", "encoded '%' (%25)"),
    ("/topics/a;b=c", "the character ';'"),
    ("/topics;/x", "the character ';'"),
    ("/topics/a\\b", "the character '\\\\'"),
    ("/topics/a+b", "the character '+'"),
    ("/topics/a b", "the character ' '"),
    ("/topics/a#b", "the character '#'"),
    ('/topics/a"b', "the character '\"'"),
    ("/topics/{a}", "the character '{'"),
    ("/topics/a|b", "the character '|'"),
    ("/topics/a\x00b", "the character '\\x00'"),
    ("/topics/a\nb", "the character '\\n'"),
    ("/topics/a\n", "the character '\\n'"),
    ("/topics/é", "the character '\\xe9'"),
    ("/topics/%", "'%' without two hexadecimal digits"),
    ("/topics/%4", "'%' without two hexadecimal digits"),
    ("/topics/%4g", "'%' without two hexadecimal digits"),
    ("/topics/%u002f", "'%' without two hexadecimal digits"),
    ("/topics/a%00", "control character"),
    ("/topics/a%0A", "control character"),
    ("/topics/a%0d%0ab", "control character"),
    ("/topics/a%7F", "control character"),
    ("/topics/a%C2%85", "control character"),
    ("/topics/%20a", "blank at its beginning or end"),
    ("/topics/a%20", "blank at its beginning or end"),
    ("/topics/%20", "blank at its beginning or end"),
    ("/topics/%ff", "does not encode UTF-8"),
    ("/topics/%C0%AF", "does not encode UTF-8"),
    ("/topics/%E0%80%AF", "does not encode UTF-8"),
    ("/topics/%ED%A0%80", "does not encode UTF-8"),
    ("/topics/a%EF%BC%8Fb", "form NFKC"),
    ("/topics/%EF%BC%8E%EF%BC%8E", "form NFKC"),
    ("/topics/%E2%84%AA", "form NFKC"),
    ("/topics/e%CC%81", "form NFKC"),
    ("/x?_method=PUT", "the key '_method'"),
    ("/x?a=b&_METHOD=PUT", "the key '_method'"),
    ("/x?a;_method=PUT", "the key '_method'"),
    ("/x?a?_method=PUT", "the key '_method'"),
    ("/x?%5Fmethod=PUT", "the key '_method'"),
    ("/x?%255Fmetho%64=PUT", "the key '_method'"),
    ("/x?a%26_method=PUT", "the key '_method'"),
    ("/x?_method[]=PUT", "the key '_method'"),
    ("/x?.method=PUT", "the key '_method'"),
    ("/x?+_method=PUT", "the key '_method'"),
    ("/a" * (SEGMENTS_MAX + 1), f"more than {SEGMENTS_MAX} segments"),
    (f"/{'a' * TARGET_BYTES_MAX}", f"more than {TARGET_BYTES_MAX} bytes"),
)


@pytest.mark.parametrize(("target", "segments"), ACCEPTED)
def test_target_is_split_and_decoded_once(target: str, segments: tuple[str, ...]) -> None:
    assert split_target(target) == segments


@pytest.mark.parametrize(("target", "reason"), REFUSED_TARGETS)
def test_target_with_two_readings_is_refused(target: str, reason: str) -> None:
    with pytest.raises(RefusedRequestError, match=re.escape(reason)) as refusal:
        split_target(target)
    assert refusal.value.status == REFUSED


@given(st.text(max_size=12), st.text("/.%;+25Ff3bB\\?#a é\x00", max_size=12))
def test_every_text_is_accepted_or_refused(first: str, second: str) -> None:
    for target in (first, f"/{second}", f"/{first}/{second}"):
        try:
            segments = split_target(target)
        except RefusedRequestError:
            continue
        for segment in segments:
            assert segment.isprintable() or not segment.isascii()
            assert segment not in ("", ".", "..")
            assert not set(segment) & set("/\\;%?#")


@pytest.mark.parametrize(("segment", "folded"), [
    ("topics", "topics"), ("TOPICS", "topics"), ("TöPıCS", "topics"), ("ſ", "s"), ("K", "k"),
    ("İ", "i"), ("ß", "ss"), ("Ｔ", "t"),
])  # fmt: skip
def test_segments_that_a_server_may_confuse_are_equal(segment: str, folded: str) -> None:
    assert fold(segment) == folded
    assert list(fold_all((segment, "A"))) == [folded, "a"]


def test_no_segments_stay_none() -> None:
    assert list(fold_all(())) == []
