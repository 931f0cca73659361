"""The page *Verify*: what ``verify --follow`` has found, from its state file.

**Invariant:** what the file does not say is shown as unknown, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from authorizerd.config.configuration import Configuration
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.process.utc_time import format_utc_ms, now_ms
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.decisions.acl_filters import check_names
from authorizerd.protocol.http.rights import VERIFICATION
from authorizerd.protocol.verification import (
    LATEST_MAX,
    Cause,
    Findings,
    StateError,
    decode_findings,
)

STALE_S: Final = 60
"""The verifier writes the file every 10 s, also if nothing happens."""
_UNITS: Final = (("days", 86_400), ("hours", 3_600), ("minutes", 60))
BYTES_MAX: Final = 8 * 1024 * 1024
ADVICE: Final[Mapping[str, str]] = {
    Cause.PLUG_IN: "Compare only brokers that use Kafka's authorizer.",
    Cause.SUPER_USERS: "Pass the list of the broker that wrote the line.",
    Cause.DEFAULT: "Pass the value of the broker.",
    Cause.RELEASE: "Pass the broker's release.",
    Cause.CLOCK: "Correct the clock, or --tz: the broker was late or early by one time after "
    "several changes.",
    Cause.OTHER_TIME: "Look at that change; a broker that lags needs a longer --window.",
    Cause.HISTORY_LACKS: "The line names an ACL that the log does not have: check that it is the "
    "same cluster's.",
    Cause.BROKER_LACKED: "The broker decided without an ACL of the log: check its metadata and its "
    "restarts.",
    Cause.UNKNOWN: "Report it, with the line and the ACLs of the resource.",
}
"""What to do about each cause, as docs/prove.md has it."""


class VerifyPage:
    """Show the counts, the lag and the newest differences.

    Not everyone on the machine may read the file, so only visitors who log in and may read ACLs see
    what it has.
    """

    def __init__(self, configuration: Configuration) -> None:
        state = configuration.console_verify_state
        self._file: Final = None if state is None else Path(state)
        self._limiter: Final = trio.CapacityLimiter(1)  # for memory

    async def __call__(self, visit: Visit) -> Shown:
        """Show the page."""
        check_names(dict(visit.parameters), ())
        visit.caller.check(VERIFICATION)
        context: dict[str, Any] = {"findings": None, "problem": ""}
        if self._file is not None:
            try:
                context |= await run_in_thread(_read, self._file, limiter=self._limiter)
            except (OSError, StateError) as error:
                context["problem"] = f"{getattr(error, 'strerror', None) or error}."
        return Shown(template="verify.html.jinja", context=context)


def _read(path: Path) -> dict[str, Any]:
    """Return the context of the page. Blocks.

    Raises:
        OSError: the file cannot be read.
        StateError: it is not a state file of this version.
    """
    with DISK.open(path) as file:  # a pipe would block
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise StateError(f"expected at most {BYTES_MAX:,} bytes, found more")
    found = decode_findings(data, Findings)
    try:
        return _describe(found, now_ms())
    except (OSError, ValueError, OverflowError) as error:
        raise StateError(f"not a state file, or a damaged one: {error}") from error


def _describe(found: Findings, at_ms: int) -> dict[str, Any]:
    counts, lag = found.counts, found.lag
    disagreements = sum(counts.disagreements.values())

    def at(time_ms: int | None) -> str:
        if time_ms is None:
            return "unknown"
        age_s = (at_ms - time_ms) // 1000
        duration = next(
            (f"{abs(age_s) // each} {unit}" for unit, each in _UNITS if abs(age_s) >= 2 * each),
            f"{abs(age_s)} s",
        )
        return f"{format_utc_ms(time_ms)}, {duration} {'ago' if age_s >= 0 else 'ahead'}"

    return {
        "findings": found,
        "judged": counts.agreed + counts.other_rule + disagreements,
        "disagreements": disagreements,
        "read": at(found.read_ms or None),
        "is_stale": abs(at_ms - found.read_ms) > STALE_S * 1000,
        "since": at(counts.judged_since_ms),
        "until": at(counts.judged_ms),
        "oldest": at(lag.oldest_ms)
        if lag.oldest_ms or lag.bytes or lag.records
        else "no line waits",
        "history": at(lag.history_ms),
        "latest": found.latest[:LATEST_MAX],
        "latest_max": LATEST_MAX,
        "advice": ADVICE,
    }
