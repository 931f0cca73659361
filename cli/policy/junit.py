"""The report of policy tests as JUnit XML, which CI systems read.

There is no standard. The elements and attributes are those of Jenkins' schema, which GitLab and
GitHub's actions read, too: a suite for each file, a case for each test, and a failure's text.

**Invariant:** the file is well-formed whatever the ACLs contain. XML 1.0 has no way to write most
control characters, so they appear as escape sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final
from xml.etree import ElementTree

from authorizerd.acl.printable import escape_unprintable
from authorizerd.cli.policy.report import describe_failure
from authorizerd.cli.policy.results import Result

_SUITES_NAME: Final = "authorizerd test"
_FAILURE_TYPE: Final = "policy"
_HOST: Final = "localhost"


def write_junit(results: Sequence[Result], begun: float) -> bytes:
    """Return the XML document.

    Args:
        begun: when the tests began, in seconds since 1970.
    """
    root = ElementTree.Element("testsuites", {"name": _SUITES_NAME, **_totals(results)})
    # ISO 8601 without a zone is what the schemas of JUnit's format ask for.
    timestamp = datetime.fromtimestamp(begun, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for number, (source, some) in enumerate(groupby(results, lambda each: each.test.source)):
        _add_suite(root, number, source, list(some), timestamp)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_suite(
    root: ElementTree.Element, number: int, source: str, results: Sequence[Result], timestamp: str
) -> None:
    attributes = {
        "id": str(number),
        "name": escape_unprintable(source),
        "timestamp": timestamp,
        "hostname": _HOST,
        "skipped": "0",
        **_totals(results),
    }
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result in results:
        _add_case(suite, result)


def _add_case(suite: ElementTree.Element, result: Result) -> None:
    test = result.test
    source = escape_unprintable(test.source)
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=escape_unprintable(test.title),
        classname=source,
        file=source,
        line=str(test.line),
        time=_seconds([result]),
    )
    if not result.passed:
        lines = list(describe_failure(result))
        failure = ElementTree.SubElement(
            case, "failure", type=_FAILURE_TYPE, message=f"{lines[0]}; {lines[1]}"
        )
        failure.text = "\n".join(lines)


def _totals(results: Sequence[Result]) -> dict[str, str]:
    failed = sum(not each.passed for each in results)
    return {
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": "0",
        "time": _seconds(results),
    }


def _seconds(results: Sequence[Result]) -> str:
    return f"{sum(each.seconds for each in results):.6f}"
