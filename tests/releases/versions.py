"""The releases of Kafka that are compared. A new one on Maven is one more line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from tests.kafka_rig.rig import Program

_NO_TWO_PHASE_COMMIT: Final = {"TWO_PHASE_COMMIT": "CREATE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a release judges, and what it lacks.

    Args:
        lacking: the operations that the release lacks, and what replaces them in cases.
        judges_everyone: whether it decides questions by ``User:*``, which later releases and the
            daemon refuse.
        acls_class: the class of its kafka-acls.
    """

    rules: ReleaseRules
    lacking: Mapping[str, str] = field(default_factory=dict)
    judges_everyone: bool = False
    acls_class: str = Program.ACLS.main_class


VERSIONS: Final[Mapping[str, Compared]] = {
    "3.9.1": Compared(
        rules=RULES_4_3,
        lacking=_NO_TWO_PHASE_COMMIT,
        judges_everyone=True,
        acls_class="kafka.admin.AclCommand",
    ),
    "4.0.0": Compared(rules=RULES_4_3, lacking=_NO_TWO_PHASE_COMMIT),
    "4.1.0": Compared(rules=RULES_4_3),
    "4.2.0": Compared(rules=RULES_4_3),
    "4.3.1": Compared(rules=RULES_4_3),
    "4.4.0": Compared(rules=RULES_4_4),
}
