"""Write the table of surfaces and rights in docs/security-model.md.

Run ``python -m tools.surfaces`` to update the page; a test compares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from authorizerd.daemon.console.setup import ACLS_ONLY, NAVIGATION, NEEDS
from authorizerd.daemon.decisions.route_file import FORWARD_PATH
from authorizerd.daemon.decisions.stream_server import NEEDS as STREAM_NEEDS
from authorizerd.protocol.http.rights import (
    ACLS,
    DECISIONS,
    DENIALS,
    EVALUATIONS,
    EXPLANATIONS,
    FORWARDED,
    HISTORIES,
    OWN_SEARCHES,
    SEARCHES_OF_ALL,
    Needs,
    Right,
)

ENDPOINT_NEEDS: Final[Mapping[str, Needs]] = {
    "POST /access/v1/evaluation": EVALUATIONS,
    "POST /access/v1/evaluations": EVALUATIONS,
    "POST /access/v1/search/subject": SEARCHES_OF_ALL,
    "POST /access/v1/search/resource": OWN_SEARCHES,
    "POST /access/v1/search/action": OWN_SEARCHES,
    "POST /v1/explain": EXPLANATIONS,
    "POST /v1/history": HISTORIES,
    "POST /v1/data": DECISIONS,
    "POST /v1/data/{policy}": DECISIONS,
    "GET /v1/acls": ACLS,
    "GET /v1/state": ACLS,
    "GET /v1/watch": ACLS,
}
"""The rights that endpoints require of callers with credentials; tests try each."""

PAGE: Final = Path(__file__).parents[1] / "docs" / "security-model.md"
BEGIN: Final = "<!-- written by: python -m tools.surfaces -->\n\n"
END: Final = "<!-- end of what is written -->"
_HEAD: Final = (
    "| surface | about itself | about others | with `as_of`, also | without credentials |",
    "|---|---|---|---|---|",
)
_EXPLAINED: Final = "an evaluation with `explain` in its context"


def list_surfaces() -> Iterator[tuple[str, Needs]]:
    """Yield every surface that knows its callers, with the rights that it requires of them."""
    for endpoint, needs in ENDPOINT_NEEDS.items():
        yield f"`{endpoint}`", needs
    yield _EXPLAINED, EXPLANATIONS
    yield f"`{FORWARD_PATH}`, of a gateway", FORWARDED
    yield "decision stream", STREAM_NEEDS
    for path, title in {**NAVIGATION, **ACLS_ONLY}.items():
        yield f"console: {title}", NEEDS[path]
        if title == "Live":
            yield f"console: {title}, its denials", DENIALS


def write_table() -> str:
    """Return the table."""
    return "\n".join((*_HEAD, *(_row(name, needs) for name, needs in list_surfaces()), ""))


def _row(name: str, needs: Needs) -> str:
    itself, others = _cell(needs.itself), _cell(needs.others)
    if name == _EXPLAINED:
        others = f"{others} and {_cell(Right.ASK)}"
    past = "" if needs.past in (None, needs.itself) else _cell(needs.past)
    return f"| {name} | {itself} | {others} | {past} | {'yes' if needs.trusts else 'refused'} |"


def _cell(right: Right | None) -> str:
    return "yes" if right is None else f"`{right}`"


def write_page(text: str) -> str:
    """Return the page with its table replaced by the current one."""
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert end, f"{PAGE}: expected {BEGIN} before {END}"
    return f"{head}{BEGIN}{write_table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text()))
