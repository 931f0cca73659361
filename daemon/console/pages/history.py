"""The page *History*: every answer to a question since a moment, and why it changed."""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.questions import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    Questions,
)
from authorizerd.daemon.console.visits import View, Visit
from authorizerd.daemon.decisions.history import HISTORY_PATH
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.decisions.past_answers import AnswerHistory

_FIELDS: Final = ("principal", "host", "operation", "resource_type", "resource_name", "as_of")
_EMPTY: Final = dict.fromkeys(_FIELDS, "") | {"operation": "READ", "resource_type": "TOPIC"}


class HistoryPage:
    """Show the answer of ``POST /v1/history``."""

    def __init__(self, questions: Questions) -> None:
        self._questions: Final = questions

    async def __call__(self, visit: Visit) -> View:
        """Show the form; with a question in the query, its history, too."""
        fields = visit.parameters
        history, failure, status = None, "", 200
        if fields:
            try:
                check_names(dict(fields), _FIELDS)
                document = self._questions.question(fields)
                history = await visit.ask(HISTORY_PATH, document, AnswerHistory)
            except QueryError as error:
                failure, status = str(error), 400
            except QuestionRefusedError as error:
                failure, status = str(error), error.status
        return View(
            template="history.html.jinja",
            context={
                "fields": {**_EMPTY, **fields},
                "operations": OPERATION_NAMES,
                "resource_types": RESOURCE_TYPE_NAMES,
                "history": history,
                "failure": failure,
            },
            status=status,
        )
