"""Callers inside the process; each makes its calls one after the other, as a connection does."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import trio
from immutables import Map

from authorizerd.acl.errors import InvalidAclError, NotReadyError
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.updates import Plan
from authorizerd.acl.validation import validate_filter
from authorizerd.actors.authorizer import Action, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.updates import ClusterPlan
from authorizerd.image.changes import ConfigChanged
from authorizerd.image.cluster import ClusterImage
from tests.model.invariants import check
from tests.model.process import Process
from tests.model.reference import BROKER, TIMEOUT_KEY, Request
from tests.model.story import (
    LATE,
    PEER,
    Ask,
    Call,
    Client,
    Create,
    Delete,
    Describe,
    Reload,
    SetTimeout,
)

MOMENT_S: Final = 1e-9


class Caller:
    """One caller. Its answers come in order, and none is from an older state than the last."""

    def __init__(self, process: Process, client: Client, number: int, counts: Counter[str]) -> None:
        self._process = process
        self._client = client
        self._id = f"caller {number}"
        self._counts = counts
        self._seen_offset = -1

    async def run(self) -> None:
        await self._process.gate.wait_until_open(self._client.endpoint)
        if self._client.endpoint == LATE:
            check(self._process.is_loaded, "an endpoint opens before the ACLs are loaded")
        for call in self._client.calls:
            await trio.sleep(call.delay_s)
            await self._call(call)

    async def _call(self, call: Call) -> None:
        self._counts[type(call.step).__name__] += 1
        async with trio.open_nursery() as nursery:
            if call.patience_s is not None:
                nursery.start_soon(_give_up, nursery.cancel_scope, call.patience_s, call.turns)
            await self._do(call)
            nursery.cancel_scope.cancel()
            return
        self._counts["callers cancelled"] += 1

    async def _do(self, call: Call) -> None:
        process = self._process
        serves = process.authorizer.serves(self._client.principal)
        is_super_user = self._client.principal in process.super_users
        check(serves is (process.is_loaded or is_super_user), "the wrong callers are served")
        match call.step:
            case Ask(questions, pause_s):
                await self._ask(questions, pause_s)
            case Reload(super_users, allow_everyone):
                await process.reload(super_users, allow_everyone=allow_everyone)
            case Describe() if serves:
                await self._describe(call.step)
            case Create() | Delete() | SetTimeout() if serves:
                await self._update(call.step)
            case _:
                self._counts["not served yet"] += 1

    # Questions.

    async def _ask(self, questions: Sequence[Question], pause_s: float | None) -> None:
        """Ask all questions at once, or with pauses from one pinned state; check each answer."""
        process = self._process
        offset = self._see(process.authorizer.current_state().offset)
        authorizer = process.authorizer
        authorize = authorizer.authorize if pause_s is None else authorizer.pinned()
        settings = process.settings[-1]
        for question in questions:
            context = RequestContext(
                principal=question.principal, host=question.host, request_name="Test"
            )
            action = Action(question.operation, question.resource_type, question.resource_name)
            try:
                answers = authorize(context, [action])
            except NotReadyError:
                check(offset == -1, "the authorizer is not ready although it is loaded")
                check(question.principal not in settings[0], "a super user is not answered")
                continue
            if offset == -1:
                check(
                    answers == [question.principal in settings[0]],
                    "a question is answered before loading",
                )
            else:
                process.invariants.check_decision(offset, question, answers == [True], [settings])
            self._counts["decisions"] += 1
            if pause_s is not None:
                await trio.sleep(pause_s)

    def _see(self, offset: int) -> int:
        """Check that the visible offset is new enough, and return it."""
        check(
            offset >= self._process.invariants.acknowledged_offset,
            "an acknowledged update is not visible",
        )
        check(offset >= self._seen_offset, "a client sees an older state")
        self._seen_offset = offset
        return offset

    async def _describe(self, step: Describe) -> None:
        try:
            validate_filter(step.filter)
        except InvalidAclError:
            return
        offset = self._see(self._process.authorizer.current_state().offset)
        described: list[Acl] = []
        for acls in self._process.authorizer.acls(step.filter):
            described += acls
            await trio.lowlevel.checkpoint()
        if offset == -1:
            check(described == [], "ACLs are described before they are loaded")
        else:
            self._process.invariants.check_description(offset, step.filter, described)

    # Updates.

    async def _update(self, step: Create | Delete | SetTimeout) -> None:
        process = self._process
        completions = self._begin(step)
        request = process.accepted.pop(self._id)
        if request.is_refused:
            return
        request.completions = completions
        started, patience_s = trio.current_time(), process.parts.purgatory.timeout_ms / 1000
        await process.parts.purgatory.wait(completions)
        waited_s = trio.current_time() - started
        check(waited_s <= patience_s + MOMENT_S, "an update waits too long")
        if not all(completion.is_done for completion in completions):
            check(waited_s >= patience_s - MOMENT_S, "an update times out too early")
            self._counts["timed out"] += 1

    def _begin(self, step: Create | Delete | SetTimeout) -> Sequence[Completion[Any]]:
        process = self._process
        context = RequestContext(
            principal=self._client.principal, host=PEER, request_name="Test", client_id=self._id
        )
        match step:
            case Create(acls):
                return process.authorizer.create_acls(context, acls)
            case Delete(filters):
                return process.authorizer.delete_acls(context, filters)
            case SetTimeout(node, timeout_ms):
                value = None if timeout_ms is None else str(timeout_ms)

                def plan(image: ClusterImage) -> ClusterPlan[str | None]:
                    configs: Map[str, str] = image.configs.get((BROKER, node), Map())
                    before = configs.get(TIMEOUT_KEY)
                    change = ConfigChanged(BROKER, node, TIMEOUT_KEY, value)
                    return Plan((change,) if before != value else (), before)

                request = Request(step)

                def on_applied() -> None:
                    process.parts.settings.refresh()
                    process.invariants.note_applied(request, process.applier.snapshot.newest)

                updates = process.parts.origin.updates
                waiting = updates.statistics.requests_waiting
                completions = [updates.change_cluster(plan, on_applied)]
                process.accept(request, self._id, completions, waiting)
                return completions


async def _give_up(scope: trio.CancelScope, patience_s: float, turns: int) -> None:
    await trio.sleep(patience_s)
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()
