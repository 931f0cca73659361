"""Mutants that the stories of the whole daemon must find: snapshots, gates, acknowledgements."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORIES: Final = "tests/model/test_stories.py::test_every_invariant_holds_in_every_story"

STORY_MUTANTS: Final = (
    Mutant(
        name="story: an update is acknowledged before it is synced",
        file="actors/update_queue.py",
        text="            offset = await self._write(group, offset)\n",
        becomes=(
            "            for request in group:\n"
            "                request.answer(offset)\n"
            "            offset = await self._write(group, offset)\n"
            "            return\n"
        ),
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a snapshot is published before its records are applied",
        file="actors/record_applier.py",
        text="                    snapshot = await self._apply(snapshot, message, replaced)\n",
        becomes=(
            "                    if message.is_end:\n"
            "                        early = at_offset(snapshot, message.last_offset)\n"
            "                        self._publish(early, cluster)\n"
            "                    snapshot = await self._apply(snapshot, message, replaced)\n"
        ),
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a port listens before the authorizer has started it",
        file="daemon/lifespan.py",
        text="        await self._gate.wait_until_open(name)\n",
        becomes="        await trio.lowlevel.checkpoint()\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a Kafka listener answers without waiting for the update",
        file="daemon/kafka/acls.py",
        text="        await self._purgatory.wait(completions)\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a stream goes on with the state of its first question",
        file="daemon/decisions/stream_server.py",
        text="        state = self._server.authorizer.current_state()\n        try:\n",
        becomes=(
            "        state = self._server.authorizer.current_state()\n"
            '        state = self.__dict__.setdefault("stale", state)\n'
            "        try:\n"
        ),
        found_by=_STORIES,
    ),
    Mutant(
        name="story: accepted updates are refused when the daemon ends",
        file="daemon/lifespan.py",
        text="            parts.origin.updates.close()\n",
        becomes="            parts.origin.updates.close()\n            scope.cancel()\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a server leaves its connections open",
        file="daemon/net/connection_server.py",
        text="                await trio.aclose_forcefully(stream)\n",
        becomes="                pass\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: the second connection to the quorum stays open at the end",
        file="daemon/sources/quorum/source.py",
        text="with trio.CancelScope(shield=True):\n                    await self._link",
        becomes="with trio.CancelScope():\n                    await self._link",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: records that the quorum may still lose are passed on",
        file="daemon/sources/quorum/fetched_log.py",
        text="        while self._pending and self._pending[0].last_offset < high_watermark:\n",
        becomes="        while self._pending:\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="decisions go on although contact with the cluster is lost",
        file="actors/published.py",
        text="if deadline != math.inf and self._clock() >= deadline:",
        becomes="if deadline == -math.inf:",
        found_by=(
            "tests/actors/test_record_applier.py"
            "::test_state_decides_until_its_deadline_whoever_runs"
        ),
    ),
    Mutant(
        name="story: a follower acknowledges a change before it has applied it",
        file="daemon/sources/writes/delivery.py",
        text="        if not answers.has_success or await self._confirm(answers):\n",
        becomes="        if not answers.has_success or answers.items is not None:\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: an older listing is accepted after a failover",
        file="daemon/sources/brokers/machine.py",
        text="        if log_end >= demanded:\n",
        becomes="        if log_end >= 0:\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a change is acknowledged before a listing shows it",
        file="daemon/sources/brokers/source.py",
        text="            await barrier.passed.wait()\n        return barrier.passed.is_set()\n",
        becomes="            await trio.lowlevel.checkpoint()\n        return True\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: callers are forwarded who are not listed",
        file="daemon/sources/writes/rights.py",
        text="        if principal not in self._listed:\n",
        becomes="        if not principal:\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a caller is forwarded by the name of another",
        file="daemon/sources/writes/submission.py",
        text="        principal, host = caller.principal, caller.host\n",
        becomes='        principal, host = "User:root", caller.host\n',
        found_by=_STORIES,
    ),
    Mutant(
        name="story: one frame is decided by several states",
        file="daemon/decisions/stream_server.py",
        text="            decisions += self._decide(state, these)\n",
        becomes=(
            "            state = self._server.authorizer.current_state()\n"
            "            decisions += self._decide(state, these)\n"
        ),
        found_by=_STORIES,
    ),
    Mutant(
        name="story: one batch over HTTP is decided by several states",
        file="daemon/decisions/authzen.py",
        text="decision = decide(state, question, context)",
        becomes="decision = decide(self._authorizer.current_state(), question, context)",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a snapshot of the cluster changes nothing once decisions have begun",
        file="daemon/sources/quorum/feed.py",
        text="            await self._send_differences(acls, image, end_offset - 1)\n",
        becomes="            await trio.lowlevel.checkpoint()\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: an update is acknowledged before every worker has applied it",
        file="daemon/workers/pool.py",
        text="            await link.wait_until_done(number)\n",
        becomes="            await trio.lowlevel.checkpoint()\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a worker reports changes before it decides by them",
        file="daemon/workers/feed_source.py",
        text="            lambda newest: newest is not None and newest.offset >= order.offset\n",
        becomes="            lambda newest: order.offset >= 0\n",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: updates that a stopped worker delays never end",
        file="daemon/workers/link.py",
        text="if waited > (self._timeout if self.is_loaded else LOADING_SECONDS_MAX):",
        becomes="if waited < 0:",
        found_by=_STORIES,
    ),
    Mutant(
        name="story: a worker does not get the settings of a reload",
        file="daemon/workers/feed_source.py",
        text="                        follower.apply_settings(texts)\n",
        becomes="                        pass\n",
        found_by=_STORIES,
    ),
)
