"""Read a page as a browser does, with Python's own parser."""

import html.parser

from hypothesis import strategies as st

from authorizerd.replay.report.rendering import ENVIRONMENT

HOSTILE_PARTS = st.sampled_from(
    [
        *("</script>", "<script>alert(1)</script>", "</style>", "<!--", "-->", "]]>", "</td>"),
        *('"', "'", "=", " onload=x ", "&", "&lt;", "&#60;", "<img src=x>", "`", "<", ">", "\\"),
        *("{{ 7 * 7 }}", "{% raw %}", "{#"),
        *("\ud800", "\x00", "\x1b[31m", "\r\n", "\u202e", "\u200f", "\u2028", "\u0301"),
        *("שלום", "é", "😀"),
    ]
)
HOSTILE = (
    st.lists(HOSTILE_PARTS | st.text(max_size=3), min_size=1, max_size=6).map("".join).filter(bool)
)


class Elements(html.parser.HTMLParser):
    """``tags`` are (name, attributes) in order; ``texts`` are outside style and script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.code: dict[str, str] = {}
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.tags]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside in ("style", "script"):
            self.code[inside] = self.code.get(inside, "") + data
        elif data.strip():
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def call_macro(template: str, name: str, *arguments: object, **options: object) -> str:
    macro = getattr(ENVIRONMENT.get_template(template).module, name)
    return str(macro(*arguments, **options))
