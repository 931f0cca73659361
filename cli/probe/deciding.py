"""Our answers: those of a daemon, or of the ACLs of a log, a file or a configuration.

**Invariant:** an item that the daemon cannot answer is an error, never a denial.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.client import OK, HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from authorizerd.acl.decision import explain
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.hosts import host_address
from authorizerd.acl.known_settings import doubt_answer
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Operation, Question, ResourceType
from authorizerd.acl.patterns import is_wildcard, look_up
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import with_rules
from authorizerd.cli.acl_source import AclSource
from authorizerd.cli.errors import CommandError
from authorizerd.cli.question_words import Resource
from authorizerd.protocol.decisions.authzen import Action, Context, Evaluation, Subject
from authorizerd.protocol.decisions.authzen import Resource as AskedResource
from authorizerd.protocol.decisions.authzen_answers import EvaluationError
from authorizerd.protocol.decisions.discovery import EVALUATIONS_PATH

Asked: TypeAlias = tuple[Operation, Resource]

TIMEOUT_SECONDS: Final = 30.0
HOSTS_MAX: Final = 100


class OwnAnswer(NamedTuple):
    """A decision here.

    Attributes:
        rule: as the audit log names it.
        doubts: the unknown settings by which a denial may be wrong.
    """

    allowed: bool
    rule: str
    doubts: tuple[str, ...] = ()

    @property
    def acl_host(self) -> str | None:
        """The host of the ACL that decided, or None."""
        _, is_acl, rest = self.rule.rpartition(", host=")
        return rest.partition(",")[0] if is_acl else None


class Decider(Protocol):
    """The side to compare with, asked about one principal from one host.

    Attributes:
        description: what answers, for people.
        unknown_settings: the keys of settings that it does not know.
    """

    description: str
    unknown_settings: tuple[str, ...]

    def decide(self, asked: Sequence[Asked]) -> list[OwnAnswer]:
        """Return the answers in order. Blocks."""
        ...


class Other(NamedTuple):
    """Another host, or the rules of another release, to ask ACLs with."""

    host: str | None = None
    rules: ReleaseRules | None = None


AS_GIVEN: Final = Other()


class AclDecider:
    """Decide by ACLs, with the settings that are known."""

    def __init__(self, source: AclSource, principal: str, host: str) -> None:
        self._snapshot = source.snapshot
        self._known = source.settings
        self._principal = principal
        self._host = host
        offset = "" if source.offset is None else f" at log offset {source.offset}"
        acls = self._snapshot.acls.values()
        self.description = f"{count_of(len(acls), 'ACL')} of {source.name}{offset}"
        self.unknown_settings = source.settings.unknown
        self.own_acls = [acl for acl in acls if acl.principal in (principal, WILDCARD_PRINCIPAL)]
        """Those of the principal and of everyone."""

    def decide(self, asked: Sequence[Asked], other: Other = AS_GIVEN) -> list[OwnAnswer]:
        snapshot, known, host = self._snapshot, self._known, other.host or self._host
        if other.rules is not None:
            snapshot = with_rules(snapshot, other.rules)
        found: list[OwnAnswer] = []
        for operation, (kind, name) in asked:
            question = Question(self._principal, host, operation, kind, name)
            decision = explain(snapshot, known.least, question)
            doubts = () if decision.allowed else doubt_answer(snapshot, known, question).keys
            found.append(OwnAnswer(decision.allowed, str(decision.rule), doubts))
        return found

    def list_resources(self) -> Iterator[Resource]:
        """Yield the names in ACLs, own ones first. A prefix is a name that it matches."""
        for acl in (*self.own_acls, *self._snapshot.acls.values()):
            kind, name = ResourceType.read(acl.resource_type), acl.resource_name
            is_named = name and not is_wildcard(acl.pattern_type, name)
            if is_named and kind in (ResourceType.TOPIC, ResourceType.GROUP):
                yield kind, name

    def list_hosts(self) -> list[str]:
        """Return the addresses in own ACLs, at most ``HOSTS_MAX``."""
        hosts = {acl.host for acl in self.own_acls}
        return sorted(each for each in hosts if host_address(each) == each)[:HOSTS_MAX]

    def has_acls(self, resource: Resource) -> bool:
        """Return True if the pattern of any ACL matches the resource."""
        kind, name = resource
        return bool(look_up(self._snapshot.types[kind].resources, name))


class _Why(msgspec.Struct):
    rule: str = ""
    error: EvaluationError | None = None


class _Answer(msgspec.Struct):
    decision: bool
    context: _Why


class _Answers(msgspec.Struct):
    evaluations: list[_Answer]


class DaemonDecider:
    """Ask a daemon over HTTP, with a batch of evaluations.

    Args:
        url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
        cafile: the CAs to trust; None: those of the system.
    """

    def __init__(
        self, url: str, token: str | None, cafile: str | None, principal: str, host: str
    ) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._cafile = cafile
        subject_type, _, name = principal.partition(":")
        self._about = Evaluation(Subject(subject_type, name), context=Context(host))
        self.description = f"the daemon at {url}"
        self.unknown_settings: tuple[str, ...] = ()

    def decide(self, asked: Sequence[Asked]) -> list[OwnAnswer]:
        """Return the answers in order.

        Raises:
            CommandError: the daemon does not answer, or refuses a question.
        """
        evaluations = [
            Evaluation(action=Action(operation.name), resource=AskedResource(kind.name, name))
            for operation, (kind, name) in asked
        ]
        body = msgspec.structs.asdict(self._about) | {"evaluations": evaluations}
        try:
            found = msgspec.json.decode(self._post(msgspec.json.encode(body)), type=_Answers)
        except msgspec.MsgspecError as error:
            raise self._error(f"expected the answer of a daemon: {error}") from error
        if len(found.evaluations) != len(asked):
            raise self._error(f"expected {len(asked)} answers, found {len(found.evaluations)}")
        for each in found.evaluations:
            if each.context.error is not None:
                raise self._error(f"{each.context.error.status}: {each.context.error.message}")
        return [OwnAnswer(each.decision, each.context.rule) for each in found.evaluations]

    def _post(self, body: bytes) -> bytes:
        try:
            with closing(self._connect()) as connection:
                connection.request("POST", EVALUATIONS_PATH, body, self._headers)
                response = connection.getresponse()
                answer = response.read()
        except (OSError, HTTPException) as error:
            raise self._error(str(error) or type(error).__name__) from error
        if response.status != OK:
            raise self._error(f"{response.status}: {answer.decode(errors='replace').strip()}")
        return answer

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self._url)
        if parts.scheme == "http":
            return HTTPConnection(parts.netloc, timeout=TIMEOUT_SECONDS)
        context = ssl.create_default_context(cafile=self._cafile)
        return HTTPSConnection(parts.netloc, timeout=TIMEOUT_SECONDS, context=context)

    def _error(self, text: str) -> CommandError:
        return CommandError(f"--daemon {self._url}: {text}")
