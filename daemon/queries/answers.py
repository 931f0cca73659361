"""What a child of the query process does: it answers one question, and ends.

Nothing waits for a child but its caller, so its code is plain, and may take long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, explain, is_allowed
from authorizerd.acl.errors import InvalidQuestionError, SearchLimitError
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.errors import (
    BusyError,
    PastRefusedError,
    PastTooFarError,
    PastUnavailableError,
)
from authorizerd.daemon.queries.past import PastReader, PastState
from authorizerd.daemon.queries.replica import ReplicatedState
from authorizerd.daemon.queries.searches import find_next_page
from authorizerd.protocol.decisions.acl_feed import (
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
)
from authorizerd.protocol.decisions.authzen import AuthZenError
from authorizerd.protocol.decisions.authzen_answers import (
    add_explanation,
    encode_answer,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.explanations import encode_explanation
from authorizerd.protocol.decisions.page_tokens import PageTokens
from authorizerd.protocol.decisions.past_answers import (
    add_as_of,
    add_as_of_to_explanation,
    encode_answer_history,
    make_as_of,
)
from authorizerd.protocol.decisions.search_pages import State
from authorizerd.protocol.decisions.searches import encode_search_answer
from authorizerd.protocol.framing import frame
from authorizerd.protocol.queries import (
    Answer,
    ExplainQuestion,
    HistoryQuestion,
    ListingQuestion,
    PastEvaluations,
    QueryQuestion,
    Refusal,
    SearchQuestion,
    encode_frame,
)

NO_MEMORY: Final = "the question takes more memory than allowed: ask a narrower one"
_EXPECTED: Final = (
    AuthZenError,
    BusyError,
    InvalidQuestionError,
    PastRefusedError,
    PastTooFarError,
    PastUnavailableError,
    SearchLimitError,
)
ERRORS: Final[dict[str, type[Exception]]] = {error.__name__: error for error in _EXPECTED}
"""The errors that a refusal may name."""


def refuse(error: Exception) -> Refusal:
    """Return the refusal that has the caller's process raise ``error``."""
    return Refusal(type(error).__name__, str(error))


def error_of(refusal: Refusal) -> Exception:
    """Return the error that a refusal stands for."""
    return ERRORS[refusal.error](refusal.text)


class Answering:
    """Answer questions by one state.

    Args:
        tokens: the same in all children, also of a later query process.
    """

    def __init__(self, state: ReplicatedState, past: PastReader, tokens: PageTokens) -> None:
        self._snapshot: Final = state.snapshot
        self._image: Final = state.image
        self._past: Final = past
        self._tokens: Final = tokens

    def answer(self, question: QueryQuestion) -> Iterator[bytes]:
        """Yield the frames of the answer to a question."""
        try:
            if isinstance(question, ListingQuestion):
                yield from self._list(question)
            else:
                yield encode_frame(self._answer(question))
        except _EXPECTED as error:
            yield encode_frame(refuse(error))
        except MemoryError:
            yield encode_frame(refuse(BusyError(NO_MEMORY)))

    def _answer(
        self, question: SearchQuestion | ExplainQuestion | PastEvaluations | HistoryQuestion
    ) -> Answer:
        match question:
            case SearchQuestion():
                return self._search(question)
            case ExplainQuestion():
                return self._explain(question)
            case PastEvaluations():
                return self._evaluate(question)
            case HistoryQuestion():
                return self._tell_history(question)
            case _:
                assert_never(question)

    def _then(self, question: PastEvaluations | ListingQuestion | ExplainQuestion) -> PastState:
        assert question.as_of is not None, "it is about the past"
        return self._past.state_at(question.as_of, self._snapshot, question.settings)

    def _search(self, question: SearchQuestion) -> Answer:
        as_of, snapshot, describable = None, self._snapshot, None
        if question.as_of is not None:
            then = self._past.state_at(question.as_of, self._snapshot, question.settings)
            as_of, snapshot, describable = make_as_of(then.moment), then.snapshot, then.now
        searched = State(
            snapshot, question.settings, self._image.topics, question.own_only, describable
        )
        page, token = find_next_page(question, searched, self._image, self._tokens)
        context = replace(page.context, as_of=as_of)
        body = encode_search_answer(page.results, context, token)
        return Answer((body,), (bool(page.results),), len(page.results))

    def _explain(self, question: ExplainQuestion) -> Answer:
        snapshot, settings, asked = self._snapshot, question.settings, question.question
        if question.as_of is None:
            body = _explain(snapshot, settings, asked)
            return Answer((body,), (is_allowed(snapshot, settings, asked),))
        then = self._then(question)
        body = add_as_of_to_explanation(
            _explain(then.snapshot, settings, asked), then.describe(asked)
        )
        return Answer((body,), (is_allowed(then.snapshot, settings, asked),))

    def _evaluate(self, question: PastEvaluations) -> Answer:
        then = self._then(question)
        bodies: list[bytes] = []
        allowed: list[bool] = []
        for asked in question.questions:
            try:
                decision = explain(then.snapshot, question.settings, asked)
            except InvalidQuestionError as error:
                if not question.is_batch:
                    raise
                bodies.append(encode_failed_answer(400, str(error)))
                allowed.append(False)
                continue
            body = encode_answer(decision, then.snapshot.offset, asked)
            if question.explains:
                body = add_explanation(body, _explain(then.snapshot, then.settings, asked))
            as_of = make_as_of(then.moment) if question.is_batch else then.describe(asked)
            bodies.append(add_as_of(body, as_of))
            allowed.append(decision.allowed)
        return Answer(tuple(bodies), tuple(allowed))

    def _tell_history(self, question: HistoryQuestion) -> Answer:
        found = self._past.answers_since(
            question.as_of, question.question, self._snapshot, question.settings
        )
        body = encode_answer_history(
            found.begin, self._snapshot.offset, found.allowed, found.changes
        )
        return Answer((body,), (found.allowed,))

    def _list(self, question: ListingQuestion) -> Iterator[bytes]:
        then = self._then(question)
        begin = encode_listing_begin(then.snapshot.offset, make_as_of(then.moment))
        yield encode_frame(Answer((begin,), (True,)))
        lines, size, count = [begin], 0, 0
        for chunk in scan_acls(then.snapshot, question.wanted):
            for acl_id, acl in chunk:
                lines.append(encode_listed(acl_id, acl))
                size += len(lines[-1])
                if size >= SEND_BYTES:
                    yield _join(lines)
                    lines, size = [], 0
            count += len(chunk)
        lines.append(encode_listing_end(count))
        yield _join(lines)
        yield frame()


def _explain(snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question) -> bytes:
    explanation = explain_fully(snapshot, settings, question)
    return encode_explanation(explanation)


def _join(lines: list[bytes]) -> bytes:
    return frame(b"\n".join(lines), b"\n")
