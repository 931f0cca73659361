from __future__ import annotations

import pytest

from authorizerd.config.errors import ConfigurationError


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        (12, "listeners", "server.properties:12: listeners: is wrong"),
        (None, "log.dirs", "server.properties: log.dirs: is wrong"),
        (3, "", "server.properties:3: is wrong"),
    ],
)
def test_an_error_names_the_place_then_the_key_then_the_reason(
    line: int | None, key: str, text: str
) -> None:
    """What is unknown is left out; the rest keeps its order."""
    error = ConfigurationError("server.properties", line, key, "is wrong")
    assert str(error) == text
    assert (error.source, error.line, error.key, error.reason) == (
        "server.properties",
        line,
        key,
        "is wrong",
    )


def test_an_error_is_one_line_whatever_the_file_holds() -> None:
    """Line ends, controls and lone surrogates are written as escapes, letters are not."""
    error = ConfigurationError("s", 1, "a\nb", "é\x00\u2028\udcff is wrong")
    assert str(error) == r"s:1: a\nb: é\x00\u2028\udcff is wrong"
