"""The result of each item of a change: from the cluster's answer, or from what the log shows.

Kafka's codes and texts are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from authorizerd.acl.filters import filter_of
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.daemon.sources.writes.evidence import Removals
from authorizerd.daemon.sources.writes.requests import Creations, Results, Update
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

UNREAD: Final = RejectedUpdateError(
    ErrorCode.REQUEST_TIMED_OUT,
    "The cluster has made the change, but this daemon has not read it within the time limit.",
)
TEXTS_KEPT_MAX: Final = 1000
"""The maximum number of different error texts kept per answer. Others are dropped."""
_TEXTS: Final = {int(code): code.text for code in ErrorCode}


@dataclass(slots=True)
class Answers:
    """The results of a request's items, in order; ``items`` are those of its completion.

    ``created`` and ``deleted`` are committed by the cluster: bindings, and filters that match
    exactly the deleted ACLs.
    """

    items: list[Any] = field(default_factory=list)
    created: list[Acl] = field(default_factory=list)
    deleted: list[AclFilter] = field(default_factory=list)
    has_success: bool = False
    is_forbidden: bool = False
    """True if an item was rejected for lack of a right."""

    def add(self, error: ApiError | None, errors: _Errors, success: object) -> None:
        """Add one item: its error, or its successful result."""
        if error is None:
            self.items.append(success)
            self.has_success = True
        else:
            self.items.append(errors.get(error))
            self.is_forbidden |= error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class _Errors:
    """Errors by their values: equal errors are shared, since freeing many exceptions takes long.

    Args:
        no_right: the text for CLUSTER_AUTHORIZATION_FAILED; if empty, the cluster's text is used.
    """

    def __init__(self, *, no_right: str = "") -> None:
        self._no_right = no_right
        self._known: dict[ApiError, RejectedUpdateError] = {}

    def get(self, error: ApiError) -> RejectedUpdateError:
        known = self._known.get(error)
        if known is None and len(self._known) >= TEXTS_KEPT_MAX:
            error = ApiError(error.code)
            known = self._known.get(error)
        if known is None:
            known = to_exception(error)
            if self._no_right and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                known = RejectedUpdateError(error.code, self._no_right)
            self._known[error] = known
        return known


def to_exception(error: ApiError) -> RejectedUpdateError:
    """Return the error with the cluster's code and its text, or else the code's general text."""
    return RejectedUpdateError(error.code, error.message or _TEXTS.get(error.code, ""))


def read_answers(update: Update, results: Results, *, no_right: str) -> Steps[Answers]:
    """Return, in chunks, the results of a request's items.

    Args:
        no_right: see ``Means``.
    """
    errors = _Errors(no_right=no_right)
    if isinstance(update, Creations):
        return _read_created(update.items, cast("list[ApiError | None]", results), errors)
    return _read_deleted(cast("list[FilterResult]", results), errors)


def _read_created(
    acls: Sequence[Acl], results: Iterable[ApiError | None], errors: _Errors
) -> Steps[Answers]:
    answers = Answers()
    for acl, error in zip(acls, results, strict=True):
        answers.add(error, errors, None)
        if error is None:
            answers.created.append(acl)
        yield
    return answers


def _read_deleted(results: list[FilterResult], errors: _Errors) -> Steps[Answers]:
    answers = Answers()
    for result in results:
        acls: list[Acl] = []
        failures: dict[Acl, Exception] = {}
        for match in result.matches:
            acls.append(match.acl)
            if match.error is None:
                answers.deleted.append(filter_of(match.acl))
            else:
                failures[match.acl] = errors.get(match.error)
            yield
        answers.add(result.error, errors, Deleted(tuple(acls), failures=failures))
        yield
    return answers


def leave_unread(items: Sequence[object]) -> list[object]:
    """Return the results if the time limit passes before this daemon has read the change."""
    return [item if isinstance(item, Exception) else UNREAD for item in items]


def unknown(reason: str, found: str = "") -> RejectedUpdateError:
    """Return the error of an item whose outcome is not known.

    Args:
        found: what the log shows, as a sentence.
    """
    text = f"The outcome is not known: {reason}. {found}The change may still apply."
    return RejectedUpdateError(ErrorCode.REQUEST_TIMED_OUT, text)


def judge_created(visible: Sequence[bool], reason: str) -> list[Exception | None]:
    """Return the results of a creation whose answer is missing."""
    error = unknown(reason, "The ACL is not visible. ")
    return [None if is_visible else error for is_visible in visible]


def judge_removed(removals: Sequence[Removals], reason: str) -> Steps[list[Exception]]:
    """Return, in chunks, the results of a deletion whose answer is missing: no item counts as
    done."""
    errors: dict[Removals, Exception] = {}
    judged: list[Exception] = []
    for removal in removals:
        if removal not in errors:
            errors[removal] = unknown(reason, _describe(removal))
        judged.append(errors[removal])
        yield
    return judged


def _describe(removals: Removals) -> str:
    matched, gone = removals
    if not matched:
        return "No ACL matched before the request was sent. "
    return (
        f"Of {matched} ACLs that matched before the request was sent, {gone} are gone, deleted by"
        " it or by another request. "
    )
