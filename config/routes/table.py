"""The table of routes: the questions that a request needs.

    POST /topics/{topic} -> WRITE TOPIC {topic}
    GET|HEAD /connectors/** -> DESCRIBE CLUSTER kafka-cluster
    POST /consumers/{group} -> DENY the topics are named in the body

**Invariant:** the first route in the order of the file that matches decides. A request that matches
no route is denied. So is a request that the first route would match but for letter case or accents:
the server behind the gateway may ignore these, and the request may need this route's questions.

All routes of a method are one tree of folded segments, so that a lookup takes about as long for
2,000 routes as for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from authorizerd.acl.text.typos import find_similar
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.pattern import Pattern, Variable, parse_pattern
from authorizerd.config.routes.questions import Template, parse_questions
from authorizerd.config.routes.target import fold, fold_all, split_target

ROUTES_MAX: Final = 2_000
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DENY: Final = "DENY"

LINE: Final = re.compile(r"(\S+)\s+(\S+)\s+->\s+(\S.*)", re.DOTALL)
_DENY: Final = re.compile(rf"{DENY}(?:\s+(.*))?", re.DOTALL)
_EXPECTED: Final = (
    "expected METHOD PATTERN -> QUESTION, such as POST /topics/{topic} -> WRITE TOPIC {topic}, or"
    " METHOD PATTERN -> DENY reason"
)
_NO_ROUTE: Final = ROUTES_MAX


class Line(NamedTuple):
    """A line of the file, and its number."""

    text: str
    number: int


class Route(NamedTuple):
    """A route. Without questions, it denies, for the reason ``denial``."""

    line: Line
    methods: tuple[str, ...]
    pattern: Pattern
    questions: tuple[Template, ...]
    denial: str = ""

    @property
    def shown(self) -> str:
        """The methods and the pattern, as in the file."""
        return self.line.text.partition("->")[0].strip()


Match: TypeAlias = tuple[Route, tuple[str, ...]]
"""The route of a request, and the values of its variables."""


class RouteFault(NamedTuple):
    """A line that is not a route, or that no request can reach."""

    reason: str
    line: Line


class _Node:
    """The routes that have the same segments so far. Routes are numbers in the order of the file.

    Attributes:
        literals: the nodes after each literal.
        whole: the node after a variable without prefix and suffix.
        parts: other variables, each with the least number of characters, and the node after it.
        end: the first route that ends here.
        rest: the first route that takes any further segments.
    """

    __slots__ = ("end", "literals", "parts", "rest", "whole")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.whole: _Node | None = None
        self.parts: list[tuple[str, str, int, _Node]] = []
        self.end = self.rest = _NO_ROUTE

    def add(self, pattern: Pattern, number: int) -> None:
        node = self
        for segment in pattern.segments:
            node = node.add_child(segment)
        if pattern.has_rest:
            node.rest = min(node.rest, number)
        else:
            node.end = min(node.end, number)

    def add_child(self, segment: str | Variable) -> _Node:
        """Return the node after a segment of a pattern."""
        if isinstance(segment, str):
            return self.literals.setdefault(fold(segment), _Node())
        prefix, suffix = fold(segment.prefix), fold(segment.suffix)
        if not (prefix or suffix):
            self.whole = self.whole or _Node()
            return self.whole
        for part in self.parts:
            if part[:2] == (prefix, suffix):
                return part[3]
        node = _Node()
        self.parts.append((prefix, suffix, len(prefix) + len(suffix) + 1, node))
        return node

    def find(self, folded: Sequence[str]) -> int:  # noqa: C901 - the hot path: calls are inlined
        """Return the first route that matches the folded segments, or ``_NO_ROUTE``."""
        nodes, first = [self], _NO_ROUTE
        for segment in folded:
            following: list[_Node] = []
            for node in nodes:
                if node.rest < first:
                    first = node.rest
                if (after := node.literals.get(segment)) is not None:
                    following.append(after)
                if node.whole is not None:
                    following.append(node.whole)
                for prefix, suffix, least, after in node.parts:
                    if (
                        len(segment) >= least
                        and segment.startswith(prefix)
                        and segment.endswith(suffix)
                    ):
                        following.append(after)
            if not following:
                return first
            nodes = following
        for node in nodes:
            if node.end < first:
                first = node.end
        return first

    def find_cover(self, pattern: Pattern) -> int:
        """Return the first route that matches all that ``pattern`` matches, or ``_NO_ROUTE``."""
        nodes, first = [self], _NO_ROUTE
        for segment in pattern.segments:
            first = min(first, *(node.rest for node in nodes))
            nodes = [after for node in nodes for after in node.find_covering(segment)]
            if not nodes:
                return first
        return min(first, *(node.rest if pattern.has_rest else node.end for node in nodes))

    def find_covering(self, segment: str | Variable) -> Iterator[_Node]:
        """Yield the node after each segment that matches all that ``segment`` matches."""
        if self.whole is not None:
            yield self.whole
        if isinstance(segment, str):
            folded = fold(segment)
            if folded in self.literals:
                yield self.literals[folded]
            before = after = folded
            least_covered = len(folded)
        else:
            before, after = fold(segment.prefix), fold(segment.suffix)
            least_covered = len(before) + len(after) + 1
        for prefix, suffix, least, node in self.parts:
            if least_covered >= least and before.startswith(prefix) and after.endswith(suffix):
                yield node


class RouteTable:
    """Routes in the order of their file."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._roots: Final[dict[str, _Node]] = {}
        for number, route in enumerate(self.routes):
            for method in route.methods:
                self._roots.setdefault(method, _Node()).add(route.pattern, number)

    def find(self, method: str, target: str) -> Match:
        """Return the route of a request, and the values of its variables.

        Raises:
            RefusedRequestError: no route matches, or the target might be read in several ways.
        """
        segments = split_target(target)
        root = self._roots.get(method)
        number = _NO_ROUTE if root is None else root.find(fold_all(segments))
        if number == _NO_ROUTE:
            raise RefusedRequestError(f"no route allows {method} {target.partition('?')[0]}")
        route = self.routes[number]
        values = route.pattern.match(segments)
        if values is None:
            raise RefusedRequestError(
                f"the path differs in letter case or accents from a route: {route.line.text}"
            )
        return route, values


def parse_routes(lines: Iterable[Line]) -> tuple[RouteTable, list[RouteFault]]:
    """Return the table of the valid lines, and the faults of all others."""
    routes: list[Route] = []
    faults: list[RouteFault] = []
    for line in lines:
        try:
            if len(routes) == ROUTES_MAX:
                raise InvalidValueError(f"expected at most {ROUTES_MAX} routes")
            routes.append(parse_route(line))
        except InvalidValueError as error:
            faults.append(RouteFault(str(error), line))
            if len(routes) == ROUTES_MAX:
                break
    return RouteTable(routes), [*faults, *_find_unreachable(routes)]


def parse_route(line: Line) -> Route:
    """Return the route of a line.

    Raises:
        InvalidValueError: it is not a route.
    """
    found = LINE.fullmatch(line.text.strip())
    if found is None:
        raise InvalidValueError(f"'{line.text}': {_EXPECTED}")
    pattern = parse_pattern(found[2])
    denial = _DENY.fullmatch(found[3])
    methods = _parse_methods(found[1])
    if denial is None:
        questions = parse_questions(found[3], pattern.names)
        return Route(line, methods, pattern, questions)
    if not denial[1]:
        raise InvalidValueError(f"'{line.text}': expected a reason after {DENY}")
    return Route(line, methods, pattern, (), denial[1])


def _parse_methods(text: str) -> tuple[str, ...]:
    methods = text.split("|")
    for method in methods:
        if method not in METHODS:
            meant = find_similar(method, METHODS)
            hint = "" if meant is None else f" (did you mean {meant}?)"
            raise InvalidValueError(
                f"unknown method '{method}'{hint}: expected one of {', '.join(METHODS)}; join"
                " several by |"
            )
        if methods.count(method) > 1:
            raise InvalidValueError(f"the method {method} occurs twice")
    return tuple(methods)


def _find_unreachable(routes: Sequence[Route]) -> Iterator[RouteFault]:
    """Yield the fault of each route that a single earlier route covers, if only for a method."""
    roots: dict[str, _Node] = {}
    for number, route in enumerate(routes):
        for method in route.methods:
            root = roots.setdefault(method, _Node())
            cover = root.find_cover(route.pattern)
            if cover != _NO_ROUTE:
                earlier = routes[cover].line
                yield RouteFault(
                    f"'{route.line.text}': no {method} request can reach this route, because the"
                    f" earlier route of line {earlier.number} matches all of them (letter case"
                    f" ignored): '{earlier.text}': put the more specific route first, or remove"
                    " one",
                    route.line,
                )
                break
            root.add(route.pattern, number)
