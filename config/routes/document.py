"""Read the file of ``authorizerd.routes.file``: a gateway's kind, its headers, routes and tests.

**Invariant:** nothing in the file is ignored. All of its faults are reported together, each with
its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from authorizerd.acl.text.typos import find_similar
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.principals.mapping import DEFAULT_RULES, PrincipalMapping
from authorizerd.config.routes.forwarded import RequestReader
from authorizerd.config.routes.gateways import DEFAULT_GATEWAY, GATEWAYS, Gateway
from authorizerd.config.routes.identity import (
    CERTIFICATE,
    CERTIFICATE_HEADER,
    DEFAULT_HEADER,
    FORMATS,
    NAME,
    Identity,
)
from authorizerd.config.routes.route_tests import RouteTest, parse_test
from authorizerd.config.routes.table import Line, RouteTable, parse_routes
from authorizerd.config.yaml_tree import (
    Fields,
    Items,
    Node,
    Text,
    YamlError,
    describe,
    read_yaml,
)

_KEYS: Final = ("gateway", "principal", "host", "routes", "tests")
_PRINCIPAL_KEYS: Final = ("header", "format", "rules")
_HOST_KEYS: Final = ("header",)
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)
_RESERVED: Final = frozenset(
    ("authorization", "connection", "content-length", "content-type", "cookie", "host",
     "transfer-encoding")
)  # fmt: skip


class Routes(NamedTuple):
    """A file's content. ``text`` is its text."""

    reader: RequestReader
    tests: tuple[RouteTest, ...]
    text: str

    @property
    def table(self) -> RouteTable:
        return self.reader.table

    @property
    def gateway(self) -> Gateway:
        return self.reader.gateway


def parse_routes_file(text: str, *, source: str) -> Routes:
    """Return the content of a file.

    Args:
        source: the file's name in errors.

    Raises:
        ConfigurationError: all faults of the file.
    """
    faults: list[ConfigurationError] = []
    routes = _Reading(source, faults).read(_read_root(text, source, "routes"), text)
    if faults:
        raise ConfigurationError.of_all(faults)
    return routes


def parse_tests_file(text: str, *, source: str) -> tuple[RouteTest, ...]:
    """Return the tests of a file that has ``tests`` only; see ``parse_routes_file``."""
    faults: list[ConfigurationError] = []
    tests = _Reading(source, faults).read_only_tests(_read_root(text, source, "tests"))
    if faults:
        raise ConfigurationError.of_all(faults)
    return tests


def _read_root(text: str, source: str, name: str) -> Fields:
    try:
        root = read_yaml(text)
    except YamlError as error:
        raise ConfigurationError(source, error.fault.line, "", error.fault.reason) from None
    if isinstance(root, Fields):
        return root
    reason = f"expected a mapping with '{name}', found {describe(root)}"
    raise ConfigurationError(source, root.line, "", reason)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads one file, and collects its faults."""

    source: str
    faults: list[ConfigurationError]

    def read(self, root: Fields, text: str) -> Routes:
        self._check_keys(root, _KEYS, "")
        gateway = GATEWAYS[self._read_choice(root, "gateway", tuple(GATEWAYS), DEFAULT_GATEWAY)]
        identity = self._read_identity(root, gateway)
        lines = self._read_lines(root, "routes")
        if not lines and not self.faults:
            self._add(root.line, "", "expected 'routes', a list with at least one route")
        table, faults = parse_routes(lines)
        for fault in faults:
            self._add(fault.line.number, "routes", fault.reason)
        return Routes(RequestReader(gateway, identity, table), self._read_tests(root), text)

    def read_only_tests(self, root: Fields) -> tuple[RouteTest, ...]:
        self._check_keys(root, ("tests",), "")
        tests = self._read_tests(root)
        if not tests and not self.faults:
            self._add(root.line, "", "expected 'tests', a list with at least one test")
        return tests

    def _read_identity(self, root: Fields, gateway: Gateway) -> Identity:
        principal = self._read_mapping(root, "principal", _PRINCIPAL_KEYS)
        form = self._read_choice(principal, "format", FORMATS, NAME, "principal")
        default = CERTIFICATE_HEADER if form == CERTIFICATE else DEFAULT_HEADER
        header = self._read_header(principal, "principal", default)
        rules = self._read_text(principal, "rules", "principal")
        mapping = None
        if rules is not None and form != CERTIFICATE:
            self._add(rules.line, "principal.rules", f"expected only with format: {CERTIFICATE}")
        elif form == CERTIFICATE:
            mapping = self._parse_rules(rules)
        host = self._read_mapping(root, "host", _HOST_KEYS)
        host_header = self._read_header(host, "host", gateway.host)
        names = [header.lower(), host_header.lower()]
        used = [each.lower() for each in (gateway.method, gateway.target) if each]
        if len({*names, *used}) < len(names) + len(used):
            self._add(root.line, "", f"expected different headers, found {header}, {host_header}")
        return Identity(principal=header, host=host_header, form=form, mapping=mapping)

    def _parse_rules(self, rules: Text | None) -> PrincipalMapping:
        try:
            return PrincipalMapping.parse(DEFAULT_RULES if rules is None else rules.value)
        except InvalidValueError as error:
            assert rules is not None, "the default is valid"
            self._add(rules.line, "principal.rules", str(error))
            return PrincipalMapping(())

    def _read_header(self, fields: Fields | None, of: str, default: str) -> str:
        found = self._read_text(fields, "header", of)
        if found is None:
            return default
        if not _HEADER.fullmatch(found.value) or found.value.lower() in _RESERVED:
            self._add(
                found.line,
                f"{of}.header",
                f"expected the name of a header that the gateway sets, such as {default}, found"
                f" '{found.value}'",
            )
        return found.value

    def _read_tests(self, root: Fields) -> tuple[RouteTest, ...]:
        tests: list[RouteTest] = []
        for line in self._read_lines(root, "tests"):
            try:
                tests.append(parse_test(line))
            except InvalidValueError as error:
                self._add(line.number, "tests", str(error))
        return tuple(tests)

    def _read_lines(self, root: Fields, name: str) -> list[Line]:
        node = _get(root, name)
        if node is None:
            return []
        if not isinstance(node, Items):
            self._add(node.line, name, f"expected a list, found {describe(node)}")
            return []
        lines: list[Line] = []
        for item in node.nodes:
            if isinstance(item, Text) and item.kind is None:
                lines.append(Line(item.value, item.line))
            else:
                advice = "quote a line that contains ': '"
                self._add(item.line, name, f"expected a text, found {describe(item)}: {advice}")
        return lines

    def _read_mapping(self, root: Fields, name: str, known: Sequence[str]) -> Fields | None:
        node = _get(root, name)
        if node is None:
            return None
        if not isinstance(node, Fields):
            keys = ", ".join(known)
            self._add(node.line, name, f"expected a mapping with {keys}, found {describe(node)}")
            return None
        self._check_keys(node, known, f"{name}.")
        return node

    def _read_choice(
        self, fields: Fields | None, name: str, known: Sequence[str], default: str, of: str = ""
    ) -> str:
        found = self._read_text(fields, name, of)
        if found is None:
            return default
        if found.value not in known:
            key = f"{of}.{name}" if of else name
            self._add(found.line, key, f"expected one of {', '.join(known)}, found '{found.value}'")
            return default
        return found.value

    def _read_text(self, fields: Fields | None, name: str, of: str) -> Text | None:
        node = None if fields is None else _get(fields, name)
        if node is None or (isinstance(node, Text) and node.kind is None):
            return node
        key = f"{of}.{name}" if of else name
        self._add(node.line, key, f"expected a text, found {describe(node)}")
        return None

    def _check_keys(self, fields: Fields, known: Sequence[str], before: str) -> None:
        for name, (key, _) in fields.pairs.items():
            if name not in known:
                meant = find_similar(name, known)
                hint = "" if meant is None else f" (did you mean {meant}?)"
                self._add(
                    key.line,
                    f"{before}{name}",
                    f"unknown field{hint}: expected one of {', '.join(known)}",
                )

    def _add(self, line: int, key: str, reason: str) -> None:
        self.faults.append(ConfigurationError(self.source, line, key, reason))


def _get(fields: Fields, name: str) -> Node | None:
    pair = fields.pairs.get(name)
    return None if pair is None else pair[1]
