"""Principals that are written almost like the one asked about, and are allowed."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.text.similar_principals import CHARACTERS_MAX, Likeness, Lookalikes

PRINCIPALS_SEARCHED_MAX: Final = 65_536
PRINCIPALS_AT_ONCE: Final = 256
"""The maximum number of principals compared in full: a comparison is slow."""
TRIALS_MAX: Final = 16
"""The number of principals to try per likeness. With many prefixes, a decision takes long."""


def find_near_principal(probe: Probe, unsearched: list[str]) -> NearMiss | None:
    """Return the allowed principal that most resembles the one asked about.

    Args:
        unsearched: gets a sentence if not all principals are searched.
    """
    asked = probe.question.principal
    if len(asked) > CHARACTERS_MAX:
        return None
    lookalikes = Lookalikes(asked)
    principals = chain(probe.settings.super_users, probe.index.principals)
    searched, trials = 0, Counter[Likeness]()
    closest: tuple[Likeness, str] | None = None
    while chunk := list(islice(principals, PRINCIPALS_AT_ONCE)):
        searched += len(chunk)
        if searched > PRINCIPALS_SEARCHED_MAX:
            unsearched.append(f"Only {PRINCIPALS_SEARCHED_MAX} principals were compared.")
            break
        for likeness, principal in _compare_all(lookalikes, chunk):
            trials[likeness] += 1
            if trials[likeness] > TRIALS_MAX or (closest is not None and closest[0] <= likeness):
                continue
            if probe.is_allowed(replace(probe.question, principal=principal)):
                closest = likeness, principal
        if closest is not None and closest[0] is Likeness.SAME:
            break
    return None if closest is None else _make_near_miss(probe, lookalikes, *closest)


def _compare_all(lookalikes: Lookalikes, principals: list[str]) -> list[tuple[Likeness, str]]:
    """Return the principals that resemble the one asked about."""
    # Nearly all principals differ, so they are compared all at once.
    if not lookalikes.may_be_among("\n".join(principals).casefold()):
        return []
    similar = []
    for principal in principals:
        if not lookalikes.may_be_among(principal.casefold()) or principal == WILDCARD_PRINCIPAL:
            continue
        likeness = lookalikes.compare(principal)
        if likeness is not None:
            similar.append((likeness, principal))
    return similar


def _make_near_miss(
    probe: Probe, lookalikes: Lookalikes, likeness: Likeness, principal: str
) -> NearMiss:
    asked = probe.question.principal
    instead = replace(probe.question, principal=principal)
    difference = lookalikes.describe(principal, likeness)
    return NearMiss(
        kind=NearMissKind.PRINCIPAL,
        text=f"`{principal}` is allowed, but the question is about `{asked}`: {difference}.",
        acl=probe.rule_acl(instead),
        instead=instead,
    )
