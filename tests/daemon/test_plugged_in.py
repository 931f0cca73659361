"""Kafka requests to a plugged-in authorizer, well-behaved or not."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorizer, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.no_authorizer import NoAuthorizer
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.values import STANDARD_AUTHORIZER
from authorizerd.daemon.authorizer_loader import choose_authorizer
from authorizerd.daemon.errors import StartError
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.daemon.kafka_service import ALICE, ROOT, TIMEOUT_MS, KafkaService, acl, start
from tools.example.quarantine import QuarantineAuthorizer

FIRST, SECOND = acl("first"), acl("second")
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
FAILED = ApiError(
    ErrorCode.UNKNOWN_SERVER_ERROR,
    "The server experienced an unexpected error when processing the request.",
)


class Slow(Authorizer):
    """Allow everything; complete changes only when the test says so."""

    def __init__(self, standard: Authorizer) -> None:
        self.creations: list[Completion[None]] = []
        self.deletions: list[Completion[Deleted]] = []

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return [True] * len(actions)

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        self.creations = [Completion() for _ in acls]
        return self.creations

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        self.deletions = [Completion() for _ in filters]
        return self.deletions

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        yield ()
        yield [FIRST]


async def start_slow(nursery: trio.Nursery) -> tuple[KafkaService, Slow]:
    made: list[Slow] = []

    def plug_in(standard: Authorizer) -> Slow:
        made.append(Slow(standard))
        return made[0]

    service = await start(nursery, plug_in=plug_in)
    return service, made[0]


async def create(service: KafkaService, results: list[ApiError | None]) -> None:
    results += await service.create([FIRST, SECOND])


@pytest.mark.usefixtures("autojump_clock")
async def test_authorizer_that_never_completes_costs_a_timeout(nursery: trio.Nursery) -> None:
    """Finished items keep their results; purgatory is empty afterwards."""
    service, slow = await start_slow(nursery)
    results: list[ApiError | None] = []
    nursery.start_soon(create, service, results)
    await trio.sleep(TIMEOUT_MS / 1000 - 1)
    assert service.purgatory.requests_waiting == 1
    slow.creations[1].succeed(None)
    await trio.sleep(2)
    assert [result and result.code for result in results] == [TIMED_OUT, None]
    assert service.purgatory.requests_waiting == 0
    assert await service.describe() == {FIRST}


@pytest.mark.usefixtures("autojump_clock")
async def test_failure_after_the_timeout_is_ignored(nursery: trio.Nursery) -> None:
    service, slow = await start_slow(nursery)
    results: list[ApiError | None] = []
    nursery.start_soon(create, service, results)
    await trio.sleep(TIMEOUT_MS / 1000 + 1)
    for completion in slow.creations:
        completion.fail(RuntimeError("too late"))
    await wait_all_tasks_blocked()
    assert [result and result.code for result in results] == [TIMED_OUT] * 2
    assert service.purgatory.requests_waiting == 0
    assert await service.describe() == {FIRST}


async def test_authorizer_that_raises_fails_every_item(nursery: trio.Nursery) -> None:
    """The error's text appears only in the daemon's own log."""

    class Raising(Slow):
        def create_acls(
            self, context: RequestContext, acls: Sequence[Acl]
        ) -> Sequence[Completion[None]]:
            raise RuntimeError("a secret")

        def delete_acls(
            self, context: RequestContext, filters: Sequence[AclFilter]
        ) -> Sequence[Completion[Deleted]]:
            raise RuntimeError("a secret")

        def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
            raise RuntimeError("a secret")

    service = await start(nursery, plug_in=Raising)
    assert await service.create([FIRST, SECOND]) == [FAILED, FAILED]
    (deleted,) = await service.delete([AclFilter()])
    assert (deleted.error, list(deleted.matches)) == (FAILED, [])
    described = await service.describe()
    assert isinstance(described, ApiError)
    assert described.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in str(described)
    assert len(service.faults) == 3
    assert service.purgatory.requests_waiting == 0


async def test_authorizer_may_fail_single_matches(nursery: trio.Nursery) -> None:
    service, slow = await start_slow(nursery)
    results: list[object] = []

    async def delete() -> None:
        (result,) = await service.delete([AclFilter()])
        results.append([(match.acl, match.error) for match in result.matches])

    nursery.start_soon(delete)
    await wait_all_tasks_blocked()
    failures = {SECOND: InvalidAclError("is kept")}
    slow.deletions[0].succeed(Deleted((FIRST, SECOND), failures=failures))
    await wait_all_tasks_blocked()
    kept = ApiError(ErrorCode.INVALID_REQUEST, "is kept")
    assert results == [[(FIRST, None), (SECOND, kept)]]
    assert service.purgatory.requests_waiting == 0


async def test_authorizer_that_fails_to_decide_denies_everyone(nursery: trio.Nursery) -> None:
    """Even super users are denied the right to see ACLs: the authorizer decides about them."""

    class Undecided(Slow):
        def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
            raise RuntimeError

    service = await start(nursery, plug_in=Undecided)
    described = await service.describe(principal=ROOT)
    assert isinstance(described, ApiError)
    assert described.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_acl_requests_get_security_disabled_without_authorizer(nursery: trio.Nursery) -> None:
    service = await start(nursery, plug_in=lambda standard: NoAuthorizer())
    disabled = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert await service.create([FIRST, acl("")], principal=ALICE) == [disabled] * 2
    deleted = await service.delete([AclFilter(), AclFilter()], principal=ALICE)
    assert [(each.error, list(each.matches)) for each in deleted] == [(disabled, [])] * 2
    assert await service.describe(principal=ALICE) == ApiError(
        ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
    )
    assert service.acls == set()


async def test_example_wraps_the_built_in_authorizer(nursery: trio.Nursery) -> None:
    """Quarantine overrides super.users; ACLs are stored as usual, and its own keys are read."""
    made: list[QuarantineAuthorizer] = []

    def plug_in(standard: Authorizer) -> Authorizer:
        made.append(QuarantineAuthorizer(standard))
        return made[0]

    service = await start(nursery, plug_in=plug_in)
    assert await service.create([FIRST]) == [None]
    assert service.acls == {FIRST}
    with pytest.raises(ValueError, match="mallory is not Type:name"):
        made[0].validate_reconfiguration({"quarantine.principals": "mallory"})
    settings = {"super.users": ROOT, "quarantine.principals": ROOT}
    made[0].validate_reconfiguration(settings)
    made[0].reconfigure(settings)
    (refused,) = await service.create([SECOND])
    assert refused is not None
    assert refused.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert service.acls == {FIRST}


async def test_built_in_authorizer_gets_settings_under_any_wrapper(nursery: trio.Nursery) -> None:
    service = await start(nursery, plug_in=Slow)
    service.settings.set_guarded({"super.users": ALICE})
    assert service.authorizer.current_state().settings.super_users == {ALICE}


def choose(class_name: str) -> Authorizer:
    snapshot: Published[AclSnapshot | None] = Published(None)
    standard = StandardAuthorizer(snapshot)
    return choose_authorizer(class_name, standard, snapshot)


def test_configured_class_decides() -> None:
    assert isinstance(choose(STANDARD_AUTHORIZER), StandardAuthorizer)
    assert isinstance(choose("tools.example.quarantine.QuarantineAuthorizer"), PluggedAuthorizer)
    assert isinstance(choose(""), PluggedAuthorizer)


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [
        ("com.example.Mine", "there is no module com"),
        ("tools.example.nothing.Mine", "there is no module tools.example.nothing"),
        ("tools.example.quarantine.Mine", "has no attribute 'Mine'"),
        ("tools.example.quarantine.PRINCIPALS", "'str' object is not callable"),
        ("pathlib.Path", "TypeError: "),
        ("builtins.id", "it lacks the methods acl_count, acl_offset, acls, authorize, "),
        ("tests.daemon.test_plugged_in.Abstract", "it lacks the methods acls, create_acls"),
    ],
)
def test_unusable_class_prevents_the_start(class_name: str, reason: str) -> None:
    """One line names key, class and reason; the built-in authorizer is never used instead."""
    with pytest.raises(StartError) as refusal:
        choose(class_name)
    assert str(refusal.value).startswith(f"authorizer.class.name: {class_name}: ")
    assert reason in str(refusal.value)


class Abstract(Authorizer):
    """A class that lacks required methods."""

    def __init__(self, standard: Authorizer) -> None: ...

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return []

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return []


def test_missing_import_of_class_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_plug.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StartError, match="No module named 'not_installed_anywhere'"):
        choose("lacking_plug.Mine")
    sys.modules.pop("lacking_plug", None)
