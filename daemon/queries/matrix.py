"""The matrix of principals by prefixes of topics: who may read and write beneath which prefix.

A cell is about the names that begin with its column's prefix. READ in it means that the principal
may read at least one of them, from at least one host, by some release that may judge. Of a group of
principals, it means that at least one of them may.

**Invariant:** a cell says the same as ``acl.search``: ALLOWs of ``User:*`` count, and what a DENY
covers does not. A cell that would take too long is marked as not known, never as empty.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import IntFlag
from functools import reduce
from itertools import chain
from operator import or_
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.hosts import is_certain, never_matches
from authorizerd.acl.index.bits import ALLOWS, DENIES, OPERATION_CODES
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.patterns import Patterns, matches
from authorizerd.acl.search.pattern_rules import LITERAL, PREFIXED
from authorizerd.acl.search.resources import PatternAccess, find_resources
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of
from authorizerd.protocol.queries import MatrixQuestion

ROWS_MAX: Final = 40
COLUMNS_MAX: Final = 16
WORK_MAX: Final = 2_000_000
"""How many rules are examined for the effect of DENYs, at most: that takes about two seconds."""
_SEARCH_WORK: Final = 10
"""A search takes this many times as long for a rule."""
NOBODY: Final = "Authorizerd:nobody"
"""A principal without ACLs: it may do what everyone may."""

_PART: Final = re.compile(r"[._-]*[^._-]*")
_OPERATIONS: Final = SUPPORTED[ResourceType.TOPIC]
_ALLOW_BITS: Final = (1 << len(OPERATION_CODES)) - 1
_DENY_BITS: Final = reduce(or_, DENIES)
_SHOWN_DENY_BITS: Final = DENIES[Operation.READ] | DENIES[Operation.WRITE]
_NO_SETTINGS: Final = AuthorizerSettings()


class Access(IntFlag):
    """What a cell says.

    ALL is every operation on topics, though perhaps each on another topic. DENIED means that an ACL
    of the principal's own denies reading or writing at least one topic.
    """

    READ = 1
    WRITE = 2
    ALL = 4
    DENIED = 8
    UNKNOWN = 16


class MatrixRow(msgspec.Struct, frozen=True):
    """A principal, or the principals whose names begin with ``name``.

    Attributes:
        principals: their number; 1 if ``name`` is a principal.
        cells: an ``Access`` for each column.
    """

    name: str
    principals: int
    cells: tuple[int, ...]


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """The largest rows and columns.

    Attributes:
        columns: prefixes. The first one was asked about, and all others are inside it.
        everyone: the row of ``User:*``, if it has rules. The other rows include what it allows.
        rows_left, columns_left: the numbers of further rows and columns.
        principals: the number of principals in all rows.
        offset: the log offset of the ACLs.
    """

    columns: tuple[str, ...]
    everyone: MatrixRow | None
    rows: tuple[MatrixRow, ...]
    rows_left: int
    columns_left: int
    principals: int
    offset: int


def find_part(name: str, begin: int = 0) -> str:
    """Return the beginning of a name up to the first separator after ``begin``.

    Separators are ``.``, ``-`` and ``_``. Those directly after ``begin`` belong to the part.
    """
    found = _PART.match(name, begin)
    return name[: found.end()] if found else name


def make_matrix(question: MatrixQuestion, snapshot: AclSnapshot) -> Matrix:
    """Return the matrix of the principals and topics that begin with the question's texts."""
    index = snapshot.types[ResourceType.TOPIC]
    sources: Iterable[Patterns] = [index.resources]
    if question.principals:
        chosen = (r for p, r in index.principals.items() if p.startswith(question.principals))
        sources = _iterate_patterns(chosen)
    columns = _find_columns(sources, question.topics)
    shown = columns[: COLUMNS_MAX + 1]
    matrix = _Cells(snapshot, question.settings, shown)
    groups = _group(matrix.find_principals(question.principals), len(question.principals))
    rows = sorted(groups.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    everyone = None
    if any(matrix.everyone):
        everyone = MatrixRow(WILDCARD_PRINCIPAL, 1, matrix.judge([NOBODY]))
    return Matrix(
        columns=tuple(shown),
        everyone=everyone,
        rows=tuple(
            MatrixRow(
                name if len(members) > 1 else next(iter(members)),
                len(members),
                matrix.judge(members),
            )
            for name, members in rows[:ROWS_MAX]
        ),
        rows_left=max(len(rows) - ROWS_MAX, 0),
        columns_left=len(columns) - len(shown),
        principals=sum(map(len, groups.values())),
        offset=snapshot.offset,
    )


def _find_columns(sources: Iterable[Patterns], within: str) -> list[str]:
    """Return ``within``, and the prefixes one part longer, those with the most patterns first."""
    begin = len(within)
    counts: Counter[str] = Counter()
    for patterns in sources:
        for name in chain(patterns.literals, patterns.prefixes):
            if name.startswith(within):
                counts[find_part(name, begin)] += 1
    del counts[within]  # a name that is no longer than the prefix itself
    return [within, *sorted(counts, key=lambda name: (-counts[name], name))]


def _group(principals: dict[str, int], begin: int) -> dict[str, dict[str, int]]:
    """Return the principals by group; if there are few, each is its own group.

    Args:
        begin: how long their common beginning is. A group's name is one part longer.
    """
    if len(principals) <= ROWS_MAX:
        return {name: {name: count} for name, count in principals.items()}
    groups: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, count in principals.items():
        groups[find_part(name, max(begin, name.find(":") + 1))][name] = count
    return groups


class _Cells:
    """Computes cells. ``everyone`` has the bits of the rules of ``User:*`` by column."""

    def __init__(
        self, snapshot: AclSnapshot, settings: AuthorizerSettings, columns: list[str]
    ) -> None:
        self._snapshot: Final = snapshot
        self._index: Final = snapshot.types[ResourceType.TOPIC]
        self._settings: Final = settings
        self._columns: Final = columns
        self._worked = 0
        self._touched: Final[dict[tuple[bool, str], tuple[int, ...]]] = {}
        self._found: Final[dict[str, list[int]]] = {}
        self._wild: Final = tuple(
            number for number, each in enumerate(columns) if matches(LITERAL, WILDCARD, each or "a")
        )
        self.everyone: Final = self._join(self._index.everyone)[0]

    def find_principals(self, begin: str) -> dict[str, int]:
        """Return how many patterns of each principal's rules match names of the columns."""
        counts: dict[str, int] = {}
        for principal, rules in self._index.principals.items():
            if principal.startswith(begin):
                cells, count = self._join(rules)
                if count:
                    counts[principal] = count
                    self._found[principal] = cells
        return counts

    def judge(self, principals: Iterable[str]) -> tuple[int, ...]:
        """Return the cells of some principals, joined."""
        cells = zip(*map(self._judge, principals), strict=True)
        return tuple(reduce(or_, each).value for each in cells)

    def _judge(self, principal: str) -> list[Access]:
        if principal in self._settings.super_users:
            return [Access.READ | Access.WRITE | Access.ALL] * len(self._columns)
        own = self._found.get(principal) or [0] * len(self._columns)
        if principal == NOBODY:
            own = self.everyone
        cells = [bits | common for bits, common in zip(own, self.everyone, strict=True)]
        allowed = {
            each: {n for n, bits in enumerate(cells) if bits & ALLOWS[each]} for each in _OPERATIONS
        }
        denied = {n for n, bits in enumerate(cells) if bits & _DENY_BITS}
        unknown: set[int] = set()
        needed = [each for each in (Operation.READ, Operation.WRITE) if allowed[each] & denied]
        if set.intersection(*allowed.values()) & denied:
            needed = [*_OPERATIONS]
        undenied = self._find_undenied(principal) if needed else []
        for operation in needed:
            effective = {n for n, bits in enumerate(undenied) if bits & ALLOWS[operation]}
            doubtful = allowed[operation] & denied - effective
            places = self._search(principal, operation) if doubtful else set()
            if places is None:
                unknown |= doubtful
            allowed[operation] -= doubtful - (places or set())
        everything = set.intersection(*allowed.values())
        return [
            Access(
                Access.READ * (n in allowed[Operation.READ])
                | Access.WRITE * (n in allowed[Operation.WRITE])
                | Access.ALL * (n in everything)
                | Access.DENIED * (bits & _SHOWN_DENY_BITS != 0)
                | Access.UNKNOWN * (n in unknown)
            )
            for n, bits in enumerate(own)
        ]

    def _find_undenied(self, principal: str) -> list[int]:
        """Return the bits of ALLOWs whose patterns share no name with a DENY, by column."""
        cells = [0] * len(self._columns)
        sources = (rules_of(self._index, principal), self._index.everyone)
        rules = [*chain.from_iterable(map(self._list_rules, sources))]
        denied = [(is_prefix, name) for is_prefix, name, bits in rules if bits & _DENY_BITS]
        names = {name for is_prefix, name in denied if not is_prefix}
        prefixes = tuple(name for is_prefix, name in denied if is_prefix)
        is_long = sum(is_prefix for is_prefix, _, _ in rules) * len(denied)
        if not self._works(len(rules) * (1 + len(prefixes)) + is_long) or WILDCARD in names:
            return cells
        for is_prefix, name, bits in rules:
            is_wildcard = name == WILDCARD and not is_prefix
            if bits & _ALLOW_BITS and not (
                is_wildcard
                or name in names
                or name.startswith(prefixes)
                or (is_prefix and any(each.startswith(name) for _, each in denied))
            ):
                for n in self._touch(is_prefix, name):
                    cells[n] |= bits
        return cells

    def _works(self, work: int) -> bool:
        """Return True if there is time for more work."""
        self._worked += work
        return self._worked <= WORK_MAX

    def _search(self, principal: str, operation: int) -> set[int] | None:
        """Return the columns with a topic on which the operation is allowed; None: not known."""
        sources = (rules_of(self._index, principal), self._index.everyone)
        count = sum(len(each.literals) + len(each.prefixes) for each in _iterate_patterns(sources))
        if not self._works(count * _SEARCH_WORK):
            return None
        try:
            found = find_resources(
                self._snapshot, _NO_SETTINGS, principal, operation, ResourceType.TOPIC
            )
        except SearchLimitError:
            return None
        return {
            n
            for n, prefix in enumerate(self._columns)
            if any(_reaches(each, prefix) for each in found.patterns)
        }

    def _join(self, rules: Rules) -> tuple[list[int], int]:
        """Return the bits of rules by column, and the number of patterns in any column."""
        cells, count = [0] * len(self._columns), 0
        for is_prefix, name, bits in self._list_rules(rules):
            columns = self._touch(is_prefix, name)
            count += bool(columns)
            for n in columns:
                cells[n] |= bits
        return cells, count

    def _list_rules(self, rules: Rules) -> Iterator[tuple[bool, str, int]]:
        """Yield whether a pattern is a prefix, its name, and its bits, for hosts that can match."""
        for host, patterns in chain([(WILDCARD, rules.any_host)], rules.hosts.items()):
            if host != WILDCARD and never_matches(host, self._snapshot.rules):
                continue
            mask = -1 if is_certain(host) else ~_ALLOW_BITS
            if patterns.wildcard:
                yield False, WILDCARD, patterns.wildcard & mask
            for is_prefix, names in ((False, patterns.literals), (True, patterns.prefixes)):
                for name, bits in names.items():
                    yield is_prefix, name, bits & mask

    def _touch(self, is_prefix: bool, name: str) -> tuple[int, ...]:
        """Return the columns that contain a name which a pattern matches."""
        if name == WILDCARD and not is_prefix:
            return self._wild
        # Literals with the same part are in the same columns.
        text = name if is_prefix else find_part(name, len(self._columns[0]))
        key = is_prefix, text
        found = self._touched.get(key)
        if found is None:
            found = self._touched[key] = tuple(
                n
                for n, prefix in enumerate(self._columns)
                if text.startswith(prefix) or (is_prefix and prefix.startswith(text))
            )
        return found


def _iterate_patterns(sources: Iterable[Rules]) -> Iterator[Patterns]:
    for rules in sources:
        yield rules.any_host
        yield from rules.hosts.values()


def _reaches(found: PatternAccess, prefix: str) -> bool:
    """Return True if a pattern of a search allows a name that begins with ``prefix``."""
    name = found.name
    if found.pattern_type == LITERAL and name == WILDCARD:
        is_inside = matches(LITERAL, WILDCARD, prefix or "a")
    elif found.pattern_type == LITERAL or name.startswith(prefix):
        return name.startswith(prefix)
    else:
        is_inside = prefix.startswith(name)
    return is_inside and not any(
        kind == PREFIXED and prefix.startswith(each) for kind, each in found.exceptions
    )
