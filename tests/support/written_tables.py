"""Tables in documents that programs write, between two comments.

The first comment names the command. Only the text between the comments is replaced.
"""

from collections.abc import Iterable, Sequence
from typing import Final

END: Final = "<!-- end of what is written -->"


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def replace_table(page: str, command: str, table: str) -> str:
    """Return the page with ``table`` in the place that names ``command``.

    Raises:
        AssertionError: the page has no such place.
    """
    begin = f"<!-- written by: {command} -->\n\n"
    head, found, rest = page.partition(begin)
    _, end, tail = rest.partition(END)
    assert found, f"expected {begin!r}"
    assert end, f"expected {END!r} after {begin!r}"
    return f"{head}{begin}{table}\n{END}{tail}"
