"""A steady stream of creations and deletions of ACLs, with a journal of what must exist.

Each change is repeated until it is acknowledged, so the ACLs at the end are known exactly,
whatever happened to the connections meanwhile.
"""

import random
import time
from collections.abc import Sequence

from authorizerd.acl.model import Acl, Question
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.rig import RigError
from tests.support.acls import acl, exact_filter, question
from tests.support.background import Background

TOPICS = [f"churn-{number}" for number in range(40)]
PRINCIPAL = "User:churn"
POOL = [
    *(acl(PRINCIPAL, "READ", topic=topic) for topic in TOPICS),
    *(acl(PRINCIPAL, "READ", topic=topic, deny=True) for topic in TOPICS[:10]),
    *(acl(PRINCIPAL, "WRITE", topic=topic, pattern="PREFIXED") for topic in TOPICS[:5]),
    acl("User:*", "DESCRIBE", topic="*"),
]
"""The ACLs that are created and deleted: together they decide each question differently."""

QUESTIONS: list[Question] = [
    question(PRINCIPAL, operation, topic=topic)
    for topic in TOPICS
    for operation in ("READ", "WRITE", "DESCRIBE")
]

CHANGES_MAX = 5
PAUSE_SECONDS = 0.01
RETRY_SECONDS = 0.1


class Churn(Background):
    """Change ACLs until the block ends.

    ``present`` has the ACLs that exist once the block has ended. ``acknowledged`` counts changes,
    ``repeated`` the requests whose outcome was unknown.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__()
        self.present: set[Acl] = set()
        self.acknowledged = 0
        self.repeated = 0
        self._cluster = cluster
        self._random = random.Random(seed)
        self._admin: Admin | None = None

    def _run(self) -> None:
        try:
            self._change_until_the_end()
        finally:
            self._close()

    def _change_until_the_end(self) -> None:
        while not self._ends.is_set():
            changed = self._random.sample(POOL, self._random.randint(1, CHANGES_MAX))
            self._repeat([each for each in changed if each not in self.present], ())
            self._repeat((), [each for each in changed if each in self.present])
            self.present ^= {*changed}
            self.acknowledged += len(changed)
            time.sleep(PAUSE_SECONDS)

    def _repeat(self, created: Sequence[Acl], deleted: Sequence[Acl]) -> None:
        """Send a request until it is acknowledged; a repeated creation is a success in Kafka."""
        if not created and not deleted:
            return
        while True:
            try:
                admin = self._connection()
                if created:
                    admin.create(created)
                else:
                    admin.delete([exact_filter(each) for each in deleted])
            except (RigError, OSError):
                self.repeated += 1
                self._close()
                time.sleep(RETRY_SECONDS)
            else:
                return

    def _connection(self) -> Admin:
        if self._admin is None:
            self._admin = self._cluster.admin(self._cluster.find_leader())
        return self._admin

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
        self._admin = None
