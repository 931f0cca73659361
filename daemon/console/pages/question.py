"""The pages *Explain* and *History*: a form with one question, and the decision port's answer."""

from __future__ import annotations

from typing import Any, Final

from authorizerd.daemon.console.errors import QuestionRefusedError
from authorizerd.daemon.console.questions import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    Questions,
)
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names

_FIELDS: Final = ("principal", "host", "operation", "resource_type", "resource_name", "as_of")
_EMPTY: Final = dict.fromkeys(_FIELDS, "") | {"operation": "READ", "resource_type": "TOPIC"}


class QuestionPage:
    """Show the answer to a question.

    Args:
        name: of the template.
        path: the path at the decision port; ``answer`` is the type of its answer.
    """

    def __init__(self, questions: Questions, name: str, path: str, answer: type[Any]) -> None:
        self._questions: Final = questions
        self._name: Final = name
        self._path: Final = path
        self._answer: Final = answer

    async def __call__(self, visit: Visit) -> Shown:
        """Show the form; with a question in the query, also its answer."""
        fields = visit.parameters
        answer, failure, status = None, "", 200
        if fields:
            try:
                check_names(dict(fields), _FIELDS)
                document = self._questions.question(fields)
                answer = await visit.ask(self._path, document, self._answer)
            except QueryError as error:
                failure, status = str(error), 400
            except QuestionRefusedError as error:
                failure, status = str(error), error.status
        return Shown(
            template=f"{self._name}.html.jinja",
            context={
                "fields": {**_EMPTY, **fields},
                "operations": OPERATION_NAMES,
                "resource_types": RESOURCE_TYPE_NAMES,
                "answer": answer,
                "failure": failure,
            },
            status=status,
        )
