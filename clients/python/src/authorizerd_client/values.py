"""Questions, decisions and addresses: the values that all clients share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from authorizerd_client.errors import NOT_READY as NOT_READY_ERROR
from authorizerd_client.errors import InvalidQuestionError, new_answer_error

DENIED: Final = 0
ALLOWED: Final = 1
INVALID: Final = 2
NOT_READY: Final = 3


class Question(NamedTuple):
    """May ``principal`` do ``operation`` to this resource?

    A plain tuple with the same values also works.

    Attributes:
        principal: a type and a name, such as ``User:alice``.
        host: the IP address of the principal's connection. If it is None, only ALLOW rules for
            every host apply, but all DENY rules do, even those for one host.
        operation: Kafka's name in capitals, such as ``READ``, or its code.
        resource_type: Kafka's name in capitals, such as ``TOPIC``, or its code.
        resource_name: the literal name of one resource.
    """

    principal: str
    host: str | None
    operation: str | int
    resource_type: str | int
    resource_name: str


AnyQuestion: TypeAlias = tuple[str, str | None, str | int, str | int, str]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions about the questions of one frame, all by the same state of the ACLs.

    Attributes:
        offset: the log offset of that state.
        codes: one byte per question, in order: 0 denied, 1 allowed, 2 invalid question, 3 not
            ready. Later daemons may send other bytes; only 1 allows.
    """

    offset: int
    codes: bytes

    @property
    def allowed(self) -> list[bool]:
        """Return one value per question, in order: True only if the daemon allows it."""
        return [code == ALLOWED for code in self.codes]

    def __bool__(self) -> bool:
        """Raise TypeError: ``if client.decide_many(…)`` would otherwise allow everything."""
        raise TypeError("decisions are neither true nor false: use .allowed")

    def is_allowed(self, number: int, question: AnyQuestion) -> bool:
        """Return True if the question at index ``number`` is allowed.

        Raises:
            InvalidQuestionError: the daemon found the question invalid.
            NotReadyError: the daemon cannot decide before it has loaded its ACLs.
        """
        code = self.codes[number]
        if code == INVALID:
            raise new_invalid_question_error(question)
        if code == NOT_READY:
            raise new_answer_error(NOT_READY_ERROR)
        return code == ALLOWED


def new_invalid_question_error(question: AnyQuestion) -> InvalidQuestionError:
    return InvalidQuestionError(
        f"invalid question {tuple(question)!r}: expected a principal 'TYPE:NAME', an IP "
        "address or None, a Kafka operation, a Kafka resource type and a non-empty name"
    )


def select_allowed(questions: Sequence[AnyQuestion], decisions: Decisions) -> list[str]:
    """Return the names of the resources that are allowed.

    Raises:
        InvalidQuestionError, NotReadyError: one of the questions has no decision.
    """
    return [
        # Use the index, since a plain tuple has no attributes.
        question[4]
        for number, question in enumerate(questions)
        if decisions.is_allowed(number, question)
    ]


def check_offset(decisions: Decisions) -> int:
    """Return the offset of the ACLs behind ``decisions``.

    Raises:
        NotReadyError: the ACLs are not loaded yet.
    """
    if decisions.offset < 0:
        raise new_answer_error(NOT_READY_ERROR)
    return decisions.offset


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon listens: ``path`` of a Unix socket, or ``host`` and ``port``."""

    path: str | None
    host: str = ""
    port: int = 0
    is_tls: bool = False


def parse_address(text: str) -> Address:
    """Return the address that ``text`` names.

    Raises:
        ValueError: the text is not ``tcp://HOST:PORT``, ``HOST:PORT``, ``tls://HOST:PORT`` or
            ``unix:PATH``.
    """
    if text.startswith("unix:") and text != "unix:":
        return Address(text.removeprefix("unix:"))
    is_tls = text.startswith("tls://")
    host, _, port = text.removeprefix("tls://" if is_tls else "tcp://").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    # `isdigit` alone would accept characters such as ², which `int` does not.
    if not host or "/" in host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(
            f"invalid address {text!r}: expected tls://HOST:PORT, tcp://HOST:PORT or unix:PATH"
        )
    return Address(None, host, int(port), is_tls)
