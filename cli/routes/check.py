"""``authorizerd routes check FILE``: check a file of routes, and run its tests.

Exit codes: 0 the file is valid and all tests pass, 1 a fault in a file, 2 invalid arguments, 3 a
test fails, or a request is denied.

**Invariant:** the command reads files only; it shows what a request would ask, and not the answer.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli import flags
from authorizerd.cli.errors import CommandError
from authorizerd.cli.main import EXIT_FAULT
from authorizerd.cli.output import EXIT_DENIED, align, print_document, print_lines
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.routes.document import Routes, parse_routes_file, parse_tests_file
from authorizerd.config.routes.route_tests import RouteTest, ask_table
from authorizerd.daemon.decisions.route_file import FILE_BYTES_MAX

_REQUEST: Final = re.compile(r"(\S+)\s+(\S+)")


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``routes check``."""

    file: Path
    request: tuple[str, ...]
    tests: tuple[Path, ...]
    json: bool


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of one request. ``line`` is that of its route, None without a route."""

    method: str
    target: str
    questions: tuple[str, ...]
    denial: str
    line: int | None


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of routes")
    text = "show what this request would ask, such as 'POST /topics/orders'; may be repeated"
    flags.add_list(parser, "--request", "REQUEST", text)
    text = "also run the tests of this YAML file, which has 'tests' only; may be repeated"
    flags.add_list(parser, "--tests", "FILE", text, type=Path)
    flags.add_json_argument(parser)


def _run(given: argparse.Namespace) -> int:
    return check_routes(flags.read_request(CheckRequest, given))


def check_routes(request: CheckRequest) -> int:
    requests = [_split_request(text) for text in request.request]
    try:
        routes = parse_routes_file(_read(request.file), source=str(request.file))
        tests = [(str(request.file), test) for test in routes.tests]
        for path in request.tests:
            tests += [(str(path), test) for test in parse_tests_file(_read(path), source=str(path))]
    except ConfigurationError as error:
        sys.stderr.write("".join(f"{fault}\n" for fault in error.faults))
        faults = count_of(len(error.faults), "fault")
        sys.stderr.write(f"authorizerd: {faults} in files of routes; nothing was checked\n")
        return EXIT_FAULT
    failures = list(_find_failures(routes, tests))
    shown = [_show(routes, method, target) for method, target in requests]
    if request.json:
        print_document(_new_document(routes, tests, failures, shown))
    else:
        print_lines(_describe(str(request.file), routes, tests, failures, shown))
    is_denied = any(not each.questions for each in shown)
    return EXIT_DENIED if failures or is_denied else 0


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise CommandError(f"{path}: expected at most {FILE_BYTES_MAX} bytes")
        return data.decode()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: expected UTF-8 text") from error


def _split_request(text: str) -> tuple[str, str]:
    found = _REQUEST.fullmatch(text)
    if found is None:
        raise CommandError(
            f"--request: expected METHOD TARGET, such as 'POST /topics/orders', found '{text}'"
        )
    return found[1], found[2]


def _show(routes: Routes, method: str, target: str) -> Shown:
    asked, line = ask_table(routes.table, method, target)
    return Shown(
        method=method,
        target=target,
        questions=asked.questions,
        denial=asked.denial,
        line=None if line is None else line.number,
    )


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A test that fails."""

    file: str
    line: int
    test: str
    expected: str
    found: str
    reason: str
    route: int | None


def _find_failures(routes: Routes, tests: Sequence[tuple[str, RouteTest]]) -> Iterator[Failure]:
    for source, test in tests:
        asked, route = ask_table(routes.table, test.method, test.target)
        if set(asked.questions) != set(test.expected.questions):
            yield Failure(
                file=source,
                line=test.line.number,
                test=test.line.text,
                expected=str(test.expected),
                found=str(asked),
                reason=asked.denial,
                route=None if route is None else route.number,
            )


def _describe(
    source: str,
    routes: Routes,
    tests: Sequence[tuple[str, RouteTest]],
    failures: Sequence[Failure],
    shown: Sequence[Shown],
) -> Iterator[str]:
    identity = routes.reader.identity
    yield (
        f"{source}: {count_of(len(routes.table.routes), 'route')}, for the gateway"
        f" {routes.gateway.name}; the user is in {identity.principal_header}, the client's address"
        f" in {identity.host_header}"
    )
    denials = [route for route in routes.table.routes if not route.questions]
    if denials:
        yield "always denied:"
        yield from align(
            [(f"line {each.line.number}: {each.shown}", each.denial) for each in denials]
        )
    for each in shown:
        yield f"{each.method} {each.target}"
        route = "" if each.line is None else f", by line {each.line}"
        if each.questions:
            yield f"  asks {', '.join(each.questions)}{route}"
        else:
            yield f"  is denied{route}: {each.denial}"
    for failure in failures:
        yield f"FAILED {failure.file}:{failure.line}: {failure.test}"
        route = "no route" if failure.route is None else f"line {failure.route}"
        reason = f" ({failure.reason})" if failure.reason else ""
        yield f"  expected {failure.expected}, found {failure.found}{reason}, by {route}"
    if tests:
        passed = len(tests) - len(failures)
        yield f"{count_of(passed, 'test')} of {len(tests)} passed"


def _new_document(
    routes: Routes,
    tests: Sequence[tuple[str, RouteTest]],
    failures: Sequence[Failure],
    shown: Sequence[Shown],
) -> dict[str, object]:
    identity = routes.reader.identity
    return {
        "gateway": routes.gateway.name,
        "principal_header": identity.principal_header,
        "host_header": identity.host_header,
        "routes": len(routes.table.routes),
        "denied": [
            {"line": each.line.number, "route": each.shown, "reason": each.denial}
            for each in routes.table.routes
            if not each.questions
        ],
        "requests": shown,
        "passed": len(tests) - len(failures),
        "failed": failures,
    }
