"""Random cases for one release of Kafka: those of the conformance tests, with other hosts.

**Invariant:** a seed, a release and a number give the same case on any machine.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from random import Random
from typing import Final

from tests.conformance.random_cases import Case, Row, random_cases
from tests.releases.hosts import draw_acl_hosts, draw_clients, draw_edges
from tests.releases.versions import VERSIONS

_HOSTS_PER_QUESTION: Final = 3
_ANY_HOST_SHARE: Final = 0.3


def release_cases(seed: int, version: str, first: int = 0) -> Iterator[Case]:
    """Yield cases of decisions without end. The ``number`` of each repeats it, as ``first``."""
    lacking = VERSIONS[version].lacking
    for number in count(first):
        (case,) = random_cases(seed, 1, number)
        if "steps" not in case:
            random = Random(f"{seed}/{version}/{number}")
            yield {**_with_hosts(case, lacking, random), "number": number}


def _with_hosts(case: Case, lacking: Mapping[str, str], random: Random) -> Case:
    clients = draw_clients(random)
    acl_hosts = draw_acl_hosts(random, clients)
    clients += draw_edges(random, acl_hosts)

    def acl(row: Row) -> Row:
        host = "*" if random.random() < _ANY_HOST_SHARE else random.choice(acl_hosts)
        operation = lacking.get(row[5], row[5])
        return [*row[:4], row[4] and host, operation, row[6]]

    def question(row: Row) -> Row:
        return [row[0], random.choice(clients), lacking.get(row[2], row[2]), *row[3:]]

    acls = [acl(row) for row in case["acls"]]
    # The ids of the case are those of ACLs that were different, and still have to be.
    ids = {place + 1 for place, row in enumerate(acls) if row not in acls[:place]}
    return {
        **case,
        "acls": acls,
        "removeIds": [each for each in case.get("removeIds", ()) if each in ids],
        "requests": [question(row) for row in case["requests"] for _ in range(_HOSTS_PER_QUESTION)],
        "filters": [acl(row) for row in case["filters"]],
        "byResourceType": [question(row) for row in case["byResourceType"]],
    }
