"""Servers behind a gateway, as models: the segments that each of them sees in a target.

They share no code with the reader of targets. ``see_once`` is a sound server; ``see_leniently`` has
all the habits that servers have with paths.
"""

import re
from unicodedata import normalize
from urllib.parse import unquote_to_bytes


def see_once(target: str) -> list[str]:
    """Decode each segment once, after the split."""
    path = target.partition("?")[0]
    return [_decode(each) for each in path.removeprefix("/").split("/")] if path != "/" else []


def see_decoded(target: str) -> list[str]:
    """Decode the path once, before the split, as a rewriting proxy does."""
    path = _decode(target.partition("?")[0]).partition("?")[0].partition("#")[0]
    return path.removeprefix("/").split("/") if path != "/" else []


def see_leniently(target: str) -> list[str]:
    """Decode twice, cut off parameters, and tidy the path."""
    path = re.sub(r"\A\w+://[^/]*", "", target).partition("?")[0].partition("#")[0]
    path = _decode(_decode(path.replace("+", " ")))
    path = normalize("NFKC", path.partition("?")[0].partition("#")[0].partition("\0")[0])
    segments: list[str] = []
    for segment in re.split(r"[/\\]+", path.strip("\r\n\t ")):
        segment = segment.partition(";")[0]
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return segments


def _decode(text: str) -> str:
    unicode_escapes = re.sub(r"%u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), text)
    data = unquote_to_bytes(unicode_escapes)
    # An overlong "/" or "." in UTF-8 that a lenient decoder accepts.
    data = data.replace(b"\xc0\xaf", b"/").replace(b"\xc0\xae", b".")
    return data.decode("utf-8", "replace")
