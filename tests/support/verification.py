"""A state file of ``verify --follow`` for the console."""

import time
from pathlib import Path
from typing import Any

import msgspec

from authorizerd.config.configuration import Configuration, parse
from authorizerd.protocol.verification import (
    LATEST_MAX,
    Counts,
    Disagreement,
    Findings,
    Lag,
    Moment,
)

STATE_KEY = "authorizerd.console.verify.state"


def write_findings(
    path: Path,
    name: str = "eve",
    now_ms: int = time.time_ns() // 1_000_000,
    **changes: Any,  # noqa: ANN401 - fields
) -> Path:
    """Write findings of now to ``path``, and return it. Every name in them contains ``name``."""
    different = Disagreement(
        line=f"/logs/{name}.log:7", first_at="2026-11-30T00:00:01.000Z",
        last_at="2026-11-30T00:00:02.000Z", events=3, principal=f"User:{name}", host=None,
        operation="READ", resource_type="TOPIC", resource_name=name, recorded_allowed=True,
        recorded_rule=None, allowed=False, rule=f"DefaultDeny {name}", state=Moment(1_042, None),
        detail=f"the detail {name}", cause="another Kafka release decided",
    )  # fmt: skip
    counts = Counts(
        agreed=1_000, other_rule=21, disagreements={different.cause: 3, f"other {name}": 1},
        not_judged={f"before {name}": 7, "later": 8}, set_aside={"ambiguous": 5}, lost_files=2,
        judged_since_ms=1_000, judged_ms=now_ms - 9_877, lost_records=1_200,
    )  # fmt: skip
    found = Findings(
        history=f"/copy/{name}", window_ms=5_000, read_ms=now_ms, counts=counts,
        lag=Lag(
            bytes=99_999, lines=12, oldest_ms=now_ms - 40_000, history_ms=now_ms - 9_000,
            records=5_000,
        ),
        latest=(different, msgspec.structs.replace(different, host="10.0.0.1", recorded_rule=name))
        * (LATEST_MAX // 2),
    )  # fmt: skip
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, **changes)))
    return path


def parse_with(state: Path) -> Configuration:
    """Return a configuration whose console shows a state file."""
    return parse(f"node.id=1\nlog.dirs=/log\n{STATE_KEY}={state}\n", source="test")
