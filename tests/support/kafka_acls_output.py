"""Parse the output of kafka-acls or of ``authorizerd acls`` into a set of bindings."""

import re

HEADER = re.compile(r"Current ACLs for resource `(ResourcePattern\(.*\))`:")


def bindings(printed: str) -> set[tuple[str, str]]:
    """Return the pattern and entry of each binding, as printed."""
    found: set[tuple[str, str]] = set()
    pattern = ""
    for line in printed.splitlines():
        if (header := HEADER.fullmatch(line)) is not None:
            pattern = header[1]
        elif line:
            assert line.startswith("\t(principal=")
            assert (pattern, line) not in found
            found.add((pattern, line))
    return found
