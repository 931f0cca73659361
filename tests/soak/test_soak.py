"""A soak in turns: every client and some disturbances, without threads or times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl, Question
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.fleet.client import RefusedError, WrongAnswerError
from tests.fleet.universe import make_ballast
from tests.oracles.scan import decide
from tests.soak.refusals import RefusedChanges
from tests.soak.sites import OwnLogSite
from tests.soak.soak import Soak, find_unexpected, running_sites
from tests.support.forked_command import start_command
from tests.support.sizes import size

ROUNDS = size(1, 3)
QUICK = {
    "reload settings", "replace a token", "elect another leader", "lose uncommitted records",
    "spoil a listing",
}  # fmt: skip
DECIDING = {
    "evaluation", "batch", "opa", "explain", "stream", "past", "slow evaluation",
    "search action", "search subject", "refused question",
}  # fmt: skip
"""The clients that compare decisions."""


def decide_wrongly(
    acls: frozenset[Acl], *, allow_everyone: bool, question: Question
) -> tuple[bool, Acl | None]:
    decision, rule = decide(acls, allow_everyone=allow_everyone, question=question)
    return not decision, rule


def test_every_client_compares_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are wrong once the evaluator decides otherwise, or a restart has lost a change."""
    monkeypatch.setattr("tests.soak.sites.start_program", start_command)  # it is quicker
    monkeypatch.setattr(RefusedChanges, "large_share", 1.0)
    sites = running_sites(tmp_path, ballast=100, writes="forward", may_mount=False)
    with sites as running:
        soak = Soak(running, seed=1)
        for disturbances in soak.disturbances.values():
            for name in disturbances.keys() - QUICK:
                del disturbances[name]
        soak.run_in_turns(ROUNDS)
        assert soak.faults == []
        for key, tally in soak.tallies.items():
            assert len(tally.seconds) + sum(tally.refused.values()) == ROUNDS, key
        monkeypatch.setattr("tests.oracles.scan.decide", decide_wrongly)
        soak.run_in_turns(1)
        found = sorted(tuple(fault.split(": ")[1:3]) for fault in soak.faults)
        expected = sorted(
            (site.name, each.name) for each, site in soak.site_of.items() if each.name in DECIDING
        )
        assert found == expected
        for site in running:  # a change that no daemon has, as if a restart had lost it
            judge = site.judge
            judge.add(judge.newest.acls | {make_ballast(1)[0]}, judge.newest.last + 1)
            judge.settle(int(judge.newest.last))
        soak.stop()
        assert [each.split(": ")[1:3] for each in soak.faults[len(found) :]] == [
            [site.name, "restart"] for site in running
        ]


_FULL = (
    "the log could not be written: [Errno 28] No space left on device:"
    f" '/log/__cluster_metadata-0/{7:020}.log'; nothing was changed, try again"
)
_REFUSED, _INVALID = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, _FULL), ApiError(42, "invalid")


@pytest.mark.parametrize(
    ("is_full", "was_full", "found", "raised"),
    [
        (False, False, (_INVALID, None), None),
        (True, True, (_INVALID, None), None),
        (True, False, (_REFUSED, _REFUSED), RefusedError),
        (False, True, (_INVALID, _REFUSED), RefusedError),
        (False, False, (_REFUSED, _REFUSED), WrongAnswerError),
        (True, True, (None, _REFUSED), WrongAnswerError),
        (True, True, (replace(_REFUSED, code=56), None), WrongAnswerError),
        (True, True, (replace(_REFUSED, message=None), None), WrongAnswerError),
        (True, True, (replace(_REFUSED, message=_FULL.replace("28", "5")), None), WrongAnswerError),
        (True, True, (replace(_REFUSED, message=f"{_FULL}: x"), None), WrongAnswerError),
    ],
)
def test_full_disk_explains_exactly_its_error(
    is_full: bool, was_full: bool, found: Sequence[ApiError | None], raised: type[Exception] | None
) -> None:
    site = object.__new__(OwnLogSite)
    site.is_full, site.log_dir = is_full, Path("/log")
    client = RefusedChanges(site, Random(1))
    client.was_full = was_full
    with pytest.raises(raised) if raised else nullcontext():
        client.check([_INVALID, None], found)


@pytest.mark.parametrize(
    ("line", "is_expected"),
    [
        ("2026-11-23 23:54:06,649 INFO authorizerd: ready: 1 ACL at", True),
        (
            "2026-11-23 23:54:06,649 ERROR authorizerd: [Errno 28] No space left on device: 'x'",
            True,
        ),
        ("2026-11-23 23:54:06,649 ERROR authorizerd: worker 2: it has ended with code -9", True),
        ("2026-11-23 23:54:06,649 ERROR authorizerd: worker 2: it has ended with code 1", False),
        ("2026-11-23 23:54:06,649 ERROR authorizerd worker 3: something else", False),
        ("Traceback (most recent call last):", False),
    ],
)
def test_only_errors_of_disturbances_are_expected(line: str, is_expected: bool) -> None:
    assert find_unexpected(f"{line}\n") == ([] if is_expected else [line])
