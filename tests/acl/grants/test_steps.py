"""What the notes of one ACL need at a time. Schedules of many actors are in test_schedules."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.clocks import AGREE_MS, GAP_SECONDS, STEADY_SECONDS, Clocks
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.steps import NOTES_MAX, Step, find_steps
from authorizerd.acl.model import Acl
from authorizerd.acl.text.named_acl import NamedAcl, parse_acl

_ACL = parse_acl(NamedAcl("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"))
_ID, _OTHER_ID = b"i" * 16, b"o" * 16
_BEGIN, _END, _LATER = 1_000_000_000_000, 1_000_000_060_000, 1_000_000_090_000
_ACTIVE = Grant(
    id="1", acl=_ACL, begin_ms=_BEGIN, end_ms=_END, author="User:ops", reason="why", acl_id=_ID
)
_WAITING = replace(_ACTIVE, is_waiting=True, acl_id=None)
_UNKNOWN = replace(_ACTIVE, acl_id=None)
_EXTENDED = replace(_ACTIVE, id="2", end_ms=_LATER)
_MANY = [replace(_ACTIVE, id=f"{number:02}") for number in range(NOTES_MAX + 1)]
_note = make_grant_note


@pytest.mark.parametrize(
    ("grants", "acl_id", "now_ms", "expected"),
    [
        # An active note: nothing before its end, then the ACL and the note in one request.
        ([_ACTIVE], _ID, _END - 1, []),
        ([_ACTIVE], _ID, _END, [Step(_ACTIVE, "end", (), (_ACL, _note(_ACTIVE)))]),
        # The ACL is not the grant's: only the note goes, at any time.
        ([_ACTIVE], None, _BEGIN, [Step(_ACTIVE, "the ACL was deleted", (), (_note(_ACTIVE),))]),
        ([_ACTIVE], None, _END, [Step(_ACTIVE, "the ACL was deleted", (), (_note(_ACTIVE),))]),
        (
            [_ACTIVE], _OTHER_ID, _END,
            [Step(_ACTIVE, "the ACL was made again", (), (_note(_ACTIVE),))],
        ),
        # The id is not known yet: it is noted at once, and the end comes without it.
        (
            [_UNKNOWN], _ID, _BEGIN,
            [Step(_UNKNOWN, "identify", (_note(_ACTIVE),), (_note(_UNKNOWN),))],
        ),
        ([_UNKNOWN], _ID, _END, [Step(_UNKNOWN, "end", (), (_ACL, _note(_UNKNOWN)))]),
        # Of several ends, the latest counts.
        ([_ACTIVE, _EXTENDED], _ID, _END, []),
        (
            [_ACTIVE, _EXTENDED], _ID, _LATER,
            [Step(_EXTENDED, "end", (), (_ACL, _note(_ACTIVE), _note(_EXTENDED)))],
        ),
        # A waiting note.
        ([_WAITING], None, _BEGIN - 1, []),
        (
            [_WAITING], None, _BEGIN,
            [Step(_WAITING, "begin", (_ACL, _note(_UNKNOWN)), (_note(_WAITING),))],
        ),
        ([_WAITING], _ID, _BEGIN, [Step(_WAITING, "the ACL exists", (), (_note(_WAITING),))]),
        ([_WAITING], None, _END, [Step(_WAITING, "its end has come", (), (_note(_WAITING),))]),
        # Begun, but the waiting note was left: it begins nothing a second time.
        (
            [_WAITING, _ACTIVE], None, _BEGIN,
            [
                Step(_WAITING, "the ACL exists", (), (_note(_WAITING),)),
                Step(_ACTIVE, "the ACL was deleted", (), (_note(_ACTIVE),)),
            ],
        ),
        # The uuid that it has is not that of the ACL which begins.
        (
            [replace(_WAITING, acl_id=_OTHER_ID)], None, _BEGIN,
            [
                Step(
                    replace(_WAITING, acl_id=_OTHER_ID), "begin", (_ACL, _note(_UNKNOWN)),
                    (_note(replace(_WAITING, acl_id=_OTHER_ID)),),
                )
            ],
        ),
        # More notes than fit into a request: the ACL goes with the last ones.
        (_MANY, _ID, _END, [Step(_MANY[-1], "end", (), (_ACL, *map(_note, _MANY[1:])))]),
        # A grant that begins as another one of the same ACL ends: the next look begins it.
        (
            [_ACTIVE, replace(_WAITING, id="2", begin_ms=_END, end_ms=_LATER)], _ID, _END,
            [Step(_ACTIVE, "end", (), (_ACL, _note(_ACTIVE)))],
        ),
    ],
)  # fmt: skip
def test_steps(
    grants: list[Grant], acl_id: bytes | None, now_ms: int, expected: list[Step]
) -> None:
    def has_acl(acl: Acl) -> bool:
        return acl == _ACL and acl_id is not None

    found = find_steps(reversed(grants), has_acl, now_ms, lambda acl: acl_id)
    assert list(found.steps) == expected


@pytest.mark.parametrize(
    ("now_ms", "next_ms"), [(_BEGIN - 1, _BEGIN), (_BEGIN, _END), (_END, _LATER), (_LATER, None)]
)
def test_the_next_look_is_at_the_next_begin_or_end(now_ms: int, next_ms: int | None) -> None:
    found = find_steps([_WAITING, _ACTIVE, _EXTENDED], lambda acl: True, now_ms)
    assert found.next_ms == next_ms


def test_without_ids_an_equal_acl_ends() -> None:
    """A broker lists no ids, so this cannot be told apart."""
    [step] = find_steps([_ACTIVE], lambda acl: True, _END).steps
    assert step.why == "end"


def _steadily(reference_ms: int | None, own_ms: int, seconds: float) -> list[_Reading]:
    """Return readings every ten seconds, of clocks that run at the same speed."""
    elapsed = [10 * count for count in range(int(seconds // 10) + 1)]
    return [
        (
            None if reference_ms is None else reference_ms + 1000 * each,
            *(own_ms + 1000 * each, 5.0 + each),
        )
        for each in elapsed
    ]


_Reading: TypeAlias = tuple[int | None, int, float]


@pytest.mark.parametrize(
    ("readings", "believed"),
    [
        # Two clocks that agree are believed at once, the earlier one.
        ([(_BEGIN, _BEGIN + AGREE_MS, 0.0)], _BEGIN),
        ([(_BEGIN + AGREE_MS, _BEGIN, 0.0)], _BEGIN),
        # Otherwise the controller's clock, after it has run steadily.
        (_steadily(_BEGIN, 0, STEADY_SECONDS - 1), None),
        (_steadily(_BEGIN, 0, STEADY_SECONDS), _END),
        (_steadily(None, _BEGIN, STEADY_SECONDS - 1), None),
        (_steadily(None, _BEGIN, STEADY_SECONDS), _END),
        # After a step of the clock, or too long a pause, the time begins again.
        ([*_steadily(_BEGIN, 0, 50), (_LATER, 0, 5.0 + STEADY_SECONDS)], None),
        ([*_steadily(None, _BEGIN, 50), (None, _LATER, 5.0 + STEADY_SECONDS)], None),
        (
            [(_BEGIN, 0, 0.0), (_BEGIN + 60_000, 0, GAP_SECONDS + 30)], None,
        ),
    ],
)  # fmt: skip
def test_believed_clocks(readings: list[_Reading], believed: int | None) -> None:
    clocks = Clocks()
    assert [clocks.read(*reading) for reading in readings][-1] == believed
