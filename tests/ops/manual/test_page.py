"""The manual page's text."""

from __future__ import annotations

import pytest

from ops.manual.page import escaped, man_page
from ops.manual.surface import Command, Option


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".so /etc/passwd", "\\&.so /etc/passwd"),
        ("'quoted'", "\\&'quoted'"),
        ("--flag", "\\-\\-flag"),
        ("a\\fBb", "a\\efBb"),
        ("two\n.lines", "two .lines"),
    ],
)
def test_a_text_is_no_request(text: str, expected: str) -> None:
    """Whatever a help says, it is printed."""
    assert escaped(text) == expected


def test_each_command_option_and_code_has_its_place() -> None:
    """Options in the order of the parser, what is required said so, one without help a dash."""
    options = (
        Option(names=("-c", "--config"), value="FILE", help="its file", is_required=True),
        Option(names=(), value="DIR", help="where"),
        Option(names=("--cluster",), value="", help=""),
    )
    page = man_page(
        [Command(words=("authorizerd", "x"), help="do it", options=options)], [["x", "3", "No."]]
    )
    assert (
        ".SS authorizerd x\nDo it.\n"
        ".TP\n\\fB\\-c, \\-\\-config\\fR \\fIFILE\\fR\nits file (required)\n"
        ".TP\n\\fBDIR\\fR\nwhere\n"
        ".TP\n\\fB\\-\\-cluster\\fR\n\\-\n"
        ".SH EXIT STATUS\n.TP\n.B x: 3\nNo.\n"
    ) in page
