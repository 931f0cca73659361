"""``authorizerd doctor``: find problems of the daemon on this machine, before or after it starts.

**Invariant:** the command prints no secret and changes nothing. It removes the file that it writes
to measure the disk, and does not interfere with a running daemon's addresses.

Exit codes: 0 no errors (there may be warnings), 1 the examination failed or the arguments are
invalid, 2 errors were found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.configuration_file import read_configuration_text
from authorizerd.cli.doctor.finding import Finding, Level, error, ok, warning
from authorizerd.cli.flags import add_config_arguments, add_switch
from authorizerd.cli.output import paint, print_document
from authorizerd.cli.program.command_parser import CheckParser
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.hints import find_file_hints
from authorizerd.config.keys import describe_ignored_key

EXIT_NOT_EXAMINED: Final = 1
EXIT_ERRORS: Final = 2

_CHECK: Final = "configuration"
_ORDER: Final = (Level.ERROR, Level.WARNING, Level.OK)


def new_parser() -> CheckParser:
    parser = CheckParser(
        prog="authorizerd doctor",
        description="Find problems that would prevent the daemon from running on this machine.",
    )
    add_config_arguments(parser)
    add_switch(parser, "--json", "print one JSON document")
    return parser


def run_doctor(words: Sequence[str], out: TextIO | None = None) -> int:
    out = out or sys.stdout
    arguments = new_parser().parse_words(words)
    found = []
    for finding in examine(arguments.config, arguments.override):
        found.append(finding)
        if not arguments.json:
            out.write(f"{paint(finding.line(), out)}\n")
            out.flush()  # some checks are slow
    worst = next(level for level in _ORDER if any(each.level is level for each in found))
    if arguments.json:
        print_document({"result": worst, "findings": found}, out)
    else:
        out.write(_summary(found))
    return EXIT_ERRORS if worst is Level.ERROR else 0


def _summary(found: Sequence[Finding]) -> str:
    counts = {level: sum(each.level is level for each in found) for level in _ORDER}
    errors, warnings = (count_of(counts[each], each.value) for each in (Level.ERROR, Level.WARNING))
    return f"{errors}, {warnings}\n"


def examine(config: Path, overrides: Sequence[str]) -> Iterator[Finding]:
    """Yield all findings; with an invalid configuration, only those about the machine."""
    text = read_configuration_text(config)
    configuration = None
    try:
        configuration = parse(text, source=str(config), overrides=overrides)
    except ConfigurationError as invalid:
        advice = "correct it, then run doctor again: the other checks need a valid configuration"
        yield from (error(_CHECK, str(fault), advice) for fault in invalid.faults)
    else:
        yield from _examine_configuration(configuration)
    # Imported here, so that the findings above are printed before the other checks are loaded.
    from authorizerd.cli.doctor.surroundings import examine_machine, examine_surroundings

    if configuration is not None:
        yield from examine_surroundings(config, configuration)
    yield from examine_machine()


def _examine_configuration(configuration: Configuration) -> Iterator[Finding]:
    yield ok(_CHECK, f"valid, node.id {configuration.node_id}")
    if configuration.ignored_keys:
        names = ", ".join(map(describe_ignored_key, configuration.ignored_keys))
        advice = "remove the keys that only a broker reads, and check for typos"
        yield warning(_CHECK, f"unsupported keys are ignored: {names}", advice)
    for hint in find_file_hints(configuration):
        yield warning(_CHECK, hint, "correct it, unless it is intended")
