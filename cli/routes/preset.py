"""``authorizerd routes preset [NAME]``: print the routes of a known product.

**Invariant:** the file is printed word for word, comments too: they say what the user may have to
change.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from typing import Final

from authorizerd.acl.text.typos import find_similar
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import align, print_lines

_ENDING: Final = ".yaml"


def add_preset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    text = "the product, such as strimzi-bridge (default: list all)"
    parser.add_argument("name", nargs="?", metavar="NAME", help=text)


def _run(arguments: argparse.Namespace) -> int:
    presets = read_presets()
    name: str | None = arguments.name
    if name is None:
        print_lines(align([(each, get_title(text)) for each, text in presets.items()]))
    elif name in presets:
        sys.stdout.write(presets[name])
    else:
        meant = find_similar(name, presets)
        hint = "" if meant is None else f" (did you mean {meant}?)"
        raise CommandError(f"unknown preset '{name}'{hint}: expected one of {', '.join(presets)}")
    return 0


def read_presets() -> dict[str, str]:
    """Return the text of each preset by its name, in alphabetical order."""
    found = files("authorizerd.presets").iterdir()
    texts = {each.name: each.read_text("utf-8") for each in found if each.name.endswith(_ENDING)}
    return {name.removesuffix(_ENDING): texts[name] for name in sorted(texts)}


def get_title(text: str) -> str:
    """Return a preset's first line, without the mark of a comment."""
    return text.partition("\n")[0].removeprefix("# ")
