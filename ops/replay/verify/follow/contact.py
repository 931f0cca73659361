"""Ask a daemon until when its ACLs are known to be the cluster's: a listing has no records of time.

**Invariant:** the time is that of an answer of the cluster, never later.
"""

from __future__ import annotations

import http.client
import re
import time
from typing import Final, NamedTuple

from authorizerd.config.endpoints import HttpEndpoint

TIMEOUT_S: Final = 5.0
_SAMPLE: Final = re.compile(r"^(authorizerd_\w+) (\S+)$", re.MULTILINE)
_AGE: Final = "authorizerd_source_contact_age_seconds"


class Contact(NamedTuple):
    """The state at ``offset`` was the cluster's at ``at_ms``."""

    at_ms: int
    offset: int


def ask_contact(daemon: HttpEndpoint) -> Contact | None:
    """Return what the daemon's metrics say, None if its ACLs are not known to be current. Blocks.

    A daemon with a log of its own is always current.

    Raises:
        OSError: it does not answer.
    """
    now_ms = time.time_ns() // 1_000_000
    connection = http.client.HTTPConnection(daemon.host or "", daemon.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except http.client.HTTPException as error:
        place = f"{daemon.host}:{daemon.port}"
        raise OSError(f"{place}: expected a daemon's metrics: {error!r}") from error
    finally:
        connection.close()
    samples = {name: float(value) for name, value in _SAMPLE.findall(text)}
    offset = int(samples.get("authorizerd_snapshot_offset", -1))
    age_s = samples.get(_AGE, 0)
    if offset < 0 or age_s < 0 or samples.get("authorizerd_source_copy_failing"):
        return None
    return Contact(now_ms - round(age_s * 1000), offset)
