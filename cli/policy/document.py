"""Read a policy file: its groups of principals, its defaults and its tests.

    principals:                    # groups, referred to as $admins
      admins: [User:admin, User:root]
    defaults:                      # fields for tests that do not have them
      host: 10.0.0.7
    tests:
      - alice may READ topic orders
      - name: only the billing service writes payments
        assert: nobody but User:billing and $admins may WRITE payments.*
      - principal: User:bob
        may_not: [WRITE, DELETE]
        topic: orders

**Invariant:** nothing in a file is ignored. All of its faults are reported together, each with its
line and column: every function that reads files raises them as a ``FaultyFileError``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.policy import fields
from authorizerd.cli.policy.faults import FaultyFileError, new_error
from authorizerd.config.yaml_fault import Fault
from authorizerd.config.yaml_tree import (
    Fields,
    Items,
    Node,
    Text,
    YamlError,
    describe,
    read_yaml,
)
from authorizerd.management.policy.sentence import EXAMPLES, SentenceError, read_sentence
from authorizerd.management.policy.wording import write_assertion
from authorizerd.management.policy.words import Assertion, read_principal

FILE_BYTES_MAX: Final = 1024 * 1024

_GROUP_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED: Final = "super_users"
_NAME: Final = "name"
_ASSERT: Final = "assert"
_EXAMPLES: Final = ("A sentence is, for example:", *(f"  {example}" for example in EXAMPLES))
_ROOT_KEYS: Final = ("principals", "defaults", "tests")


class PolicyTest(NamedTuple):
    """A test: its position, its name or its assertion in words, and the assertion itself."""

    source: str
    line: int
    title: str
    assertion: Assertion


def read_policy_files(paths: Sequence[Path]) -> list[PolicyTest]:
    tests: list[PolicyTest] = []
    errors: list[FaultyFileError] = []
    for path in paths:
        try:
            tests += read_policy_file(path)
        except FaultyFileError as error:
            errors.append(error)
    if errors:
        raise FaultyFileError("\n".join(map(str, errors)), sum(each.count for each in errors))
    return tests


def read_policy_file(path: Path) -> list[PolicyTest]:
    """Return the tests of a file, in its order. Blocks."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise new_error(source, [Fault(1, 1, error.strerror or str(error))]) from error
    if len(data) > FILE_BYTES_MAX:
        reason = f"expected at most {FILE_BYTES_MAX} bytes, found more"
        raise new_error(source, [Fault(1, 1, reason)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise new_error(source, [Fault(line, column, "not valid UTF-8")]) from error
    return read_policy(text, source)


def read_policy(text: str, source: str) -> list[PolicyTest]:
    """Return the tests of a document, in its order."""
    reader = _Reader(source)
    tests = reader.read(text)
    if reader.faults:
        raise new_error(source, sorted(reader.faults))
    return tests


class _Reader:
    """Reads one document, and collects its faults."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._groups: dict[str, tuple[str, ...]] = {}
        self._defaults: Fields | None = None
        self._hosts: tuple[str, ...] = ()
        self._has_shown_examples = False
        self.faults: list[Fault] = []

    def read(self, text: str) -> list[PolicyTest]:
        """Return the tests without faults."""
        try:
            root = read_yaml(text)
            if not isinstance(root, Fields):
                raise fields.fail(root, f"expected a mapping with 'tests', found {describe(root)}")
            fields.check_keys(root, _ROOT_KEYS)
            _, tests = root.pairs.get("tests") or (None, None)
            if not (isinstance(tests, Items) and tests.nodes):
                found = "no key 'tests'" if tests is None else describe(tests)
                raise fields.fail(tests or root, f"tests: expected a list of tests, found {found}")
        except YamlError as error:
            self.faults.append(error.fault)
            return []
        if "principals" in root.pairs:
            self._read_groups(root.pairs["principals"][1])
        if "defaults" in root.pairs:
            self._read_defaults(root.pairs["defaults"][1])
        return [test for node in tests.nodes for test in self._read_test(node)]

    def _read_groups(self, node: Node) -> None:
        if not isinstance(node, Fields):
            self._report(fields.fail(node, f"expected names with lists, found {describe(node)}"))
            return
        for key, members in node.pairs.values():
            try:
                if not _GROUP_NAME.fullmatch(key.value) or key.value == _RESERVED:
                    raise fields.fail(
                        key,
                        f"invalid group name {key.value!r}: expected letters, digits, '_' "
                        f"and '-', a letter first, and not {_RESERVED}",
                    )
                listed = fields.read_words(members, "a principal", read_principal)
                self._groups[key.value] = tuple(dict.fromkeys(listed))
            except YamlError as error:
                self._report(error)
                self._groups[key.value] = ()  # so that tests that use it have no fault

    def _read_defaults(self, node: Node) -> None:
        try:
            if not isinstance(node, Fields):
                raise fields.fail(node, f"expected a mapping, found {describe(node)}")
            fields.check_keys(node, (*fields.WHO, *fields.WHAT, *fields.WHERE))
            self._defaults = node
            self._hosts = fields.read_hosts(node, None)
        except YamlError as error:
            self._report(error)

    def _read_test(self, node: Node) -> Iterator[PolicyTest]:
        try:
            title, assertion = self._read_entry(node)
        except YamlError as error:
            self._report(error)
        else:
            yield PolicyTest(self._source, node.line, title, assertion)

    def _read_entry(self, node: Node) -> tuple[str, Assertion]:
        if isinstance(node, Text):
            return node.value, self._read_sentence(node)
        if not isinstance(node, Fields):
            raise fields.fail(node, f"expected a sentence or a mapping, found {describe(node)}")
        fields.check_keys(node, (_NAME, _ASSERT, *fields.KEYS))
        pair = node.pairs.get(_ASSERT)
        if pair is None:
            assertion = fields.read_fields(node, self._defaults, self._groups)
            title = write_assertion(assertion)
        else:
            self._check_only_sentence(node)
            assertion = self._read_sentence(pair[1])
            title = fields.expect_text(pair[1], "a sentence").value
        if _NAME in node.pairs:
            title = fields.expect_text(node.pairs[_NAME][1], "a name").value
        return title, assertion

    def _check_only_sentence(self, node: Fields) -> None:
        for key, _ in node.pairs.values():
            if key.value in fields.KEYS:
                found = f"{_ASSERT!r} and {key.value!r}"
                raise fields.fail(key, f"expected a sentence or fields, found {found}")

    def _read_sentence(self, node: Node) -> Assertion:
        text = fields.expect_text(node, "a sentence")
        try:
            return read_sentence(text.value, self._groups, self._hosts)
        except SentenceError as error:
            notes = () if self._has_shown_examples else _EXAMPLES
            self._has_shown_examples = True
            raise YamlError(_locate(text, error, notes)) from error

    def _report(self, error: YamlError) -> None:
        if error.fault not in self.faults:  # tests repeat the faults of a default
            self.faults.append(error.fault)


def _locate(text: Text, error: SentenceError, examples: tuple[str, ...]) -> Fault:
    """Return the fault with its position in the file, and the sentence with the word marked."""
    column = text.column + error.start if text.is_exact else text.column
    shown = escape_unprintable(text.value)
    notes = [shown]
    if shown == text.value:  # otherwise the positions would be wrong
        notes.append(" " * error.start + "^" * max(1, error.end - error.start))
    return Fault(text.line, column, error.reason, (*notes, *examples))
