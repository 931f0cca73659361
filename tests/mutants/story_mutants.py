"""Mutants that the stories of the whole daemon must find: snapshots, gates, acknowledgements."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORIES: Final = "tests/model/test_stories.py::test_every_invariant_holds_in_every_story"

STORY_MUTANTS: Final = (
    Mutant(
        name="story: an update is acknowledged before it is synced",
        file="actors/update_queue.py",
        text=(
            "            last_offset = await self._write([each for each in tail.planned if"
            " each.plan.changes])\n"
        ),
        becomes=(
            "            unwritten = [each for each in tail.planned if each.plan.changes]\n"
            "            for each in tail.planned:\n"
            "                _answer(each.request, each.plan)\n"
            "            tail.planned.clear()\n"
            "            last_offset = await self._write(unwritten)\n"
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
        text="        state = self._server.decider.current_state()\n        error = self._refusal",
        becomes=(
            "        state = self._server.decider.current_state()\n"
            '        state = self.__dict__.setdefault("stale", state)\n'
            "        error = self._refusal"
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
)
