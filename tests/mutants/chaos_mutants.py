"""Mutants that the chaos must find: answers too early or too late, and a checker that is blind."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_OWN_OFFSETS: Final = (
    "tests/fleet/test_judge.py::test_each_fault_with_offsets_of_the_daemon_is_found"
)
_CHAOS: Final = "tests/chaos/test_chaos.py::test_all_that_clients_were_told_is_in_the_log"

CHAOS_MUTANTS: Final = (
    Mutant(
        name="chaos: an update is acknowledged before the workers have applied it",
        file="daemon/workers/pool.py",
        text="            await link.wait_until_done(number)\n",
        becomes="            await trio.lowlevel.checkpoint()\n",
        found_by=_CHAOS,
    ),
    Mutant(
        name="chaos: a worker goes on with the state of its first question",
        file="daemon/decisions/stream_server.py",
        text="            weight = self._weight_of_each(ask.questions, state)\n",
        becomes=(
            '            state = self.__dict__.setdefault("first", state)\n'
            "            weight = self._weight_of_each(ask.questions, state)\n"
        ),
        found_by=_CHAOS,
    ),
    Mutant(
        name="chaos: one offset of the daemon may mean several states",
        file="tests/fleet/own_offsets.py",
        text="            states = (each for each in before if each in allowed)\n",
        found_by=_OWN_OFFSETS,
    ),
    Mutant(
        name="chaos: a higher offset of the daemon may show an older state",
        file="tests/fleet/own_offsets.py",
        text="possible[bisect_left(possible, earliest) :]",
        becomes="possible",
        found_by=_OWN_OFFSETS,
    ),
    Mutant(
        name="chaos: what was shown under an offset of the daemon may be lost",
        file="tests/fleet/judge.py",
        text="            yield from offsets.forget_from(begin)\n",
        becomes="            deque(offsets.forget_from(begin), 0)\n",
        found_by=(
            "tests/fleet/test_judge.py::"
            "test_state_that_an_offset_of_the_daemon_has_shown_may_not_be_lost"
        ),
    ),
    Mutant(
        name="chaos: the daemon may never follow a change in the cluster",
        file="tests/fleet/judge.py",
        text="(each.answered + each.shown_within, visible[0])",
        becomes="(each.answered + (1e9 if each.shown_within else 0), visible[0])",
        found_by=_OWN_OFFSETS,
    ),
    Mutant(
        name="chaos: a listing may show what was not yet sent",
        file="tests/fleet/judge.py",
        text="begin = self.state.step_at(offsets[0]).first_offset",
        becomes="begin = offsets[0]",
        found_by=_OWN_OFFSETS,
    ),
)
