"""The script that carries out the suggestions with kafka-acls. It adds before it removes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from authorizerd.acl.kafka_acls import entry_arguments
from authorizerd.acl.model import Acl
from authorizerd.acl.printable import escape_unprintable

_OPENING: Final = """\
set -eu
if [ $# -eq 0 ]; then
    echo "usage: sh $0 --bootstrap-server HOST:PORT [--command-config FILE]" >&2
    exit 2
fi
: "${KAFKA_ACLS:=kafka-acls}" # or kafka-acls.sh, or authorizerd acls
"""


def script(comments: Sequence[str], added: Iterable[Acl], removed: Sequence[Acl]) -> str:
    """Return a shell script that adds ACLs, then removes others, and stops at the first failure.

    The script passes its own arguments (the cluster's address and the login) to every command.
    """
    lines = ["#!/bin/sh", *(f"# {escape_unprintable(comment)}" for comment in comments)]
    lines += _OPENING.splitlines()
    lines += _section("Add the narrower grants before removing the wide ones", ["--add"], added)
    lines += _section("Remove the wide and the unused grants", ["--remove", "--force"], removed)
    return "\n".join(lines) + "\n"


def _section(title: str, flags: list[str], acls: Iterable[Acl]) -> Iterator[str]:
    yield ""
    yield f"# {title}"
    none = True
    for acl in acls:
        none = False
        yield f'$KAFKA_ACLS "$@" {shlex.join([*flags, *entry_arguments(acl)])}'
    if none:
        yield "# none"
