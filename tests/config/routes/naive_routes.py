"""A route table by plain scan: one regular expression for each route, and no shared code.

It reads patterns and questions in their simplest form, which ``tables`` generates.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

METHODS = ("GET", "POST")
WORDS = ("a", "b", "A", "ab", "aB")
PARTS = ("{%s}", "a{%s}", "{%s}b", "a{%s}b", "A{%s}")


@dataclass(frozen=True)
class Row:
    """A route as it was generated. ``questions`` are the names of topics; none means DENY."""

    methods: tuple[str, ...]
    segments: tuple[str, ...]
    questions: tuple[str, ...]

    @property
    def pattern(self) -> str:
        return "/" + "/".join(self.segments)

    @property
    def text(self) -> str:
        asked = ", ".join(f"READ TOPIC {name}" for name in self.questions) or "DENY it is closed"
        return f"{'|'.join(self.methods)} {self.pattern} -> {asked}"

    def match(self, path: str, *, ignores_case: bool) -> tuple[str, ...] | None:
        """Return the topics that the route asks about, or None if it does not match."""
        written = "".join(
            "/.+"
            if each == "**"
            else "/" + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(each))
            for each in self.segments
        )
        flags = re.DOTALL | (re.IGNORECASE if ignores_case else 0)
        found = re.fullmatch(written or "/", path, flags)
        return (
            None
            if found is None
            else tuple(each.format(**found.groupdict()) for each in self.questions)
        )


def ask_naively(rows: Sequence[Row], method: str, segments: Sequence[str]) -> tuple[str, ...]:
    """Return the topics that a request asks about; none if it is denied."""
    path = "/" + "/".join(segments)
    for row in rows:
        if method in row.methods and row.match(path, ignores_case=True) is not None:
            return row.match(path, ignores_case=False) or ()
    return ()


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A route. Its questions use its own variables."""
    drawn = draw(st.lists(st.sampled_from((*WORDS, *PARTS, *PARTS[:1] * 4)), max_size=4))
    names = [f"v{index}" for index in range(len(drawn))]
    segments = [
        each % name if "%" in each else each for each, name in zip(drawn, names, strict=True)
    ]
    used = [name for each, name in zip(drawn, names, strict=True) if "%" in each]
    if draw(st.booleans()):
        segments.append("**")
    templates = [
        "t",
        *(f"{{{name}}}" for name in used),
        *(f"x-{{{name}}}.{{{name}}}" for name in used),
    ]
    questions = draw(st.lists(st.sampled_from(templates), max_size=3))
    methods = draw(st.sampled_from([("GET",), ("POST",), METHODS]))
    return Row(methods, tuple(segments), tuple(questions))


def tables() -> st.SearchStrategy[list[Row]]:
    return st.lists(rows(), max_size=8)


def paths() -> st.SearchStrategy[list[str]]:
    """Decoded segments that often match a route."""
    segment = st.one_of(
        st.sampled_from((*WORDS, "x", "X", "axb", "xb", "ax", "aXB", "Axb", "é", "ı", "AÁb")),
        st.text("abAB", min_size=1, max_size=4),
    )
    return st.lists(segment, max_size=5)
