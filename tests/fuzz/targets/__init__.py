"""The readers that are fuzzed, by what sends them their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets.audit import AUDIT_TARGETS
from tests.fuzz.targets.certificates import CERTIFICATE_TARGETS
from tests.fuzz.targets.client import CLIENT_TARGETS
from tests.fuzz.targets.daemon import DAEMON_TARGETS
from tests.fuzz.targets.decisions import DECISION_TARGETS
from tests.fuzz.targets.files import FILE_TARGETS
from tests.fuzz.targets.http import HTTP_TARGETS
from tests.fuzz.targets.kafka import KAFKA_TARGETS
from tests.fuzz.targets.text import TEXT_TARGETS

TARGETS: Final[Mapping[str, Target]] = {
    each.name: each
    for each in (
        *HTTP_TARGETS,
        *DECISION_TARGETS,
        *KAFKA_TARGETS,
        *CLIENT_TARGETS,
        *CERTIFICATE_TARGETS,
        *FILE_TARGETS,
        *TEXT_TARGETS,
        *AUDIT_TARGETS,
        *DAEMON_TARGETS,
    )
}
"""The targets by name."""
