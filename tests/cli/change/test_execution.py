"""Carrying out a plan on a server in memory: order, surprises, interruptions, races."""

from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock

from authorizerd.acl.model import Acl
from authorizerd.cli.change.apply_server import Answered, Listed, Unanswered
from authorizerd.cli.change.execution import ATTEMPTS_MAX, Done, Ending, Execution, Progress
from authorizerd.cli.errors import CommandError
from authorizerd.management.plan.changes import AclRequest, StepName
from authorizerd.management.plan.document import Plan
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.cli.change.acl_servers import (
    MOVED,
    Answer,
    MemoryServer,
    Race,
    RacingServer,
    new_plan,
    random_race,
    some_acls,
)
from tests.support.acls import acl
from tests.support.sizes import size

BEFORE = some_acls(range(12))
AFTER = some_acls(range(6, 18))
OTHER = acl("User:other", topic="other")
Fault = Callable[[Callable[[], Answer]], Answer]
each_kind = pytest.mark.parametrize("compares", [True, False])


@pytest.fixture
def plan() -> Plan:
    return new_plan(BEFORE, AFTER)


async def execute(
    plan: Plan, server: MemoryServer | RacingServer, *, acls_max: int | None = None
) -> Progress:
    reported: list[Done] = []
    execution = Execution(plan, server, report=reported.append, acls_max=acls_max)
    with trio.fail_after(1000):
        await execution.run()
    assert reported == execution.progress.done
    return execution.progress


def applied(apply: Callable[[], Answer]) -> Answer:
    return apply()


def lost(apply: Callable[[], Answer]) -> Answer:
    return Unanswered("cut")


def applied_and_lost(apply: Callable[[], Answer]) -> Answer:
    """The request is applied, and its answer is lost."""
    apply()
    return Unanswered("cut")


def failing(code: ErrorCode) -> Fault:
    return lambda _: Answered((ApiError(code, "no"),) * 100)


def failing_after(code: ErrorCode) -> Fault:
    def fault(apply: Callable[[], Answer]) -> Answer:
        apply()
        return Answered((ApiError(code, "late"),) * 100)

    return fault


def overtaken(server: MemoryServer, *changes: tuple[StepName, Acl]) -> Fault:
    """Somebody else makes these changes before the request is applied."""

    def fault(apply: Callable[[], Answer]) -> Answer:
        for step, changed in changes:
            server.apply(AclRequest(step, (changed,)), None)
        return apply()

    return fault


class Late:
    """A request that waits in the server, until a later one is there."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], Answer]] = []
        self.answers: list[Answer] = []

    def delay(self, apply: Callable[[], Answer]) -> Answer:
        self._waiting.append(apply)
        return Unanswered("slow")

    def precede(self, apply: Callable[[], Answer]) -> Answer:
        self.answers.append(self._waiting.pop()())
        return apply()

    def follow(self, apply: Callable[[], Answer]) -> Answer:
        answer = apply()
        self.answers.append(self._waiting.pop()())
        return answer


@each_kind
async def test_plan_is_applied_step_by_step(plan: Plan, compares: bool) -> None:
    server = MemoryServer.of(BEFORE, compares=compares)
    progress = await execute(plan, server)
    assert progress.ending is Ending.APPLIED
    assert server.digest == plan.leads_to.digest
    assert set(server.acls.values()) == set(AFTER)
    steps = [request.step for request, _ in server.sent]
    assert steps == ["create_deny", "create_allow", "delete_allow", "delete_deny"]
    assert (progress.left, progress.in_doubt, progress.compares) == (0, None, compares)


async def test_each_request_expects_the_offset_of_the_answer_before(plan: Plan) -> None:
    """So the ACLs are listed once only."""
    server = MemoryServer.of(BEFORE, compares=True)
    offsets = [done.offset for done in (await execute(plan, server)).done]
    assert [expected for _, expected in server.sent] == [10, *offsets[:-1]]
    assert server.listings == 1


async def test_broker_is_listed_after_each_request(plan: Plan) -> None:
    server = MemoryServer.of(BEFORE, compares=False)
    await execute(plan, server)
    assert [expected for _, expected in server.sent] == [None] * 4
    assert server.listings == 5


@each_kind
async def test_interrupted_plan_goes_on_after_any_change(plan: Plan, compares: bool) -> None:
    """Also where another run has divided the plan into other requests."""
    count = plan.changes.count
    for made in range(count + 1):
        server = MemoryServer.of(BEFORE, compares=compares)
        if made:
            with pytest.raises(InterruptedError):
                await Execution(plan, server, report=interrupt_after(made), acls_max=1).run()
        server.sent.clear()
        progress = await execute(plan, server, acls_max=4)
        expected = Ending.APPLIED if made < count else Ending.NOTHING_TO_DO
        assert (progress.ending, progress.made_before) == (expected, made)
        assert sum(len(request.acls) for request, _ in server.sent) == count - made
        assert server.digest == plan.leads_to.digest


def interrupt_after(count: int) -> Callable[[Done], None]:
    """Return a ``report`` that ends the execution after ``count`` requests."""
    done: list[Done] = []

    def report(each: Done) -> None:
        done.append(each)
        if len(done) == count:
            raise InterruptedError

    return report


@each_kind
async def test_moved_state_is_left_alone(plan: Plan, compares: bool) -> None:
    server = MemoryServer.of([*BEFORE, OTHER], compares=compares)
    progress = await execute(plan, server)
    assert progress.ending is Ending.MOVED
    assert not server.sent
    assert progress.reasons[0].startswith(
        "the plan was made for 12 ACLs; now there are different ones: 13"
    )


GONE, PRESENT = BEFORE[0], BEFORE[1:]
CREATED = new_plan(BEFORE, AFTER).changes.created


@pytest.mark.parametrize(("present", "said", "others_created", "others_deleted"), [
    ([*BEFORE, OTHER], [f"created since: {OTHER}"], (OTHER,), ()),
    ([*AFTER, OTHER],
     ["all changes of the plan are already there: it was applied before",
      f"created since: {OTHER}"],
     (OTHER,), ()),
    (PRESENT, [f"no longer there: {GONE}"], (), (GONE,)),
    # The plan deletes after all its creations, so only now it may have deleted the ACL itself.
    ([*PRESENT, *CREATED, OTHER],
     [*(f"already there: {each}" for each in CREATED), f"no longer there: {GONE}"], (), ()),
    ([*PRESENT, AFTER[-1], OTHER],
     [f"already there: {AFTER[-1]}", f"no longer there: {GONE}"], (), (GONE,)),
], ids=["created", "applied before", "deleted", "deleted after creations", "in part"])  # fmt: skip
async def test_move_names_what_the_plan_can_tell(
    plan: Plan, present: list[Acl], said: list[str], others_created: tuple[Acl, ...],
    others_deleted: tuple[Acl, ...],
) -> None:  # fmt: skip
    progress = await execute(plan, MemoryServer.of(present, compares=True))
    assert (progress.ending, progress.reasons[1:]) == (Ending.MOVED, said)
    others = progress.others
    assert (others.created, others.deleted) == (others_created, others_deleted)


async def test_long_lists_of_acls_are_cut() -> None:
    plan = new_plan([], some_acls(range(50)))
    server = MemoryServer.of(some_acls(range(10, 50)), compares=True)
    reasons = (await execute(plan, server)).reasons
    assert (len(reasons), reasons[-1]) == (22, "already there: 20 more")


@each_kind
async def test_dry_run_sends_nothing(plan: Plan, compares: bool) -> None:
    server = MemoryServer.of(BEFORE, compares=compares)
    execution = Execution(plan, server, report=lambda _: None)
    await execution.run(is_dry=True)
    progress = execution.progress
    assert (progress.ending, len(progress.requests)) == (Ending.POSSIBLE, 4)
    assert not server.sent


@each_kind
@pytest.mark.parametrize("fault", [
    lost,
    applied_and_lost,
    failing(ErrorCode.REQUEST_TIMED_OUT),
    failing_after(ErrorCode.REQUEST_TIMED_OUT),
    failing(ErrorCode.BROKER_NOT_AVAILABLE),
    failing_after(ErrorCode.KAFKA_STORAGE_ERROR),
])  # fmt: skip
async def test_unknown_outcome_is_found_out(
    plan: Plan, compares: bool, fault: Fault, autojump_clock: MockClock
) -> None:
    """The plan is applied once, whatever happens to a request or its answer."""
    for place in range(4):
        server = MemoryServer.of(BEFORE, compares=compares)
        server.faults = [*[applied] * place, fault]
        progress = await execute(plan, server)
        assert (progress.ending, progress.in_doubt) == (Ending.APPLIED, None)
        assert server.digest == plan.leads_to.digest
        assert len(progress.done) == 4


@pytest.mark.parametrize("is_overtaken", [True, False])
async def test_request_that_arrives_late_is_not_applied_twice(
    plan: Plan, is_overtaken: bool, autojump_clock: MockClock
) -> None:
    """The first one waits in the server until the second one arrives, or is applied."""
    server, late = MemoryServer.of(BEFORE, compares=True), Late()
    server.faults = [late.delay, late.follow if is_overtaken else late.precede]
    assert (await execute(plan, server)).ending is Ending.APPLIED
    assert server.digest == plan.leads_to.digest
    if is_overtaken:
        assert late.answers == [Answered((MOVED,) * len(server.sent[0][0].acls))]


@each_kind
async def test_rejected_request_ends_the_plan(plan: Plan, compares: bool) -> None:
    server = MemoryServer.of(BEFORE, compares=compares)
    server.faults = [applied, failing(ErrorCode.POLICY_VIOLATION)]
    progress = await execute(plan, server)
    assert (progress.ending, progress.in_doubt) == (Ending.FAILED, None)
    assert [done.request.step for done in progress.done] == ["create_deny"]
    assert progress.reasons == ["POLICY_VIOLATION: no (and 99 more errors)"]
    assert progress.left == plan.changes.count - len(plan.changes.create_deny)


@each_kind
async def test_request_that_never_succeeds_is_given_up(
    plan: Plan, compares: bool, autojump_clock: MockClock
) -> None:
    server = MemoryServer.of(BEFORE, compares=compares)
    server.faults = [lost] * 100
    progress = await execute(plan, server)
    assert progress.ending is Ending.FAILED
    assert len(server.sent) == ATTEMPTS_MAX
    assert progress.in_doubt == server.sent[0][0], "it may still arrive"


async def test_broker_whose_listings_lag_is_waited_for(
    plan: Plan, autojump_clock: MockClock
) -> None:
    server = MemoryServer.of(BEFORE, compares=False)

    def lag(apply: Callable[[], Answer]) -> Answer:
        answer = apply()
        server.lag = 3
        return answer

    server.faults = [lag, lag, lag, lag]
    assert (await execute(plan, server)).ending is Ending.APPLIED
    assert len(server.sent) == 4


async def test_creation_that_is_undone_is_reported(plan: Plan, autojump_clock: MockClock) -> None:
    server = MemoryServer.of(BEFORE, compares=False)

    def undone(apply: Callable[[], Answer]) -> Answer:
        answer = apply()
        server.apply(AclRequest("delete_deny", plan.changes.create_deny), None)
        return answer

    server.faults = [undone]
    progress = await execute(plan, server)
    assert progress.ending is Ending.RACED
    assert progress.others.unseen == plan.changes.create_deny
    assert len(server.sent) == 1


async def test_deletion_by_somebody_else_is_noted(plan: Plan) -> None:
    """The state is the planned one, so the plan goes on."""
    server = MemoryServer.of(BEFORE, compares=False)
    gone = plan.changes.delete_allow[0]
    server.faults = [applied, applied, overtaken(server, ("delete_allow", gone))]
    progress = await execute(plan, server)
    assert progress.ending is Ending.APPLIED
    assert progress.notes == [f"someone else deleted it first: {gone}"]


async def test_deletion_by_a_lost_request_is_not_taken_for_somebody_elses(
    plan: Plan, autojump_clock: MockClock
) -> None:
    """The first request is applied so late that the second one finds nothing to delete."""
    server, late = MemoryServer.of(BEFORE, compares=False), Late()
    server.faults = [applied, applied, late.delay, late.precede]
    progress = await execute(plan, server)
    assert (progress.ending, progress.notes) == (Ending.APPLIED, [])


async def test_rejected_request_names_what_somebody_else_has_made(plan: Plan) -> None:
    """A part of the request was made meanwhile, but not by it."""
    server = MemoryServer.of(BEFORE, compares=True)
    first = plan.changes.create_deny[0]
    server.faults = [overtaken(server, ("create_deny", first))]
    progress = await execute(plan, server)
    assert (progress.ending, progress.in_doubt) == (Ending.MOVED, None)
    assert progress.reasons[1:] == [f"made by someone else: {first}"]


async def test_lost_request_is_not_in_doubt_once_a_later_one_is_rejected(
    plan: Plan, autojump_clock: MockClock
) -> None:
    """It expects the offset of before the change, so the server would reject it as well."""
    server = MemoryServer.of(BEFORE, compares=True)
    server.faults = [lost, overtaken(server, ("create_allow", OTHER))]
    progress = await execute(plan, server)
    assert (progress.ending, progress.in_doubt) == (Ending.MOVED, None)
    assert progress.others.created == (OTHER,)


async def test_change_and_its_reversal_do_not_stop_the_plan(plan: Plan) -> None:
    """The offset has moved, but the ACLs are those that were reviewed."""
    server = MemoryServer.of(BEFORE, compares=True)
    server.faults = [overtaken(server, ("create_allow", OTHER), ("delete_allow", OTHER))]
    assert (await execute(plan, server)).ending is Ending.APPLIED
    assert [expected for _, expected in server.sent][:2] == [10, 12]


@pytest.mark.parametrize("first", [True, False])
async def test_other_kind_of_server_ends_the_plan(plan: Plan, first: bool) -> None:
    """After a broken connection, another server of the list may answer."""
    server = MemoryServer.of(BEFORE, compares=first)

    def fail_over(apply: Callable[[], Answer]) -> Answer:
        server.offset = None if first else 20
        return Unanswered("cut")

    server.faults = [fail_over]
    progress = await execute(plan, server)
    assert progress.ending is Ending.FAILED
    assert "a different server answers now" in progress.reasons[0]
    assert progress.in_doubt is not None


class Unreachable(MemoryServer):
    """A server that cannot be reached any more."""

    listings_max = 1

    async def list_acls(self) -> Listed:
        if self.listings == self.listings_max:
            raise CommandError("no server")
        return await super().list_acls()

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answer:
        if self.offset == 11:
            raise CommandError("no server")
        return await super().send(request, expected_offset)


async def test_lost_server_leaves_the_last_request_in_doubt(plan: Plan) -> None:
    server = Unreachable.of(BEFORE, compares=True)
    server.faults = [applied, lost]
    progress = await execute(plan, server)
    assert (progress.ending, progress.reasons) == (Ending.FAILED, ["no server"])
    assert progress.in_doubt == AclRequest("create_allow", plan.changes.create_allow)
    assert [done.request.step for done in progress.done] == ["create_deny"]


async def test_request_that_was_not_sent_is_not_in_doubt(plan: Plan) -> None:
    server = Unreachable.of(BEFORE, compares=True)
    server.offset = server.changed_at = 11
    progress = await execute(plan, server)
    assert (progress.ending, progress.in_doubt, progress.done) == (Ending.FAILED, None, [])


def allowed(acls: list[Acl]) -> set[tuple[str, str]]:
    """Return who may READ which topic; every ACL of these tests is about that."""
    denied = {(each.principal, each.resource_name) for each in acls if each.permission_type == 2}
    return {(each.principal, each.resource_name) for each in acls} - denied


@pytest.mark.parametrize("seed", range(20))
async def test_no_moment_allows_more_than_the_two_states(seed: int) -> None:
    chance = Random(seed)
    pool = [
        acl(f"User:u{number % 3}", topic=f"t{number % 4}", deny=deny)
        for number in range(12)
        for deny in (False, True)
    ]
    before = chance.sample(pool, 12)
    after = chance.sample(pool, 12)
    plan = new_plan(before, after)
    union = allowed(before) | allowed(after)
    server = MemoryServer.of(before, compares=True)
    seen: list[set[tuple[str, str]]] = []

    def check_access(_: Done) -> None:
        seen.append(allowed(list(server.acls.values())))
        assert seen[-1] <= union

    await Execution(plan, server, report=check_access, acls_max=1).run()
    assert set(server.acls.values()) == set(after)
    assert len(seen) == plan.changes.count


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize("seed", range(size(25, 100)))
async def test_races_are_rejected_or_reported(
    seed: int, compares: bool, autojump_clock: MockClock
) -> None:
    """A server that compares applies nothing to another state; on a broker, that is reported."""
    chance = Random(seed)
    before = some_acls(chance.sample(range(30), 12))
    plan = new_plan(before, some_acls(chance.sample(range(30), 12)))
    races = [random_race(chance, plan, before, 14) for _ in range(chance.choice([1, 1, 2]))]
    server = MemoryServer.of(before, compares=compares)
    racing = RacingServer(server, plan, races)
    check_race(await execute(plan, racing, acls_max=4), racing, races)
    assert (server.digest == plan.leads_to.digest) or any(race.happened for race in races)


def check_race(progress: Progress, racing: RacingServer, races: list[Race]) -> None:
    if progress.compares:
        assert racing.blind == 0
        assert progress.in_doubt is None
    elif racing.blind:
        assert progress.ending is Ending.RACED or progress.notes
    if progress.ending in (Ending.MOVED, Ending.RACED):
        assert any(race.happened for race in races)
    else:
        assert progress.ending in (Ending.APPLIED, Ending.NOTHING_TO_DO)
