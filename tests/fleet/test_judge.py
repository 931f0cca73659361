"""The judge accepts what is right, and finds each kind of fault."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from authorizerd.acl.model import Acl
from tests.fleet.journal import Answer, Journal, Listing, Outcome, Update
from tests.fleet.judge import LogJudge
from tests.fleet.log_reader import Change, LogBatch
from tests.support.acls import acl, question

ASKED = question("User:a", "READ", topic="t")
READ = acl("User:a", "READ", topic="t")
DENIED = acl("User:a", "READ", topic="t", deny=True)
SENT, ANSWERED = 10.0, 11.0
"""When most updates were sent and answered."""


def marker(number: int) -> Acl:
    return acl("User:marker", topic=f"marker-{number}")


def update(
    number: int,
    *acls: Acl,
    outcome: Outcome = Outcome.ACKNOWLEDGED,
    sent: float = SENT,
    answered: float = ANSWERED,
    is_deletion: bool = False,
    found: Sequence[Acl] | None = None,
) -> Update:
    """Return an update of the group with this number; a deletion has found it by default."""
    group = frozenset((marker(number), *acls))
    return Update(
        marker=marker(number), acls=group, is_deletion=is_deletion, sent=sent, answered=answered,
        outcome=outcome,
        found=frozenset() if not is_deletion else group if found is None else frozenset(found),
    )  # fmt: skip


def deletion(number: int, *acls: Acl, sent: float = 20.0, **more: object) -> Update:
    made = update(number, *acls, is_deletion=True, sent=sent, answered=sent + 1)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def batch(offset: int, *changes: Change) -> LogBatch:
    return LogBatch(
        first_offset=offset, last_offset=offset, changes=changes, segment="0.log", end=offset + 1
    )


def added(offset: int, *acls: Acl) -> LogBatch:
    """Return a batch; each ACL has an id of its own."""
    return batch(offset, *(Change(f"{offset}-{n}", each) for n, each in enumerate(acls)))


def removed(offset: int, *ids: str) -> LogBatch:
    return batch(offset, *(Change(each, None) for each in ids))


def answer(
    decision: bool, sent: float, offset: int | None = None, *, connection: int = 1
) -> Answer:
    return Answer(
        surface="tests", connection=connection, questions=(ASKED,), decisions=(decision,),
        sent=sent, answered=sent + 0.5, offset=offset,
    )  # fmt: skip


def listing(*acls: Acl, sent: float) -> Listing:
    return Listing(acls=frozenset(acls), sent=sent, answered=sent + 0.5)


BEGIN = batch(0)
ONE = (BEGIN, added(1, marker(1), READ))
"""The log after the creation of a group."""
TWO = (*ONE, added(2, marker(2)))
GONE = (*ONE, removed(2, "1-0", "1-1"))
"""The log after its deletion."""
CREATED = update(1, READ)
IN_CLUSTER = replace(CREATED, shown_within=5.0)
"""The same in the cluster: the daemon follows it within 5 seconds."""
PARTS = (BEGIN, replace(added(1, READ, marker(1)), last_offset=2))
"""The same, as a broker shows it: first the ACL at offset 1, then the marker at offset 2."""
IN_DOUBT, REFUSED = Outcome.IN_DOUBT, Outcome.REFUSED
Told = Update | Answer | Listing


def violations_of(
    told: Sequence[Told], *logs: Sequence[LogBatch], starts: Sequence[float] | None = None
) -> list[str]:
    """Return what the judge finds if it sees one log after the other."""
    journal = Journal()
    judge = LogJudge(journal, starts=starts)
    journal.updates += [each for each in told if isinstance(each, Update)]
    journal.answers.extend(each for each in told if isinstance(each, Answer))
    journal.listings.extend(each for each in told if isinstance(each, Listing))
    before: Sequence[LogBatch] = ()
    for log in logs:
        lost = [each for each in before if each not in log]
        judge.check(lambda: (log, lost))  # noqa: B023 - called at once
        before = log
    return judge.violations


@pytest.mark.parametrize(
    ("told", "log"),
    [
        ([CREATED, answer(True, 12, 1), listing(marker(1), READ, sent=12)], ONE),
        ([CREATED, answer(False, 9, 0), answer(False, 10.2, 0), answer(True, 10.2, 1)], ONE),
        ([CREATED, answer(False, 10.2), answer(True, 10.2), answer(True, 12)], ONE),
        ([CREATED, listing(sent=9), listing(sent=10.2), listing(marker(1), READ, sent=10.2)], ONE),
        ([update(1, READ, outcome=IN_DOUBT), answer(True, 12, 1)], ONE),
        ([update(1, READ, outcome=IN_DOUBT), answer(False, 12, 0)], [BEGIN]),
        ([update(1, READ, outcome=REFUSED), answer(False, 12, 0)], [BEGIN]),
        ([CREATED, deletion(1, READ), answer(True, 12, 1), answer(False, 22, 2)], GONE),
        (
            [
                CREATED,
                deletion(1, READ, outcome=IN_DOUBT, found=frozenset()),
                deletion(1, READ, sent=30, found=frozenset()),
                answer(False, 32, 2),
            ],
            GONE,
        ),
        (
            [update(1, READ, outcome=IN_DOUBT), deletion(1, READ, found=frozenset())],
            ONE,  # the creation was carried out only after its deletion had found nothing
        ),
        ([CREATED, update(2, READ, sent=12, answered=13)], (*ONE, added(2, marker(2)))),
        (  # a deletion in doubt is carried out when its ACL is in another group
            [
                CREATED,
                deletion(1, READ, outcome=IN_DOUBT, found=frozenset()),
                deletion(1, READ, sent=30),
                update(2, READ, sent=40, answered=41),
            ],
            (*GONE, added(3, marker(2), READ), removed(4, "3-1")),
        ),
        ([CREATED, update(2, DENIED)], [BEGIN, added(1, marker(2), marker(1), READ, DENIED)]),
        ([IN_CLUSTER, answer(False, 15, 0), answer(False, 15), listing(sent=15)], ONE),
        (
            [answer(False, 12, 1, connection=1), answer(False, 13, 0, connection=2)],
            [BEGIN, added(1)],
        ),
    ],
)
def test_sound_evidence_is_accepted(told: Sequence[Told], log: Sequence[LogBatch]) -> None:
    assert violations_of(told, log) == []


@pytest.mark.parametrize(
    ("violation", "told", "log"),
    [
        ("acknowledged creation of marker-1 is not in the log", [CREATED], [BEGIN]),
        ("refused creation of marker-1 is at offset 1", [update(1, READ, outcome=REFUSED)], ONE),
        ("no client has sent", [], ONE),
        ("no client has sent", [update(2, READ)], ONE),
        ("has only a part", [CREATED], [BEGIN, added(1, marker(1))]),
        ("no client has sent", [CREATED], [BEGIN, added(1, marker(1), READ, DENIED)]),
        ("adds an ACL that is there", [CREATED, update(2, READ)], (*ONE, added(2, READ))),
        (
            "at offset 1, but 2 was acknowledged before",
            [update(1, READ, sent=12, answered=13), update(2)],
            (*ONE, added(2, marker(2))),
        ),
        (
            "a second time",
            [CREATED, deletion(1, READ)],
            (*GONE, added(3, marker(1), READ)),
        ),
        ("deletion of marker-1 is not in the log", [CREATED, deletion(1, READ)], ONE),
        ("has only a part", [CREATED, deletion(1, READ)], (*ONE, removed(2, "1-0"))),
        ("other ACLs than it answered", [CREATED, deletion(1, READ, found={marker(1)})], GONE),
        ("has not found its group", [CREATED, deletion(1, READ, found=frozenset())], GONE),
        ("refused deletion", [CREATED, deletion(1, READ, outcome=REFUSED)], GONE),
        ("no client has sent", [CREATED, deletion(2, READ)], (*ONE, removed(2, "1-1"))),
        ("removes an ACL that is not there", [CREATED], (*ONE, removed(2, "9-9"))),
        ("1 was acknowledged before it was asked", [CREATED, answer(False, 12, 0)], ONE),
        ("what comes after 0 was not yet sent", [CREATED, answer(True, 5, 1)], ONE),
        ("at offset 1: False for", [CREATED, answer(False, 12, 1)], ONE),
        ("at offset 1: True for", [update(1, READ, DENIED), answer(True, 12, 1)],
         [BEGIN, added(1, marker(1), READ, DENIED)]),
        ("no batch of the log ends there", [CREATED, answer(True, 12, 7)], ONE),
        ("this connection had 1", [CREATED, answer(True, 10.1, 1), answer(False, 10.2, 0)], ONE),
        ("at no offset from 1 to 1", [CREATED, answer(False, 12)], ONE),
        ("at no offset from -1 to 0", [CREATED, answer(True, 5)], ONE),
        ("matches no state from 1 to 1", [CREATED, listing(READ, sent=12)], ONE),
        ("matches no state from 1 to 1", [CREATED, listing(sent=12)], ONE),
        ("matches no state from -1 to 0", [CREATED, listing(marker(1), READ, sent=5)], ONE),
        ("1 was acknowledged before it was asked", [IN_CLUSTER, answer(False, 17, 0)], ONE),
    ],
)  # fmt: skip
def test_each_fault_is_found(violation: str, told: Sequence[Told], log: Sequence[LogBatch]) -> None:
    assert violation in "\n".join(violations_of(told, log))


@pytest.mark.parametrize(
    ("told", "is_fault"),
    [
        ([update(1, READ, outcome=IN_DOUBT)], False),
        ([update(1, READ, outcome=IN_DOUBT), answer(True, 12, 1)], True),
        ([CREATED], True),
    ],
)
def test_end_of_the_log_may_be_lost_only_if_nobody_knew_it(
    told: Sequence[Told], is_fault: bool
) -> None:
    """A start cuts off what was not completely written."""
    found = violations_of(told, ONE, [BEGIN], [BEGIN, added(1)])
    assert any("is lost" in each for each in found) is is_fault
    assert bool(found) is is_fault


@pytest.mark.parametrize(
    ("told", "starts"),
    [
        ([CREATED, answer(False, 9, 7), answer(True, 12, 8), answer(True, 13, 8)], [0]),
        ([CREATED, answer(True, 10.2, 8), answer(False, 10.3, 7, connection=2)], [0]),
        ([CREATED, answer(True, 10.2, 7), listing(READ, sent=10.2), listing(sent=10.2)], [0]),
        ([CREATED, answer(False, 9, 7), answer(True, 16, 7)], [0, 15]),
        ([CREATED, answer(True, 10.2, 7), answer(False, 10.7, 7, connection=2)], [0, 10.5]),
        ([CREATED, answer(True, 10.2, 7), answer(False, 10.3, 8, connection=2)], [0, 10.5]),
        ([IN_CLUSTER, answer(False, 15, 7), answer(True, 17, 8)], [0]),
    ],
)
def test_sound_evidence_with_offsets_of_the_daemon_is_accepted(
    told: Sequence[Told], starts: Sequence[float]
) -> None:
    assert violations_of(told, PARTS, starts=starts) == []


@pytest.mark.parametrize(
    ("violation", "told"),
    [
        ("no state from 2 to 2 explains it", [CREATED, answer(False, 12, 7)]),
        ("no state from -1 to 0 explains it", [CREATED, answer(True, 5, 7)]),
        ("no state from 2 to 2 explains it", [IN_CLUSTER, answer(False, 17, 7)]),
        (
            "all others with this offset",
            [CREATED, answer(True, 10.2, 7), answer(False, 10.2, 7, connection=2)],
        ),
        (
            "offset 8 shows the state at 0 or before, but its offset 7 shows the one at 1 or later",
            [CREATED, answer(True, 10.2, 7), answer(False, 10.3, 8, connection=2)],
        ),
        ("this connection had 8", [CREATED, answer(True, 10.2, 8), answer(True, 10.3, 7)]),
        ("matches no state from 2 to 2", [CREATED, listing(READ, sent=12)]),
        ("matches no state from -1 to 2", [CREATED, listing(marker(1), sent=10.2)]),
    ],
)
def test_each_fault_with_offsets_of_the_daemon_is_found(
    violation: str, told: Sequence[Told]
) -> None:
    assert violation in "\n".join(violations_of(told, PARTS, starts=[0]))


@pytest.mark.parametrize(("decision", "is_fault"), [(False, False), (True, True)])
def test_state_that_an_offset_of_the_daemon_has_shown_may_not_be_lost(
    decision: bool, is_fault: bool
) -> None:
    told: list[Told] = [update(1, READ, outcome=IN_DOUBT), answer(decision, 10.2, 7)]
    found = violations_of(told, PARTS, [BEGIN], starts=[0])
    assert any("is lost" in each for each in found) is is_fault
    assert bool(found) is is_fault


def test_violation_names_its_time_and_the_updates_before_it() -> None:
    [violation] = violations_of([CREATED, answer(False, 12)], ONE)
    assert "sent at" in violation
    assert "acknowledged creation of marker-1 (sent at" in violation
    assert "offsets of its marker: [1]" in violation
