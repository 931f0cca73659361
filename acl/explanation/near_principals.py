"""Principals that are written almost like the one asked about, and are allowed.

ACLs compare principals as text. So letter case, quotes, another type, or a distinguished name with
its parts in another order make another principal.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.steps import Steps

PRINCIPALS_SEARCHED_MAX: Final = 65_536
PRINCIPALS_PER_STEP: Final = 256
CHARACTERS_MAX: Final = 1024
"""Longer principals are not compared, so that a step stays short."""
TRIALS_MAX: Final = 16
"""The most similar principals that are tried. With many prefixes, a decision takes long."""

_QUOTES_AND_BLANKS: Final = " \t\r\n'\"`"


def find_near_principal(probe: Probe, unsearched: list[str]) -> Steps[NearMiss | None]:
    """Return, in steps, an allowed principal that almost equals the one asked about.

    Args:
        unsearched: gets a sentence if not all principals are searched.
    """
    asked = probe.question.principal
    if len(asked) > CHARACTERS_MAX:
        return None
    key = _normalize(asked)
    core = max((half for part in key for half in part.split("=")), key=len)
    principals = chain(probe.settings.super_users, probe.index.principals)
    searched = trials = 0
    while some := list(islice(principals, PRINCIPALS_PER_STEP)):
        searched += len(some)
        if searched > PRINCIPALS_SEARCHED_MAX:
            unsearched.append(f"Only {PRINCIPALS_SEARCHED_MAX} principals were compared.")
            return None
        # Nearly all principals differ, so they are compared all at once.
        similar = _select_similar(some, key, core) if core in " ".join(some).casefold() else []
        for principal in similar:
            if principal in (asked, WILDCARD_PRINCIPAL):
                continue
            trials += 1
            if trials > TRIALS_MAX:
                return None
            if probe.is_allowed(replace(probe.question, principal=principal)):
                return _make_near_miss(probe, principal)
        yield
    return None


def _select_similar(principals: list[str], key: tuple[str, ...], core: str) -> list[str]:
    """Return the principals that equal ``key`` once they are normalized.

    Args:
        core: a part of ``key``. A principal without it is not normalized, which takes long.
    """
    return [
        principal
        for principal in principals
        if len(principal) <= CHARACTERS_MAX
        and core in principal.casefold()
        and _normalize(principal) == key
    ]


def _normalize(principal: str) -> tuple[str, ...]:
    """Return what principals have in common that are easily taken for each other."""
    return tuple(sorted(_split(_strip_type(principal)[1].casefold())))


def _strip_type(principal: str) -> tuple[str, str]:
    """Return the type and the name, without a repeated type, quotes and blanks."""
    principal = principal.strip(_QUOTES_AND_BLANKS)
    kind, colon, name = principal.partition(":")
    if not colon:
        return "", principal
    name = name.strip(_QUOTES_AND_BLANKS)
    while name.casefold().startswith(f"{kind.casefold()}:"):
        name = name[len(kind) + 1 :].strip(_QUOTES_AND_BLANKS)
    return kind, name


def _split(name: str) -> list[str]:
    """Return the parts of a distinguished name, without blanks, or else the whole name."""
    if "=" not in name:
        return [name]
    return ["=".join(half.strip() for half in part.split("=")) for part in name.split(",")]


def _make_near_miss(probe: Probe, principal: str) -> NearMiss:
    asked = probe.question.principal
    instead = replace(probe.question, principal=principal)
    difference = _describe_difference(principal, asked)
    return NearMiss(
        kind=NearMissKind.PRINCIPAL,
        text=f"`{principal}` is allowed, but the question is about `{asked}`: {difference}.",
        acl=probe.rule_acl(instead),
        instead=instead,
    )


def _describe_difference(principal: str, asked: str) -> str:
    """Return in what two principals differ."""
    kind, _, name = principal.partition(":")
    asked_kind, colon, asked_name = asked.partition(":")
    if not colon:
        return "the type is missing"
    if kind != asked_kind and name == asked_name:
        if kind.casefold() == asked_kind.casefold():
            return "the letter case of the type differs"
        return "the type differs"
    if len(_strip_type(asked)[1]) < len(asked_name.strip(_QUOTES_AND_BLANKS)):
        return "the type is repeated"
    if len(_strip_type(principal)[1]) < len(name.strip(_QUOTES_AND_BLANKS)):
        return "the allowed one repeats the type"
    if principal.casefold() == asked.casefold():
        return "the letter case differs"
    if name.strip(_QUOTES_AND_BLANKS) == asked_name.strip(_QUOTES_AND_BLANKS):
        return "blanks or quotes around the name differ"
    if "=" in name:
        return "the distinguished names are written differently"
    return "they are written differently"
