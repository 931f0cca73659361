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
def test_error_names_place_key_and_reason(line: int | None, key: str, text: str) -> None:
    error = ConfigurationError("server.properties", line, key, "is wrong")
    assert str(error) == text
    assert (error.source, error.line, error.key, error.reason) == (
        "server.properties",
        line,
        key,
        "is wrong",
    )


def test_error_is_one_line_whatever_the_file_contains() -> None:
    error = ConfigurationError("s", 1, "a\nb", "é\x00\u2028\udcff is wrong")
    assert str(error) == r"s:1: a\nb: é\x00\u2028\udcff is wrong"
