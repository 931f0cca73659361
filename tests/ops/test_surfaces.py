"""The table of surfaces and rights in the documentation."""

from __future__ import annotations

from ops.surfaces import PAGE, write_page


def test_table_is_up_to_date() -> None:
    """``python -m ops.surfaces`` updates it."""
    text = PAGE.read_text()
    assert "| decision stream | yes | `ask` |" in text
    assert write_page(text) == text
