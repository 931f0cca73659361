"""Random cases for Kafka's classes and ours; the names of a case collide.

**Invariant:** a seed and a number give the same case on any machine. Rows are those of
``tests.kafka_rig.oracle``.

Kafka 4.3 has bugs with names that sort below ``*``. Its scan visits the names below the asked one,
then those below ``*``. At the first name that is not a prefix of the asked one, it continues at the
prefix of ``*`` that is as long as the common prefix of the two names. If that prefix is empty, the
scan ends early (``ends_early``). If it has one letter, the scan never ends; if more, it fails
(``leads_astray``; such questions are in ``astray``, not in ``requests``).
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")
Row = list[Any]
Case = dict[str, Any]

ADMINISTRATION_EVERY: Final = 8

RESOURCE_TYPES: Final = (
    "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER",
)  # fmt: skip
# Operations that imply others, or are implied, are drawn more often.
COMMON_OPERATIONS: Final = (
    "ALL", "READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
)  # fmt: skip
RARE_OPERATIONS: Final = (
    "CREATE", "CLUSTER_ACTION", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)  # fmt: skip
IMPLIED: Final = {
    "ALL": COMMON_OPERATIONS + RARE_OPERATIONS,
    "READ": ("READ", "DESCRIBE"),
    "WRITE": ("WRITE", "DESCRIBE"),
    "DELETE": ("DELETE", "DESCRIBE"),
    "ALTER": ("ALTER", "DESCRIBE"),
    "ALTER_CONFIGS": ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"),
}

PRINCIPALS: Final = (
    "User:alice", "User:ali", "User:Alice", "user:alice", "User:bob", "User:ANONYMOUS", "User:",
    "User:CN=a,OU=b,O=c", "User:a:b", "User:élan", "User:\U0001f600", "User:\uff5e", "Group:*",
    "Group:x", "*:*", ":",
)  # fmt: skip
ACL_HOSTS: Final = (
    "127.0.0.1", "10.0.0.1", "10.0.0.10", "0:0:0:0:0:0:0:1", "::1", "2001:db8:0:0:0:0:0:1",
    "localhost", "",
)  # fmt: skip
# Ranges since Kafka 4.4.
RANGES: Final = (
    "10.0.0.0/8", "10.0.0.9/29", "10.0.0.1/32", "0.0.0.0/0", "::/0", "::1/128", "2001:db8::/32",
    "2001:DB8::1/127",
)  # fmt: skip
# Ranges in an odd form, and what looks like one.
ODD_RANGES: Final = (
    "[2001:db8::]/+32", "2001:db8::/\u0663\u0662", "::ffff:10.0.0.0/104", "::10.0.0.0/104",
    "127.0.0.0/08", "010.0.0.0/8", "10.0.0/8", "10.0.0.0 /8", "10.0.0.0/", "/8", "a/b",
    "10.0.0.0/33", "10.0.0.0/8/8", "2001:db8::/129", "fe80::%eth0/64",
)  # fmt: skip
CLIENT_HOSTS: Final = (
    "127.0.0.1", "10.0.0.1", "10.0.0.10", "::1", "2001:db8::1", "::ffff:10.0.0.1", "0.0.0.0", "::",
    "10.255.255.255", "11.0.0.0", "2001:db9::1", "fe80::1",
)  # fmt: skip

STEMS: Final = ("a", "orders", "é", "e\u0301", "日本", "_", "Z", "\ud7ff", "\ue000", "\U0001f600")
TAILS: Final = ("a", "b", ".", "-", "0", "*", "!", "é", "\uff5e", "\U0001f600", "\x01")
# Special names for Kafka's scan: those that begin with the wildcard or sort below it, and the name
# that it uses for a question about a whole resource type.
STARS: Final = ("**", "*a", "*ab", "*!", "*é", "*\U0001f600")
BELOW_STAR: Final = ("!", "!!a", "!!ab", " ", "(", ")", ")*", "\x01")
PROBES: Final = ("hardcode", "hard", "hardcoded", "kafka-cluster", "kafka")


def random_cases(seed: int, count: int, first: int = 0) -> Iterator[Case]:
    """Yield cases of decisions; every eighth is one of creations and deletions."""
    for number in range(first, first + count):
        maker = _CaseMaker(Random(f"{seed}/{number}"))
        is_administration = number % ADMINISTRATION_EVERY == 0
        yield maker.administration_case() if is_administration else maker.decision_case()


def leads_astray(acls: Sequence[Row], question: Row) -> bool:
    """Return True if Kafka's scan may fail or never end for this question."""
    *_, resource_type, name = question
    return any(
        acl[0] == resource_type and acl[1] < "*" and 0 < _shared(acl[1], name) < len(acl[1])
        for acl in acls
    )


def ends_early(acls: Sequence[Row], question: Row) -> bool:
    """Return True if Kafka's scan may end before the name's own ACLs, and name another rule."""
    *_, resource_type, name = question
    return any(
        acl[0] == resource_type and name < acl[1] <= "*" and acl[1:3] != ["*", "LITERAL"]
        for acl in acls
    )


def _shared(first: str, second: str) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class _CaseMaker:
    """Draw one case from few names, principals, hosts and operations."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = self._choose_names()
        self._principals = [*random.sample(PRINCIPALS, 3), "User:alice", "User:*"]
        self._hosts = ["*", "*", "*", *random.sample(ACL_HOSTS, 2)]
        self._hosts += [random.choice(RANGES), random.choice((*RANGES, *ODD_RANGES))]
        self._types = ["TOPIC", "TOPIC", *random.sample(RESOURCE_TYPES, 2)]
        self._operations = [*random.sample(COMMON_OPERATIONS, 4), random.choice(RARE_OPERATIONS)]
        self._denied_share = random.choice((0.0, 0.1, 0.25, 0.5))

    def decision_case(self) -> Case:
        """Return ACLs, how to load them, and questions of every kind."""
        acls = [self._acl() for _ in range(self._random.choice((0, 1, 3, 6, 8, 10, 14)))]
        if acls and self._happens(0.1):
            acls.append(list(self._random.choice(acls)))
        questions = [self._question(acls) for _ in range(self._random.randint(8, 14))]
        case: Case = {
            "acls": acls,
            "requests": [row for row in questions if not leads_astray(acls, row)],
            "astray": [row for row in questions if leads_astray(acls, row)],
            "filters": [self._filter(acls) for _ in range(self._random.randint(0, 3))],
            "byResourceType": [self._question(acls)[:4] for _ in range(self._random.randint(0, 3))],
            "allowEveryone": self._happens(0.3),
        }
        if self._happens(0.25):
            named = self._random.sample(("User:admin", " User:alice ", "User:a:b", "User:*"), 2)
            case["superUsers"] = ";".join(named)
        if acls and self._happens(0.2):
            case["load"] = "add"
            ids = [place + 1 for place, acl in enumerate(acls) if acl not in acls[:place]]
            case["removeIds"] = self._random.sample(ids, self._random.randint(0, len(ids)))
        return case

    def administration_case(self) -> Case:
        """Return steps of creations and deletions, some of them invalid."""
        created: list[Row] = []
        steps: list[dict[str, list[Row]]] = []
        for _ in range(self._random.randint(1, 4)):
            if created and self._happens(0.45):
                filters = [self._filter(created) for _ in range(self._random.randint(1, 3))]
                steps.append({"delete": filters})
                continue
            acls = [self._creation(created) for _ in range(self._random.randint(1, 6))]
            steps.append({"create": acls})
            created += acls
        return {"steps": steps}

    def _choose_names(self) -> list[str]:
        """Return names that are prefixes of one another, and some special ones."""
        names = ["*"]
        for stem in self._random.sample(STEMS, self._random.randint(1, 3)):
            name = stem
            names.append(name)
            for _ in range(self._random.randint(1, 3)):
                name += self._random.choice(TAILS)
                names.append(name)
        for hard, share in ((STARS, 0.4), (BELOW_STAR, 0.35), (PROBES, 0.25)):
            if self._happens(share):
                names += self._random.sample(hard, 3)
        return names

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def _acl(self) -> Row:
        resource_type = self._random.choice(self._types)
        name = self._random.choice(self._names)
        if resource_type == "CLUSTER" and self._happens(0.8):
            name = "kafka-cluster"
        return [
            resource_type,
            name,
            "PREFIXED" if self._happens(0.4) else "LITERAL",
            self._random.choice(self._principals),
            self._random.choice(self._hosts),
            self._random.choice(self._operations),
            "DENY" if self._happens(self._denied_share) else "ALLOW",
        ]

    def _question(self, acls: Sequence[Row]) -> Row:
        """Return a question that an ACL matches, or misses by one field."""
        resource_type, name, pattern_type, principal, host, operation, _ = (
            self._random.choice(acls) if acls else self._acl()
        )
        if pattern_type == "PREFIXED" and self._happens(0.7):
            name += self._random.choice(TAILS)
        if name == "*" and self._happens(0.8):
            name = self._random.choice(self._names)
        if principal == "User:*" and self._happens(0.95):
            principal = self._random.choice(self._principals)
        question = [
            principal,
            host if host in CLIENT_HOSTS else self._random.choice(CLIENT_HOSTS),
            self._random.choice(IMPLIED.get(operation, (operation,))),
            resource_type,
            name,
        ]
        if self._happens(0.3):
            place = self._random.randrange(len(question))
            question[place] = self._random.choice(
                (
                    PRINCIPALS,
                    CLIENT_HOSTS,
                    (*COMMON_OPERATIONS, *RARE_OPERATIONS, "ANY", "UNKNOWN"),
                    RESOURCE_TYPES,
                    (*self._names, name[:-1]),
                )[place]
            )
        return question

    def _filter(self, acls: Sequence[Row]) -> Row:
        """Return a filter that matches an ACL or nearly does."""
        row = list(self._random.choice(acls)) if acls and self._happens(0.7) else self._acl()
        row[1] = self._random.choice((None, row[1], row[1], row[1] + self._random.choice(TAILS)))
        row[2] = self._random.choice(("ANY", "MATCH", row[2], "LITERAL", "PREFIXED"))
        for place, left_open in ((0, "ANY"), (3, None), (4, None), (5, "ANY"), (6, "ANY")):
            if self._happens(0.5):
                row[place] = left_open
        if self._happens(0.03):
            row[self._random.choice((0, 2, 5, 6))] = "UNKNOWN"
        return row

    def _creation(self, created: Sequence[Row]) -> Row:
        """Return an ACL to create: new, present, or invalid."""
        if created and self._happens(0.2):
            return list(self._random.choice(created))
        row = self._acl()
        if self._happens(0.2):
            place, wrong = self._random.choice(
                (
                    (0, ("UNKNOWN",)),
                    (1, ("",)),
                    (2, ("UNKNOWN",)),
                    (3, ("alice", "", "User", "*", "::", "User\uff1a")),
                    (5, ("UNKNOWN",)),
                    (6, ("UNKNOWN",)),
                )
            )
            row[place] = self._random.choice(wrong)
        return row
