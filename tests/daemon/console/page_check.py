"""Check that a page runs and loads nothing but the console's own files."""

import re
from html.parser import HTMLParser

FORBIDDEN = {"script", "style", "iframe", "object", "embed", "base", "img", "svg"}


class Checker(HTMLParser):
    """Note what a page would run or load, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.texts: list[str] = []
        self._is_field = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._is_field = tag == "textarea"  # it repeats what the visitor has typed
        named = dict(attributes)
        own = tag == "script" and (named.get("src") or "").startswith("/console/static/")
        if tag in FORBIDDEN and not own:
            self.faults.append(f"<{tag}>")
        for name, value in attributes:
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.faults.append(f"{tag} {name}")
            is_link = name in ("href", "src", "action")
            if is_link and not (value or "").startswith(("/console/", "#")):
                self.faults.append(f"{name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._is_field = False

    def handle_data(self, data: str) -> None:
        if not self._is_field:
            self.texts.append(data)


def check_page(page: str) -> str:
    """Check that a page runs and loads nothing foreign, and return its text."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.faults == []
    text = "".join(checker.texts)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    return text
