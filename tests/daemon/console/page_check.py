"""Check that a page runs and loads nothing but the console's own files."""

import re
from html.parser import HTMLParser

FORBIDDEN = {"script", "style", "iframe", "object", "embed", "base", "img"}
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "' onfocus='alert(1)' autofocus='",
    "{{ 7 * 7 }}{% raw %}",
    "</title></textarea></table><h1>owned",
    "javascript:alert(1)",
    "\u202egnp.exe\u202c\u2066",
    "tab\tline\nfeed\r\x00\x1b[31mred\x7f\x9b",
    "&lt;b&gt;&amp;#x27;",
    "x" * 2_000,
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
)
"""Names that would run code, or change how a page looks, if they were more than text."""
IN_PICTURES = {"svg", "title", "desc", "g", "path", "line", "rect", "text"}
"""The only elements in a picture: none of them loads or runs anything."""


class Checker(HTMLParser):
    """Note what a page would run or load, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.texts: list[str] = []
        self._is_field = False
        self._depth = 0  # of svg elements

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._is_field = tag == "textarea"  # it repeats what the visitor has typed
        named = dict(attributes)
        own = tag == "script" and (named.get("src") or "").startswith("/console/static/")
        is_picture = tag == "svg" and named.get("class") == "picture"
        self._depth += tag == "svg" and (is_picture or self._depth > 0)
        if (tag in FORBIDDEN and not own) or (tag == "svg" and not self._depth):
            self.faults.append(f"<{tag}>")
        if self._depth and tag not in IN_PICTURES:
            self.faults.append(f"<{tag}> in a picture")
        for name, value in attributes:
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.faults.append(f"{tag} {name}")
            is_link = name in ("href", "src", "action")
            if is_link and not (value or "").startswith(("/console/", "#")):
                self.faults.append(f"{name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._is_field = False
        self._depth -= tag == "svg" and self._depth > 0

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
