"""The readers that are fuzzed, by what sends them their inputs."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets.audit import AUDIT_TARGETS
from tests.fuzz.targets.certificates import CERTIFICATE_TARGETS
from tests.fuzz.targets.changes import CHANGE_TARGETS
from tests.fuzz.targets.client import CLIENT_TARGETS
from tests.fuzz.targets.commands import COMMAND_TARGETS
from tests.fuzz.targets.daemon import DAEMON_TARGETS
from tests.fuzz.targets.decisions import DECISION_TARGETS
from tests.fuzz.targets.files import FILE_TARGETS
from tests.fuzz.targets.http import HTTP_TARGETS
from tests.fuzz.targets.kafka import KAFKA_TARGETS
from tests.fuzz.targets.libraries import LIBRARY_TARGETS
from tests.fuzz.targets.replay import REPLAY_TARGETS
from tests.fuzz.targets.routes import ROUTE_TARGETS
from tests.fuzz.targets.text import TEXT_TARGETS

TARGETS: Final[Mapping[str, Target]] = {
    each.name: each
    for each in (
        *HTTP_TARGETS,
        *DECISION_TARGETS,
        *KAFKA_TARGETS,
        *CHANGE_TARGETS,
        *CLIENT_TARGETS,
        *LIBRARY_TARGETS,
        *CERTIFICATE_TARGETS,
        *FILE_TARGETS,
        *TEXT_TARGETS,
        *ROUTE_TARGETS,
        *AUDIT_TARGETS,
        *COMMAND_TARGETS,
        *REPLAY_TARGETS,
        *DAEMON_TARGETS,
    )
}
"""The targets by name."""
