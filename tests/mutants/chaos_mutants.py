"""Mutants that the chaos of real processes must find: answers that come too early or too late."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

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
        text="        error = self._refusal(caller, ask.questions, state)\n",
        becomes=(
            '        state = self.__dict__.setdefault("first", state)\n'
            "        error = self._refusal(caller, ask.questions, state)\n"
        ),
        found_by=_CHAOS,
    ),
)
