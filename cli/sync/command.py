"""``authorizerd sync``: rounds until a signal, or one round.

Exit codes: 0 a signal has ended it, 1 a fault, 2 invalid arguments. With ``--once``: 0 the ACLs are
as desired (with ``--dry-run``: or could be made so), 1 a fault, 3 a person must look at the plan, 4
someone else has changed ACLs meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Final

from authorizerd.cli.change import applying
from authorizerd.cli.program.ending import is_interrupt
from authorizerd.cli.sync.grants import GrantThread
from authorizerd.cli.sync.metrics import Status
from authorizerd.cli.sync.rounds import Outcome, Rounds, SyncRequest
from authorizerd.cli.sync.status import print_event, serve_status
from authorizerd.daemon.logging.setup import log_to_standard_error

JITTER: Final = 0.1
"""The interval is shorter or longer by up to this share, so that several processes do not collide.
A long round is followed by a pause of at least this share."""

_EXIT_CODES: Final[Mapping[Outcome, int]] = {
    Outcome.IN_STEP: 0,
    Outcome.POSSIBLE: 0,
    Outcome.FAILED: applying.EXIT_FAULT,
    Outcome.BLOCKED: applying.EXIT_BREAKS,
    Outcome.RACED: applying.EXIT_MOVED,
}


def sync(request: SyncRequest) -> int:
    """Run rounds. Return the exit code."""
    status = Status()
    rounds = Rounds(request, status)
    if request.once:
        return _EXIT_CODES[rounds.run()]
    log_to_standard_error()
    grants = GrantThread(request.servers, request.command_config, enforces=not request.dry_run)
    try:
        with serve_status(status, grants.keeper, request.listen) as port:
            print_event("started", metrics=f"http://{request.listen.host}:{port}/metrics")
            grants.start()
            while True:
                outcome = rounds.run()
                if rounds.is_stopped:
                    break
                grants.check()
                time.sleep(find_pause(request.interval, outcome, status.round_seconds))
    except BaseException as error:
        if not is_interrupt(error):
            raise
    print_event("ended")
    return 0


def find_pause(interval: float, outcome: Outcome, round_seconds: float) -> float:
    """Return the seconds until the next round begins, counted from the end of the last one.

    After a race, it begins soon, at a random time.
    """
    if outcome is Outcome.RACED:
        return random.uniform(0, min(interval, 1))  # noqa: S311 - no secret
    pause = interval * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    return max(pause - round_seconds, JITTER * pause)
