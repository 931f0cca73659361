"""The page for users names every difference that the comparison with a broker accepts."""

from pathlib import Path

from tests.conformance.stated_differences import DIFFERENCES

PAGE = Path("docs/conformance.md")
STATED = {
    "versions that Kafka lacks": "version 0 of the three requests",
    "odd codes": "code 0 in a creation or filter",
    "text of a refusal": "its text is a Java object",
    "users of a refusal": "leaves the users' names empty",
    "APIs of a listener": "ApiVersions lists what is served",
    "supported features": "lists no `kraft.version`",
    "defaults": "The default of `max.connections`",
    "repeated resources": "a repeated resource is described once",
    "documentation of keys": "The documentation of a key",
    "what a value should have been": "names the key's bounds",
}
"""Words of the page, by the name of the difference that they state."""


def test_page_states_every_difference() -> None:
    text = " ".join(PAGE.read_text().split())
    for difference in DIFFERENCES:
        assert STATED[difference.name] in text
