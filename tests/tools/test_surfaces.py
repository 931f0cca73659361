"""The table of surfaces and rights in the documentation."""

from __future__ import annotations

from tests.support.api_documents import DECISION_ENDPOINTS
from tools.surfaces import ENDPOINT_NEEDS, PAGE, write_page


def test_table_is_up_to_date() -> None:
    """``python -m tools.surfaces`` updates it."""
    text = PAGE.read_text()
    assert "| decision stream | yes | `ask` |" in text
    assert write_page(text) == text


def test_table_has_every_endpoint_that_needs_credentials() -> None:
    described = {
        f"{each.methods[0]} {each.path}" for each in DECISION_ENDPOINTS if not each.is_open
    }
    assert ENDPOINT_NEEDS.keys() == described
