"""The page *Explain*: a question, its decision, the reason, and what would change it."""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.questions import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    Questions,
)
from authorizerd.daemon.console.visits import View, Visit
from authorizerd.daemon.decisions.explain import EXPLAIN_PATH
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.decisions.explanations import ExplanationAnswer

_FIELDS: Final = ("principal", "host", "operation", "resource_type", "resource_name", "as_of")
_EMPTY: Final = dict.fromkeys(_FIELDS, "") | {"operation": "READ", "resource_type": "TOPIC"}


class ExplainPage:
    """Show the answer of ``POST /v1/explain``."""

    def __init__(self, questions: Questions) -> None:
        self._questions: Final = questions

    async def __call__(self, visit: Visit) -> View:
        """Show the form; with a question in the query, its explanation, too."""
        fields = visit.parameters
        answer, failure, status = None, "", 200
        if fields:
            try:
                check_names(dict(fields), _FIELDS)
                document = self._questions.question(fields)
                answer = await visit.ask(EXPLAIN_PATH, document, ExplanationAnswer)
            except QueryError as error:
                failure, status = str(error), 400
            except QuestionRefusedError as error:
                failure, status = str(error), error.status
        return View(
            template="explain.html.jinja",
            context={
                "fields": {**_EMPTY, **fields},
                "operations": OPERATION_NAMES,
                "resource_types": RESOURCE_TYPE_NAMES,
                "answer": answer,
                "failure": failure,
            },
            status=status,
        )
