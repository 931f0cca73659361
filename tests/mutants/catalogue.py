"""All mutants by area, and the document that lists them.

``python -m tests.mutants --document > docs/mutants.md`` updates it; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from tests.mutants.actor_mutants import ACTOR_MUTANTS
from tests.mutants.backup_mutants import BACKUP_MUTANTS
from tests.mutants.broker_mutants import BROKER_MUTANTS
from tests.mutants.certificate_name_mutants import CERTIFICATE_NAME_MUTANTS
from tests.mutants.change_mutants import CHANGE_MUTANTS
from tests.mutants.chaos_mutants import CHAOS_MUTANTS
from tests.mutants.client_mutants import CLIENT_MUTANTS
from tests.mutants.command_mutants import COMMAND_MUTANTS
from tests.mutants.connection_mutants import CONNECTION_MUTANTS
from tests.mutants.console_mutants import CONSOLE_MUTANTS
from tests.mutants.copy_mutants import COPY_MUTANTS
from tests.mutants.decision_mutants import DECISION_MUTANTS
from tests.mutants.decision_port_mutants import DECISION_PORT_MUTANTS
from tests.mutants.explanation_mutants import EXPLANATION_MUTANTS
from tests.mutants.format_mutants import FORMAT_MUTANTS
from tests.mutants.ingest_mutants import INGEST_MUTANTS
from tests.mutants.kafka_mutants import KAFKA_MUTANTS
from tests.mutants.log_mutants import LOG_MUTANTS
from tests.mutants.login_mutants import LOGIN_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.node_mutants import NODE_MUTANTS
from tests.mutants.past_mutants import PAST_MUTANTS
from tests.mutants.plan_mutants import PLAN_MUTANTS
from tests.mutants.policy_mutants import POLICY_MUTANTS
from tests.mutants.process_mutants import PROCESS_MUTANTS
from tests.mutants.quorum_mutants import QUORUM_MUTANTS
from tests.mutants.release_mutants import RELEASE_MUTANTS
from tests.mutants.replay_mutants import REPLAY_MUTANTS
from tests.mutants.setting_mutants import SETTING_MUTANTS
from tests.mutants.shell_mutants import SHELL_MUTANTS
from tests.mutants.story_mutants import STORY_MUTANTS
from tests.mutants.tls_mutants import TLS_MUTANTS
from tests.mutants.transfer_mutants import TRANSFER_MUTANTS
from tests.mutants.write_mutants import WRITE_MUTANTS
from tests.mutants.zookeeper_mutants import ZOOKEEPER_MUTANTS

CATALOGUE: Final[Mapping[str, Sequence[Mutant]]] = {
    "Log": LOG_MUTANTS,
    "Copy of a followed log": COPY_MUTANTS,
    "Backups": BACKUP_MUTANTS,
    "Import and export": TRANSFER_MUTANTS,
    "Formats of ACLs": FORMAT_MUTANTS,
    "ACLs in ZooKeeper": ZOOKEEPER_MUTANTS,
    "Rules": DECISION_MUTANTS,
    "Explanations": EXPLANATION_MUTANTS,
    "The past": PAST_MUTANTS,
    "Plans": PLAN_MUTANTS,
    "Policy tests": POLICY_MUTANTS,
    "Actors": ACTOR_MUTANTS,
    "Stories": STORY_MUTANTS,
    "Chaos": CHAOS_MUTANTS,
    "Console": CONSOLE_MUTANTS,
    "Kafka listeners": KAFKA_MUTANTS,
    "Changes that expect a state": CHANGE_MUTANTS,
    "SASL log-ins": LOGIN_MUTANTS,
    "Names of certificates": CERTIFICATE_NAME_MUTANTS,
    "Changes through a follower": WRITE_MUTANTS,
    "Decision ports": DECISION_PORT_MUTANTS,
    "Connections": CONNECTION_MUTANTS,
    "TLS": TLS_MUTANTS,
    "Nodes of a followed cluster": NODE_MUTANTS,
    "Following a quorum": QUORUM_MUTANTS,
    "Following brokers": BROKER_MUTANTS,
    "Kafka releases": RELEASE_MUTANTS,
    "Settings": SETTING_MUTANTS,
    "Commands": COMMAND_MUTANTS,
    "Metadata shell": SHELL_MUTANTS,
    "Process": PROCESS_MUTANTS,
    "Replay: ingest": INGEST_MUTANTS,
    "Replay": REPLAY_MUTANTS,
    "Client libraries": CLIENT_MUTANTS,
}
MUTANTS: Final = tuple(chain.from_iterable(CATALOGUE.values()))

_HEAD: Final = """\
# Mutants

Use this page to find the test that guards a piece of code. Each line says what goes wrong when one
guard is removed from a copy of the code, and names the test that must then fail.

- `make mutants` breaks each guard in turn, runs its test, and fails if the test passes.
- `python -m tests.mutants DENY` runs only the mutants whose name contains `DENY`.
- `make test` checks that every mutant can still be made.
"""


def document() -> str:
    """Return the whole document."""
    lines = [_HEAD]
    for title, mutants in CATALOGUE.items():
        lines += [f"## {title}\n", "| what is broken | where | found by |", "|---|---|---|"]
        lines += map(_row, mutants)
        lines.append("")
    return "\n".join(lines)


def _row(mutant: Mutant) -> str:
    file, _, test = mutant.found_by.partition("::")
    return f"| {mutant.name} | `{mutant.file}` | `{file}` `{test}` |"
