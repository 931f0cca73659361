"""Resource names and patterns that almost match, and would allow the question.

Patterns are compared as text. So letter case, blanks, or a dot instead of a dash make a different
name. A literal ``orders-*`` matches only that name, and the prefix ``orders-`` does not match
``orders``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

from msgspec.structs import replace

from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.explanation.words import describe_access, name_resource
from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, Acl, ResourceType
from authorizerd.acl.patterns import LITERAL, PREFIXED, Patterns, get_weight, misses_wildcard

PATTERNS_SEARCHED_MAX: Final = 65_536
PATTERNS_AT_ONCE: Final = 256
CHARACTERS_MAX: Final = 512
"""Longer names are not compared, so that a step stays short. Topics have at most 249 characters."""
TRIALS_MAX: Final = 16
"""The maximum number of similar names to try. With many prefixes, a decision takes long."""
_SEPARATORS: Final = "-._"
_PADDING: Final = " \t\r\n'\"`"
_NO_PADDING: Final = str.maketrans(dict.fromkeys(_PADDING))
_ONE_SEPARATOR: Final = str.maketrans(dict.fromkeys(_SEPARATORS, "-"))
_ALIKE: Final = _NO_PADDING | _ONE_SEPARATOR
_BOUNDARY: Final = "\0"

_Table: TypeAlias = tuple[str, str, Patterns]
"""A principal, a host, and the patterns of its rules."""


def find_near_name(probe: Probe, unsearched: list[str]) -> NearMiss | None:
    """Return a resource that is named almost like the one asked about, and is allowed.

    Args:
        unsearched: gets a sentence if not all patterns are searched.
    """
    question = probe.question
    name = question.resource_name
    if question.resource_type == ResourceType.CLUSTER:
        return _find_cluster(probe)
    if not name or len(name) > CHARACTERS_MAX:
        return None
    sizes = _measure_starts(name)
    searched = trials = 0
    for _, _, patterns in probe.tables():
        for is_prefix, table in ((False, patterns.literals), (True, patterns.prefixes)):
            items = iter(table.items())
            while chunk := list(islice(items, PATTERNS_AT_ONCE)):
                searched += len(chunk)
                if searched > PATTERNS_SEARCHED_MAX:
                    unsearched.append(f"Only {PATTERNS_SEARCHED_MAX} patterns were compared.")
                    return None
                allowed = [text for text, bits in chunk if bits & probe.allows]
                for near in _iterate_near(name, sizes, allowed, is_prefix):
                    trials += 1
                    if trials > TRIALS_MAX:
                        return None
                    if probe.is_allowed(probe.with_name(near)):
                        return _make_near_name(probe, near)
    return None


def _find_cluster(probe: Probe) -> NearMiss | None:
    """Return a near miss if the question names the cluster wrongly, and the cluster is allowed."""
    instead = probe.with_name(CLUSTER_NAME)
    if probe.question.resource_name == CLUSTER_NAME or not probe.is_allowed(instead):
        return None
    return NearMiss(
        kind=NearMissKind.RESOURCE_NAME,
        text=f"{probe.question.principal} is {describe_access(probe.question, CLUSTER_NAME)}, which"
        f" ACLs name `{CLUSTER_NAME}`, but the question names `{probe.question.resource_name}`.",
        acl=probe.rule_acl(instead),
        instead=instead,
    )


def _measure_starts(name: str) -> dict[str, int]:
    """Return the length of each start of ``name`` by the start's normalized text."""
    sizes: dict[str, int] = {}
    text = ""
    for size, character in enumerate(name, 1):
        text += normalize(character)  # normalizing character by character gives the same result
        sizes.setdefault(text, size)
    sizes.pop("", None)
    return sizes


def _iterate_near(
    name: str, sizes: dict[str, int], patterns: list[str], is_prefix: bool
) -> Iterator[str]:
    """Yield the names that match a pattern, and are almost ``name``.

    Args:
        sizes: as ``_measure_starts`` returns them.
    """
    normalized = normalize_all(patterns)
    key = normalize(name)
    # Nearly all patterns differ, so they are compared all at once.
    if sizes.keys().isdisjoint(normalized) if is_prefix else key not in normalized:
        return
    for pattern, text in zip(patterns, normalized, strict=True):
        if is_prefix and text in sizes and not name.startswith(pattern):
            yield pattern + name[sizes[text] :]
        elif not is_prefix and text == key and pattern != name:
            yield pattern


def normalize(name: str) -> str:
    """Return a key that is equal for names that are easily confused."""
    return name.casefold().translate(_ALIKE)


def normalize_all(names: list[str]) -> list[str]:
    """Return each name normalized. Doing all at once takes a tenth of the time."""
    normalized = normalize(_BOUNDARY.join(names)).split(_BOUNDARY)
    if len(normalized) != max(len(names), 1):
        return [normalize(name) for name in names]  # a name contains the boundary
    return normalized if names else []


def _make_near_name(probe: Probe, near: str) -> NearMiss:
    question = probe.question
    instead = probe.with_name(near)
    asked = question.resource_name
    if near.translate(_NO_PADDING) == asked.translate(_NO_PADDING):
        difference = "blanks or quotes differ"
    elif near.casefold() == asked.casefold():
        difference = "the letter case differs"
    elif near.translate(_ONE_SEPARATOR) == asked.translate(_ONE_SEPARATOR):
        difference = "a dot, dash or underscore differs"
    else:
        difference = "they are written differently"
    return NearMiss(
        kind=NearMissKind.RESOURCE_NAME,
        text=f"{question.principal} is {describe_access(question, near)}, but the question names"
        f" `{asked}`: {difference}.",
        acl=probe.rule_acl(instead),
        instead=instead,
    )


def find_near_patterns(probe: Probe) -> list[NearMiss]:
    """Return patterns that were probably meant to match, the closest first."""
    name = probe.question.resource_name
    if not name or len(name) > CHARACTERS_MAX:
        return []
    misses: list[NearMiss] = []
    for table in probe.tables():
        if not probe.has_denial:
            misses += _find_misspelt_patterns(probe, table)
        misses += _find_longer_prefix(probe, table)
    return misses


def _find_misspelt_patterns(probe: Probe, table: _Table) -> Iterator[NearMiss]:
    """Yield ALLOWs that would match if they were written as they were probably meant."""
    name = probe.question.resource_name
    principal, host, patterns = table
    wildcard = patterns.wildcard & probe.allows
    if wildcard and misses_wildcard(name):
        acl = probe.make_allow(principal, host, LITERAL, WILDCARD, wildcard)
        text = f"As in Kafka, the literal `*` does not match `{name}`, which begins with `*`."
        rewritten = replace(acl, pattern_type=PREFIXED)
        yield _make_pattern(text, acl, rewritten)
    yield from _find_starred(probe, table)
    for size in range(len(name) - 1, 0, -1):
        prefix = name[:size]
        bits = patterns.literals.get(prefix, 0) & probe.allows
        if bits and (name[size] in _SEPARATORS or prefix[-1] in _SEPARATORS):
            acl = probe.make_allow(principal, host, LITERAL, prefix, bits)
            text = f"As a literal, `{prefix}` does not match `{name}`; as a prefix, it would."
            yield _make_pattern(text, acl, replace(acl, pattern_type=PREFIXED))


def _find_starred(probe: Probe, table: _Table) -> Iterator[NearMiss]:
    """Yield ALLOWs whose name ends with a star, and would match without it."""
    principal, host, patterns = table
    name = probe.question.resource_name
    for size in range(len(name), -1, -1):
        starred = name[:size] + WILDCARD
        for pattern_type in (LITERAL, PREFIXED):
            if starred == WILDCARD and pattern_type == LITERAL:
                continue  # the wildcard
            bits = get_weight(patterns, pattern_type, starred) & probe.allows
            if bits:
                acl = probe.make_allow(principal, host, pattern_type, starred, bits)
                yield _make_starred(acl, name[:size])


def _make_starred(acl: Acl, prefix: str) -> NearMiss:
    """Return a near miss: in ``prefix*``, the star is an ordinary character."""
    kind = "prefix" if acl.pattern_type == PREFIXED else "literal"
    if not prefix:
        text = "The prefix `*` matches only names that begin with `*`; the literal `*` would match."
        return _make_pattern(text, acl, replace(acl, pattern_type=LITERAL))
    text = (
        f"In the {kind} `{acl.resource_name}`, the star is an ordinary character; the prefix"
        f" `{prefix}` would match."
    )
    rewritten = replace(acl, pattern_type=PREFIXED, resource_name=prefix)
    return _make_pattern(text, acl, rewritten)


def _make_pattern(text: str, acl: Acl, rewritten: Acl) -> NearMiss:
    return NearMiss(kind=NearMissKind.PATTERN, text=text, acl=acl, rewritten=rewritten)


def _find_longer_prefix(probe: Probe, table: _Table) -> Iterator[NearMiss]:
    """Yield allowed prefixes that are the name and a separator."""
    principal, host, patterns = table
    name = probe.question.resource_name
    for separator in _SEPARATORS:
        prefix = name + separator
        bits = patterns.prefixes.get(prefix, 0) & probe.allows
        instead = probe.with_name(prefix)
        if bits and probe.is_allowed(instead):
            acl = probe.make_allow(principal, host, PREFIXED, prefix, bits)
            resource = name_resource(probe.question.resource_type, name)
            text = f"The prefix `{prefix}` is allowed, but {resource} does not begin with it."
            yield NearMiss(kind=NearMissKind.PATTERN, text=text, acl=acl, instead=instead)
