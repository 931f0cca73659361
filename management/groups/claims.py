"""Claims: the notes that say which ACLs groups have made, so that only these are removed.

A claim is the beginning of an ACL's derived id. The claims of one set, such as those of one team's
desired files, are in notes of at most 64 claims each, ``authorizerd-made?set=…&acls=…``. The claims
of one principal are in as few notes as possible, so few notes change with one member.

**Invariant:** the same claims always give the same notes. A note that cannot be read is an error:
otherwise what it claims would seem to be made by hand.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Final

import msgspec

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import Note, NoteError, is_note, make_note, read_note
from authorizerd.management.plan.errors import PlanError

KIND: Final = "made"
CLAIMS_PER_NOTE_MAX: Final = 64
SET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

_CLAIM_BYTES: Final = 12
_PRINCIPAL_BYTES: Final = 4
_START: Final = "authorizerd-made?"


class Claims(msgspec.Struct, frozen=True):
    """The claims in notes. ``sets`` has the names of the sets by claim; ``notes`` those by set."""

    sets: Mapping[bytes, tuple[str, ...]]
    notes: Mapping[str, tuple[Acl, ...]]


def claim(acl: Acl) -> bytes:
    return derive_id(acl)[:_CLAIM_BYTES]


def is_made_note(acl: Acl) -> bool:
    """Return True if an ACL is a note about what groups made, readable or not."""
    return is_note(acl) and acl.resource_name.startswith(_START)


def read_claims(acls: Iterable[Acl]) -> Claims:
    """Return all claims among ACLs.

    Raises:
        PlanError: a note about claims cannot be read.
    """
    sets: dict[bytes, list[str]] = {}
    notes: dict[str, list[Acl]] = {}
    for acl in filter(is_made_note, acls):
        name, claims = _read(acl)
        notes.setdefault(name, []).append(acl)
        for each in claims:
            names = sets.setdefault(each, [])
            if name not in names:
                names.append(name)
    return Claims(
        {each: tuple(sorted(names)) for each, names in sets.items()},
        {name: tuple(of_set) for name, of_set in notes.items()},
    )


def find_sets(acls: Iterable[Acl], claims: Claims) -> dict[Acl, tuple[str, ...]]:
    """Return those of some ACLs that groups made, with the names of the sets that claim them."""
    if not claims.sets:
        return {}
    return {acl: names for acl in acls if (names := claims.sets.get(claim(acl)))}


def _read(acl: Acl) -> tuple[str, Sequence[bytes]]:
    try:
        fields = read_note(acl).fields
        data = urlsafe_b64decode(fields["acls"])
        claims = [data[at : at + _CLAIM_BYTES] for at in range(0, len(data), _CLAIM_BYTES)]
        if claims and SET_NAME.fullmatch(fields["set"]) and _write(fields["set"], claims) == acl:
            return fields["set"], claims
    except (KeyError, ValueError, NoteError):
        pass
    raise PlanError(
        "",
        "a note about what groups made cannot be read, so it is unknown which ACLs are theirs: "
        f"{acl}. Use the version of authorizerd that wrote it, or delete it: then these ACLs count "
        "as made by hand",
    )


def _write(name: str, claims: Iterable[bytes]) -> Acl:
    acls = urlsafe_b64encode(b"".join(sorted(set(claims)))).decode()
    return make_note(Note(KIND, {"set": name, "acls": acls}))


def write_claims(name: str, acls: Iterable[Acl]) -> list[Acl]:
    """Return the notes of one set that claim exactly these ACLs."""
    keys = sorted({_key(acl) for acl in acls})
    return [_write(name, (key[_PRINCIPAL_BYTES:] for key in part)) for part in _split(keys)]


def move_claims(source: Iterable[Acl], acls: Collection[Acl]) -> Iterator[Acl]:
    """Yield the notes that claim those of ``acls`` that the notes of ``source`` claim.

    Raises:
        PlanError: a note about claims cannot be read.
    """
    claims = read_claims(source)
    sets = find_sets(acls, claims)
    for name in claims.notes:
        yield from write_claims(name, (acl for acl, names in sets.items() if name in names))


def _key(acl: Acl) -> bytes:
    """Return a claim after a hash of its principal."""
    principal = blake2b(acl.principal.encode(), digest_size=_PRINCIPAL_BYTES).digest()
    return principal + claim(acl)


def _split(keys: Sequence[bytes], bits: int = 0) -> Iterator[Sequence[bytes]]:
    """Yield parts that are small enough. Sorted keys are halved by their next bit."""
    if len(keys) <= CLAIMS_PER_NOTE_MAX:
        if keys:
            yield keys
        return
    byte, shift = divmod(bits, 8)
    for _, part in groupby(keys, key=lambda key: key[byte] >> (7 - shift) & 1):
        yield from _split(list(part), bits + 1)
