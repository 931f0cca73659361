"""Answer one question, in a child of the query process.

Only the caller waits for a child, so this code is simple and may take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import methodcaller
from typing import Final, assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, explain, is_allowed
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.notes import list_notes
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.daemon.errors import BusyError
from authorizerd.daemon.queries.candidates import make_plan
from authorizerd.daemon.queries.matrix import Matrix, make_matrix
from authorizerd.daemon.queries.past_state import PastReader, PastState
from authorizerd.daemon.queries.reach import Reach, find_reach
from authorizerd.daemon.queries.refusals import EXPECTED, refuse
from authorizerd.daemon.queries.replica import ReplicatedState
from authorizerd.daemon.queries.risk_table import RiskTable, list_risks
from authorizerd.daemon.queries.searches import find_next_page, find_rows
from authorizerd.daemon.queries.tables import (
    ACL_COLUMNS,
    TablePage,
    columns_of,
    join_lines,
    make_page,
    read_cells,
    show_cells,
    write_file,
)
from authorizerd.protocol.decisions.acl_feed import (
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
)
from authorizerd.protocol.decisions.authzen_answers import (
    add_explanation,
    encode_answer,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.explanations import encode_explanation
from authorizerd.protocol.decisions.page_tokens import PageTokens
from authorizerd.protocol.decisions.past_answers import (
    AsOfAnswer,
    add_as_of,
    add_as_of_to_explanation,
    encode_answer_history,
    make_as_of,
)
from authorizerd.protocol.decisions.search_results import State
from authorizerd.protocol.decisions.searches import encode_search_answer
from authorizerd.protocol.queries import (
    Answer,
    ChangesQuestion,
    ExplainQuestion,
    HistoryQuestion,
    ListingQuestion,
    MatrixQuestion,
    PastEvaluations,
    PictureQuestion,
    PlanQuestion,
    QueryQuestion,
    ReachQuestion,
    Reply,
    RisksQuestion,
    SearchQuestion,
    encode_frame,
)
from authorizerd.protocol.views import FileView, TableView

NO_MEMORY: Final = "the question takes more memory than allowed: ask a narrower question"
_encode: Final = msgspec.json.Encoder().encode


class Answering:
    """Answer questions by one state.

    Args:
        tokens: the same in all children, even of a later query process.
    """

    def __init__(self, state: ReplicatedState, past: PastReader, tokens: PageTokens) -> None:
        self._snapshot: Final = state.snapshot
        self._image: Final = state.image
        self._past: Final = past
        self._tokens: Final = tokens

    def answer(self, question: QueryQuestion) -> Iterator[bytes]:
        """Yield the frame of the answer to a question, and the lines that follow it."""
        lines: Iterable[bytes] = ()
        try:
            reply, lines = self._answer(question)
        except EXPECTED as error:
            reply = refuse(error)
        except MemoryError:
            reply = refuse(BusyError(NO_MEMORY))
        yield encode_frame(reply)
        yield from lines

    def _answer(self, question: QueryQuestion) -> tuple[Reply, Iterable[bytes]]:
        match question:
            case ListingQuestion():
                return self._list(question)
            case SearchQuestion(view=None):
                return self._search(question), ()
            case SearchQuestion():
                return self._show(question)
            case ExplainQuestion():
                return self._explain(question), ()
            case PastEvaluations():
                return self._evaluate(question), ()
            case HistoryQuestion():
                return self._tell_history(question), ()
            case ChangesQuestion():
                found = self._past.read_changes(question, self._snapshot)
                return Answer((_encode(found),), (True,)), ()
            case PlanQuestion():
                plan = make_plan(question, self._snapshot)
                return Answer((_encode(plan),), (True,)), ()
            case MatrixQuestion() | ReachQuestion() | RisksQuestion():
                picture = _look_over(question, self._snapshot)
                return Answer((_encode(picture),), (True,)), ()
            case _:
                assert_never(question)

    def _then(
        self, question: SearchQuestion | PastEvaluations | ListingQuestion | ExplainQuestion
    ) -> PastState:
        assert question.as_of is not None, "it is about the past"
        return self._past.state_at(question.as_of, self._snapshot, question.settings)

    def _searched(self, question: SearchQuestion) -> tuple[State, AsOfAnswer | None]:
        as_of, snapshot, describable = None, self._snapshot, None
        if question.as_of is not None:
            then = self._then(question)
            as_of, snapshot, describable = make_as_of(then.moment), then.snapshot, then.now
        state = State(
            snapshot, question.settings, self._image.topics, question.own_only, describable
        )
        return state, as_of

    def _search(self, question: SearchQuestion) -> Answer:
        searched, as_of = self._searched(question)
        page, token = find_next_page(question, searched, self._image, self._tokens)
        context = replace(page.context, as_of=as_of)
        body = encode_search_answer(page.results, context, token)
        return Answer((body,), (bool(page.results),), len(page.results))

    def _show(self, question: SearchQuestion) -> tuple[Answer, Iterable[bytes]]:
        searched, as_of = self._searched(question)
        rows, facts = find_rows(question.query, searched)
        facts = replace(facts, as_of=as_of)
        allowed, count = (bool(rows),), len(rows)
        match question.view:
            case TableView() as view:
                page, total = make_page((row.cells() for row in rows), view)
                table = TablePage(
                    rows=page, total=total, offset=facts.offset, as_of=as_of, facts=facts
                )
                return Answer((_encode(table),), allowed, count), ()
            case view:
                assert view is not None, "its rows are asked for"
                lines = write_file(rows, methodcaller("cells"), columns_of(question.query), view)
                return Answer((), allowed, count), lines

    def _explain(self, question: ExplainQuestion) -> Answer:
        snapshot, settings, asked = self._snapshot, question.settings, question.question
        if question.as_of is None:
            body = _explain(snapshot, settings, asked)
            return Answer((body,), (is_allowed(snapshot, settings, asked),))
        then = self._then(question)
        body = add_as_of_to_explanation(
            _explain(then.snapshot, settings, asked), then.describe(asked, self._past.authors)
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
        authors, changes = self._past.authors, [each.change for each in found.changes]
        body = encode_answer_history(
            found.begin,
            self._snapshot.offset,
            found.allowed,
            found.changes,
            None if authors is None else authors.read(changes),
        )
        return Answer((body,), (found.allowed,))

    def _list(self, question: ListingQuestion) -> tuple[Answer, Iterable[bytes]]:
        snapshot, as_of = self._snapshot, None
        if question.as_of is not None:
            then = self._then(question)
            snapshot, as_of = then.snapshot, make_as_of(then.moment)
        found = chain.from_iterable(scan_acls(snapshot, question.wanted))
        match question.view:
            case TableView() as view:
                grants = read_grants(list_notes(snapshot)).grants
                active = {each.acl: each for each in grants if not each.is_waiting}
                rows, total = make_page((show_cells(acl, active) for _, acl in found), view)
                table = TablePage(rows=rows, total=total, offset=snapshot.offset, as_of=as_of)
                return Answer((_encode(table),), (True,)), ()
            case FileView() as view:
                acls = (name_acl(acl) for _, acl in found)
                return Answer((), (True,)), write_file(acls, read_cells, ACL_COLUMNS, view)
            case None:
                return Answer((), (True,)), join_lines(_write_listing(snapshot, as_of, found))
            case _:
                assert_never(question.view)


def _look_over(question: PictureQuestion, snapshot: AclSnapshot) -> Matrix | Reach | RiskTable:
    """Return what a page shows that is about all ACLs."""
    match question:
        case MatrixQuestion():
            return make_matrix(question, snapshot)
        case ReachQuestion():
            return find_reach(question, snapshot)
        case RisksQuestion():
            return list_risks(question, snapshot)


def _write_listing(
    snapshot: AclSnapshot, as_of: AsOfAnswer | None, found: Iterable[tuple[bytes, Acl]]
) -> Iterator[bytes]:
    """Yield the lines of ``GET /v1/acls``."""
    count = 0
    yield encode_listing_begin(snapshot.offset, as_of or UNSET) + b"\n"
    for count, (acl_id, acl) in enumerate(found, 1):  # noqa: B007 - the number of ACLs
        yield encode_listed(acl_id, acl) + b"\n"
    yield encode_listing_end(count) + b"\n"


def _explain(snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question) -> bytes:
    explanation = explain_fully(snapshot, settings, question)
    return encode_explanation(explanation)
