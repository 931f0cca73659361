"""Clients whose requests the daemon must refuse: each answer is exactly the expected error.

**Invariant:** each request would change decisions or the log if the daemon carried it out, so the
other clients would then find wrong answers. The requests are in tables: add a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from authorizerd.acl.model import Acl, AclFilter, Operation, PatternType, ResourceType
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import (
    BYTES_PER_REQUEST_MAX,
    MATCHES_PER_REQUEST_MAX,
    TOO_MANY_CREATED,
    TOO_MUCH_REPORTED,
)
from authorizerd.daemon.sources.writes.refused import CLUSTER_CHANGE_REFUSED
from authorizerd.protocol.decisions.authzen_batches import EVALUATIONS_MAX
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism
from tests.daemon.config_requests import APPEND, KEY, SET, Result, altered, invalid
from tests.fleet.client import Client, Connected, RefusedError, WrongAnswerError
from tests.fleet.clients import BATCH, EVALUATION, HttpClient
from tests.fleet.universe import DAEMON, make_ballast
from tests.soak.log_ins import LoggedIn
from tests.soak.sites import Site, alter_credential
from tests.support.acl_messages import decode_created, encode_creations
from tests.support.acls import acl, question
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation_of
from tests.support.sasl import ITERATIONS

_ACL: Final = acl("User:*", "ALL", topic=DAEMON.topics[0])
_NAME_BYTES: Final = 32_000
_NOT_AUTHORIZED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

_INVALID: Final[dict[str, dict[str, Any]]] = {
    "Invalid empty resource name": {"resource_name": ""},
    "The only valid name for the CLUSTER resource is kafka-cluster": {
        "resource_type": ResourceType.CLUSTER
    },
    "Invalid resourceType ANY": {"resource_type": ResourceType.ANY},
    "Invalid patternType MATCH": {"pattern_type": PatternType.MATCH},
    "Invalid operation ANY": {"operation": Operation.ANY},
    "Invalid operation UNKNOWN": {"operation": 99},
    "Invalid permissionType UNKNOWN": {"permission_type": -7},
}
INVALID_ACLS: Final = [(replace(_ACL, **changes), text) for text, changes in _INVALID.items()]
INVALID_PRINCIPALS: Final = ("", "*", "nobody")
INVALID_FILTERS: Final = (
    (AclFilter(resource_type=99), "Unknown patternFilter."),
    (AclFilter(pattern_type=0), "Unknown patternFilter."),
    (AclFilter(operation=99), "Unknown entryFilter."),
    (AclFilter(permission_type=0), "Unknown entryFilter."),
)
UNMATCHED: Final = (
    AclFilter(resource_name="no-such-topic"),
    AclFilter(principal="User:nobody"),
    AclFilter(principal="User:u0", host="no-such-host"),
    AclFilter(resource_type=ResourceType.DELEGATION_TOKEN),
)
"""Filters that match no ACL."""
CONFIGS: Final[tuple[tuple[Any, Result], ...]] = (
    (altered((KEY, SET, "x"), name="1"), invalid(
        "Invalid value x for configuration max.connections: "
        "expected an integer from 1 to 2147483647, found 'x'"
    )),
    (altered(("node.id", SET, "3"), name="1"), invalid(
        "Cannot update these configs dynamically: [node.id]"
    )),
    (altered((KEY, SET, "500"), name="2"), invalid(
        "Unexpected broker id, expected 1, but received 2"
    )),
    (altered((KEY, SET, "500"), kind=9), invalid("Unknown resource type 9")),
)  # fmt: skip
"""Alterations that the daemon with a log of its own refuses. The follower refuses each one."""
OPERATIONS: Final[tuple[tuple[Any, Result], ...]] = (
    (altered((KEY, 9, "1"), name="1"), invalid("Unknown operations type 9")),
    (altered((KEY, APPEND, "1"), name="1"), (
        ErrorCode.INVALID_CONFIG,
        "Config value append is not allowed for config key: max.connections",
    )),
)  # fmt: skip
"""Those that only IncrementalAlterConfigs can express."""
CREDENTIALS: Final = {
    "too few iterations": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
    "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
}
"""Users' names, and the errors of credentials with too few iterations for them."""
FOLLOWED_KEY: Final = (
    "This daemon follows a cluster, so no client can set its keys: change them in its"
    " configuration file, and send SIGHUP. Send changes for the cluster's brokers to a broker"
)


def _expect(expected: object, found: object) -> None:
    if found != expected:
        raise WrongAnswerError(f"expected {expected!r:.1000}, found {found!r:.1000}")


def _refusal(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _alter(
    connection: KafkaConnection,
    resource: object,
    api_key: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS,
) -> Result:
    version = APIS[api_key].last_version
    answer = connection.ask(api_key, version, resources=[resource], validate_only=False)
    return answer.responses[0].error_code, answer.responses[0].error_message


def _alter_credential(connection: KafkaConnection, user: str) -> Result:
    mechanism = ScramMechanism.SCRAM_SHA_256
    return alter_credential(connection, user, mechanism, ITERATIONS - 1, bytes(32))


class RefusedChanges(Connected[KafkaConnection]):
    """Changes of a super user that are invalid, too many, or change nothing.

    Attributes:
        large_share: the part of the exchanges that exceed the limits of a request as well.
        was_full: True if the log could not grow when the exchange began.
    """

    name, pause_seconds, has_worker = "refused change", 0.5, False
    large_share = 0.05
    was_full = False
    site: Site

    def connect(self) -> KafkaConnection:
        return self.site.kafka()

    def exchange(self) -> None:
        self.was_full = self.site.is_full  # the disk may be free once an answer is read
        self._create()
        self._delete()
        self._expect_old_offset()
        self._alter()
        if self.site.owns_log and self.random.random() < self.large_share:
            self._exceed_limits()

    def _create(self) -> None:
        """Send invalid ACLs, each with another text, and ACLs that exist."""
        sent: list[tuple[Acl, ApiError | None]] = [
            (each, _refusal(text)) for each, text in INVALID_ACLS
        ]
        for principal in (*INVALID_PRINCIPALS, f"nobody-{self.random.random()}"):
            text = (
                f"Could not parse principal from `{principal}` (no colon is present separating "
                "the principal type from the principal name)"
            )
            sent.append((replace(_ACL, principal=principal), _refusal(text)))
        sent += [(each, None) for each in make_ballast(3)]
        self.random.shuffle(sent)
        found = self.connection.create(*(each for each, _ in sent))
        self.check([error for _, error in sent], found)

    def _delete(self) -> None:
        """Send invalid filters, and filters that match nothing; also describe by an invalid one."""
        sent: list[tuple[AclFilter, ApiError | None]] = [
            (each, _refusal(text)) for each, text in INVALID_FILTERS
        ]
        sent += [(each, None) for each in UNMATCHED]
        self.random.shuffle(sent)
        results = self.connection.delete(*(each for each, _ in sent))
        self.check([error for _, error in sent], [each.error for each in results])
        _expect([], [each for result in results for each in result.matches])
        described, text = self.random.choice(INVALID_FILTERS)
        _expect(_refusal(text), self.connection.describe(wanted=described))

    def _expect_old_offset(self) -> None:
        """Send a valid ACL, with the condition that no ACL has changed since the log began."""
        body = bytes(finish(encode_creations(3, [_ACL], 0)))
        answer = self.connection.ask_raw(ApiKey.CREATE_ACLS, 3, body)
        [error], _ = finish(decode_created(3, answer, 1))
        assert error is not None
        owns_log = self.site.owns_log
        code = ErrorCode.INVALID_UPDATE_VERSION if owns_log else ErrorCode.INVALID_REQUEST
        self.check([ApiError(code, error.message)], [error])

    def _alter(self) -> None:
        for api_key, rows in (
            (ApiKey.ALTER_CONFIGS, CONFIGS),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, CONFIGS + OPERATIONS),
        ):
            resource, expected = self.random.choice(rows)
            if not self.site.owns_log and resource.resource_name == "1":
                expected = invalid(FOLLOWED_KEY)
            found = _alter(self.connection, resource, api_key)
            self.check([ApiError(*expected)], [ApiError(*found)])
        for user, error in CREDENTIALS.items():
            if not self.site.owns_log:
                error = (ErrorCode.POLICY_VIOLATION, CLUSTER_CHANGE_REFUSED)
            self.check([ApiError(*error)], [ApiError(*_alter_credential(self.connection, user))])

    def _exceed_limits(self) -> None:
        """Create too many bytes, and delete with too many matches: all items are refused."""
        names = BYTES_PER_REQUEST_MAX // _NAME_BYTES + 1
        acls = [replace(_ACL, resource_name=f"{number:0{_NAME_BYTES}}") for number in range(names)]
        error = ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CREATED)
        self.check([error] * names, self.connection.create(*acls))
        filters = [AclFilter()] * (MATCHES_PER_REQUEST_MAX // (self.site.ballast or 1) + 1)
        error = ApiError(ErrorCode.POLICY_VIOLATION, TOO_MUCH_REPORTED)
        results = self.connection.delete(*filters)
        self.check([error] * len(filters), [each.error for each in results])

    def check(self, expected: Sequence[ApiError | None], found: Sequence[ApiError | None]) -> None:
        """Compare errors, except those of changes that the daemon cannot make now."""
        reasons = [self.site.why_refused(each, was_full=self.was_full) for each in found]
        told = zip(expected, found, reasons, strict=True)
        _expect(expected, [known if why else error for known, error, why in told])
        if why := next(filter(None, reasons), None):
            raise RefusedError(why)


class ForbiddenChanges(LoggedIn):
    """Valid requests of a user without rights."""

    name, pause_seconds, has_worker, user = "forbidden change", 0.5, False, "stranger"
    site: Site
    _ERROR = ApiError(_NOT_AUTHORIZED, _NOT_AUTHORIZED.text)

    def exchange(self) -> None:
        connection = self.connection
        _expect([self._ERROR], connection.create(_ACL))
        _expect([self._ERROR], [each.error for each in connection.delete(AclFilter())])
        _expect(self._ERROR, connection.describe())
        if self.site.owns_log:
            expected = (_NOT_AUTHORIZED, _NOT_AUTHORIZED.text)
            _expect(expected, _alter(connection, altered((KEY, SET, "500"), name="1")))
            _expect(expected, _alter_credential(connection, "soak"))


_QUESTION: Final = evaluation_of(question("User:u0", topic=DAEMON.topics[0]))


def _with(**changes: object) -> dict[str, Any]:
    return _QUESTION | changes


_TOO_LARGE: Final = 413
QUESTIONS: Final[tuple[tuple[str, object, int, str], ...]] = (
    (EVALUATION, b"{", 400, "invalid JSON: the body ends before the document does"),
    (EVALUATION, b"\xff", 400, "invalid JSON: invalid character (byte 0)"),
    (EVALUATION, [], 400, "expected an object, found an array"),
    (EVALUATION, _with(subject=None), 400, "subject is missing"),
    (EVALUATION, _with(action={"name": "any"}), 400, "action.name: unknown operation 'any'"),
    (EVALUATION, _with(resource={"type": "any", "id": "x"}), 400,
     "resource.type: unknown type 'any'"),
    (EVALUATION, _with(context={"host": 1}), 400,
     "context.host: expected a string, found an integer"),
    (EVALUATION, _with(context={"as_of": -5}), 400, "context.as_of: expected an offset of the log"),
    (EVALUATION, b" " * ((1 << 18) + 1), _TOO_LARGE, "request body too large"),
    (BATCH, {"evaluations": 5}, 400, "evaluations: expected an array, found an integer"),
    (BATCH, {"evaluations": [{}] * (EVALUATIONS_MAX + 1)}, 400,
     "evaluations: expected at most 1000, found more"),
    ("/access/v1/search/action", _with(page={"token": "x"}), 400, "page.token: unknown"),
    ("/access/v1/search/subject", {}, 400, "subject is missing"),
    ("/v1/explain", {}, 400, "subject is missing"),
    ("/v1/data/kafka/authz/allow", {"input": {}}, 400, "input.requestContext is missing"),
    ("/no/such/path", {}, 404, "no such path"),
)  # fmt: skip
"""Invalid requests: path, body, and the status and the beginning of the text of the answer."""
ITEMS: Final[tuple[tuple[object, str], ...]] = (
    ({}, "subject is missing"),
    ({"subject": "x"}, "subject: expected an object, found a string"),
    (_with(action={}), "action.name is missing"),
)
"""Invalid items of a batch, and the text of each error."""


class RefusedQuestions(HttpClient):
    """Invalid questions, and batches with some invalid items."""

    name, pause_seconds = "refused question", 0.5

    def exchange(self) -> None:
        self._ask_batch()
        for path, body, status, text in self.random.sample(QUESTIONS, len(QUESTIONS)):
            self._ask(path, body, status, text)
        self.close()  # the daemon ends new connections that get nothing but errors

    def _ask(self, path: str, body: object, status: int, text: str) -> None:
        try:
            found, answer = self.request("POST", path, body)
        except OSError as error:
            if status != _TOO_LARGE:
                raise
            # The daemon waits a second for the rest of a request that it has refused.
            raise RefusedError("a request too large was not sent in time") from error
        _expect((status, text), (found, answer.decode()[: len(text)]))

    def _ask_batch(self) -> None:
        """Ask a valid question and invalid ones: only these are refused."""
        asked = DAEMON.draw_question(self.random)
        bodies = [evaluation_of(asked), *(each for each, _ in ITEMS)]
        begun = self.site.judge.begin()
        valid, *others = self.post(BATCH, {"evaluations": bodies})["evaluations"]
        self.judge(begun, valid["context"]["offset"], [asked], [valid["decision"]])
        for item, (_, text) in zip(others, ITEMS, strict=True):
            error = {"status": 400, "message": text}
            _expect({"decision": False, "context": {"error": error}}, item)


REFUSALS: Final[tuple[type[Client], ...]] = (RefusedChanges, ForbiddenChanges, RefusedQuestions)
"""Clients of every daemon."""
