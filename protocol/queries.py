"""The questions to the query process, and its answers.

A question arrives as a socket, with a ``Header``. The question itself and its answer are frames on
that socket.

A listing question also comes with an in-memory file for its lines: frames of compressed text, the
last of which is empty. A byte on the socket signals new lines. So a client that reads slowly only
fills its own file.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import AclFilter, Question
from authorizerd.protocol.decisions.searches import Query
from authorizerd.protocol.framing import frame
from authorizerd.protocol.views import FileView, TableView, View

QUESTION_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum size of a question, which includes the settings with all super users."""
HEADER_BYTES_MAX: Final = 64 * 1024
REPLY_BYTES_MAX: Final = 64 * 1024 * 1024


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The facts that determine when a question is served.

    Attributes:
        caller: the principal that asks, None if callers cannot be told apart.
        offset: the log offset of the asking process's state.
        deadline: the time after which the answer is useless, in seconds of the system's monotonic
            clock.
        is_listing: True if lines follow the answer.
    """

    caller: str | None
    offset: int
    deadline: float
    is_listing: bool = False


class SearchQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="search"):
    """A page of a search, or with a ``view``, all of its results.

    Attributes:
        limit, token: as in ``PageRequest``.
        own_only: True to leave out names that occur only in others' ACLs.
        as_of: the earlier moment that the question is about, None for now.
    """

    query: Query
    caller: str | None
    limit: int | None
    token: str
    own_only: bool
    settings: AuthorizerSettings
    as_of: AsOf | None = None
    view: View | None = None


class ExplainQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="explain"):
    """An explanation of a decision, now or at a past moment."""

    question: Question
    settings: AuthorizerSettings
    as_of: AsOf | None = None


class PastEvaluations(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="evaluations"):
    """Decisions at an earlier moment. ``explains`` is only for a single question."""

    questions: tuple[Question, ...]
    settings: AuthorizerSettings
    as_of: AsOf
    is_batch: bool
    explains: bool = False


class HistoryQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="history"):
    """Every answer to a question since a moment."""

    question: Question
    settings: AuthorizerSettings
    as_of: AsOf


class ListingQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="listing"):
    """The ACLs that a filter matches, now or at an earlier moment."""

    wanted: AclFilter
    settings: AuthorizerSettings
    as_of: AsOf | None = None
    view: View | None = None


class ChangesQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="changes"):
    """The changes of all ACLs: how many in each span of time, by whom, and the latest ones.

    Attributes:
        since, until: the moments between which they were made; None for the defaults.
    """

    since: AsOf | None
    until: AsOf | None
    settings: AuthorizerSettings
    as_of: None = None


class PlanQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="plan"):
    """The changes that pasted ACLs would make.

    Attributes:
        text: the ACLs.
        replaces: True to delete all other ACLs of their principals.
        audit_file: the path of the audit log, whose last requests are decided again.
    """

    text: str
    replaces: bool
    audit_file: str | None
    settings: AuthorizerSettings
    as_of: None = None


class MatrixQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="matrix"):
    """Which principals may read and write beneath which prefixes of topics.

    Attributes:
        principals, topics: the beginnings of those that are asked about.
    """

    principals: str
    topics: str
    settings: AuthorizerSettings
    as_of: None = None


class ReachQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="reach"):
    """All that ACLs allow one principal; for ``User:*``, what they allow everyone."""

    principal: str
    settings: AuthorizerSettings
    as_of: None = None


class RisksQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="risks"):
    """The ACLs with a risk, and those without recorded use.

    Attributes:
        kind: the title of the only kind to list; empty for all.
        usage_file: the path of the ``usage.json`` to read.
    """

    kind: str
    usage_file: str | None
    view: TableView
    settings: AuthorizerSettings
    as_of: None = None


PictureQuestion: TypeAlias = MatrixQuestion | ReachQuestion | RisksQuestion
QueryQuestion: TypeAlias = (
    SearchQuestion
    | ExplainQuestion
    | PastEvaluations
    | HistoryQuestion
    | ListingQuestion
    | PlanQuestion
    | ChangesQuestion
    | PictureQuestion
)


class Answer(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="answer"):
    """The answer to a question.

    Attributes:
        bodies: the documents: one, or one for each question of a batch.
        allowed: for each document, True if it allows, or for a search, if it has results.
        count: the number of results.
    """

    bodies: tuple[bytes, ...]
    allowed: tuple[bool, ...]
    count: int = 1


class Refusal(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="refusal"):
    """Why there is no answer. ``error`` is the name of the error's class."""

    error: str
    text: str


Reply: TypeAlias = Answer | Refusal

_encode: Final = msgspec.msgpack.Encoder().encode
_questions: Final[msgspec.msgpack.Decoder[QueryQuestion]] = msgspec.msgpack.Decoder(QueryQuestion)
_replies: Final[msgspec.msgpack.Decoder[Reply]] = msgspec.msgpack.Decoder(Reply)
decode_header: Final = msgspec.msgpack.Decoder(Header).decode
decode_question: Final = _questions.decode
decode_reply: Final = _replies.decode


def has_lines(question: QueryQuestion) -> bool:
    """Return True if lines follow the answer."""
    match question:
        case ListingQuestion(view=view):
            return not isinstance(view, TableView)
        case SearchQuestion(view=view):
            return isinstance(view, FileView)
    return False


def takes_long(question: QueryQuestion) -> bool:
    """Return True if the answer has all ACLs, all changes, or all results of a search."""
    match question:
        case ListingQuestion() | ChangesQuestion():
            return True
        case MatrixQuestion() | ReachQuestion() | RisksQuestion():
            return True
        case SearchQuestion(view=view):
            return view is not None
    return False


def encode_header(header: Header) -> bytes:
    """Return the bytes that are sent with a question's socket."""
    return _encode(header)


def encode_frame(message: QueryQuestion | Reply) -> bytes:
    """Return the frame of a question or a reply."""
    return frame(_encode(message))
