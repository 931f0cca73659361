"""The past, as the query process reads it: the state at an earlier moment, with today's settings.

**Invariant:** a state is exact, or there is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.past import (
    AnswerChange,
    PastChange,
    concerns,
    find_answer_changes,
    undo_changes,
)
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.daemon.errors import PastRefusedError, PastTooFarError, PastUnavailableError
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.daemon.queries.changes import ChangeOverview, read_overview
from authorizerd.metadata.errors import (
    MetadataLogError,
    PastDamagedError,
    PastNotReadError,
    PastRangeError,
    TooManyChangesError,
)
from authorizerd.metadata.past.batch_index import BatchIndex
from authorizerd.metadata.past.history import (
    ChangesAfter,
    History,
    read_changes_after,
    read_history,
)
from authorizerd.metadata.past.past_log import PastLog, check_complete, check_time, read_past
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.decisions.past_answers import (
    AsOfAnswer,
    NowAnswer,
    make_as_of,
    make_past_change,
)
from authorizerd.protocol.queries import ChangesQuestion

CHANGES_MAX: Final = 10_000
"""The maximum number of changes that are undone. More would take too much memory and time."""

T = TypeVar("T")

_logger = logging.getLogger("authorizerd")


@dataclass(frozen=True, slots=True)
class PastState:
    """A state of the past.

    Attributes:
        snapshot: the ACLs at that moment.
        now: the ACLs from which they were derived.
        settings: the current ones.
        moment: the last batch that the state includes.
        changes: all changes since then, in log order.
    """

    snapshot: AclSnapshot
    now: AclSnapshot
    settings: AuthorizerSettings
    moment: Moment
    changes: tuple[PastChange, ...]

    def describe(self, question: Question, authors: AuthorReader | None = None) -> AsOfAnswer:
        """Return the moment of an answer, and when the answer changed afterwards.

        Args:
            authors: finds the author of the change.

        Raises:
            InvalidQuestionError: the principal is ``User:*``.
        """
        before = is_allowed(self.snapshot, self.settings, question)
        if before == is_allowed(self.now, self.settings, question):
            return make_as_of(self.moment)
        found = self.find_answer_changes(question)[0]
        find_author = None if authors is None else authors.read([found.change])
        since = make_past_change(found.change, find_author)
        return make_as_of(self.moment, NowAnswer(found.allowed, self.now.offset, since))

    def find_answer_changes(self, question: Question) -> tuple[AnswerChange, ...]:
        """Return each change since this moment that made a difference, the newest first.

        Raises as ``describe``.
        """
        with named_errors():
            return find_answer_changes(self.now, self.settings, question, self.changes)


@dataclass(frozen=True, slots=True)
class AnswersSince:
    """The answer at ``begin``, and each change that made a difference, the newest first."""

    begin: Moment
    allowed: bool
    changes: tuple[AnswerChange, ...]


class PastReader:
    """Read the past of one state from the log's files.

    Args:
        log_dir: the log, or the copy of a followed log, from which the state comes.
        authors: finds the authors of changes.
        now_ms: returns milliseconds since 1970.
    """

    def __init__(
        self,
        log_dir: Path,
        authors: AuthorReader | None = None,
        *,
        storage: Storage = DISK,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.authors: Final = authors
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._now_ms: Final = now_ms
        self._index: Final = BatchIndex()
        self._has_read = False

    def encode_notes(self) -> bytes:
        """Return the notes on the log; empty if nothing was read."""
        return self._index.encode() if self._has_read else b""

    def adopt_notes(self, notes: bytes) -> None:
        """Adopt a child's notes on the log, so that later children begin further on.

        A child that is killed while writing them leaves incomplete notes, which are ignored.
        """
        with suppress(msgspec.DecodeError):
            if notes:
                self._index.adopt(notes)

    def state_at(self, as_of: AsOf, now: AclSnapshot, settings: AuthorizerSettings) -> PastState:
        """Return the state at a moment.

        Raises:
            PastRefusedError: the moment is too old, or in the future.
            PastUnavailableError: the log cannot be read now.
        """

        def read(log: PastLog) -> ChangesAfter:
            offset = log.find_offset(as_of, newest=now.offset)
            return read_changes_after(log, offset, newest=now.offset, changes_max=CHANGES_MAX)

        with named_errors():
            check_time(as_of, self._now_ms())
            after = self._read(read)
            snapshot = undo_changes(now, after.changes, after.moment.offset)
        return PastState(snapshot, now, settings, after.moment, after.changes)

    def answers_since(
        self, as_of: AsOf, question: Question, now: AclSnapshot, settings: AuthorizerSettings
    ) -> AnswersSince:
        """Return the answers to a question since a moment; raises as ``state_at``."""
        try:
            then = self.state_at(as_of, now, settings)
        except PastTooFarError:
            return self._read_answers(as_of, question, now, settings)
        allowed = is_allowed(then.snapshot, settings, question)
        return AnswersSince(then.moment, allowed, then.find_answer_changes(question))

    def read_changes(self, question: ChangesQuestion, now: AclSnapshot) -> ChangeOverview:
        """Return the changes of all ACLs between two moments; raises as ``state_at``."""
        since, until, at_ms = question.since, question.until, self._now_ms()

        def read(log: PastLog) -> ChangeOverview:
            return read_overview(
                log, since, until, newest=now.offset, at_ms=at_ms, authors=self.authors
            )

        with named_errors():
            if since is not None:
                check_time(since, at_ms)
            return self._read(read)

    def _read_answers(
        self, as_of: AsOf, question: Question, now: AclSnapshot, settings: AuthorizerSettings
    ) -> AnswersSince:
        """Return the answers since a moment, no matter how many ACLs have changed.

        Only ACLs that concern the question are kept, at most ``CHANGES_MAX``. This reads the log
        from the last checkpoint before the moment, so it is slower than ``state_at``.
        """
        selected = 0

        def select(acl: Acl) -> bool:
            nonlocal selected
            is_selected = concerns(acl, question, settings)
            selected += is_selected
            if selected > CHANGES_MAX:
                raise PastRangeError(
                    f"{as_of} is too far back: more than {CHANGES_MAX} ACLs concern the question, "
                    "which is the limit; ask about a later moment"
                )
            return is_selected

        def read(log: PastLog) -> History:
            nonlocal selected
            selected = 0  # the files may have changed, so they are read again
            offset = log.find_offset(as_of, newest=now.offset)
            history = read_history(log, select, since=AsOf(offset=offset))
            check_complete(history.end.offset, now.offset)
            return history

        with named_errors():
            history = self._read(read)
            # The log may have grown since.
            changes = [change for change in history.changes if change.offset <= now.offset]
            found = find_answer_changes(now, settings, question, changes)
        # Each change reverses the answer.
        is_last = is_allowed(now, settings, question)
        allowed = not found[-1].allowed if found else is_last
        return AnswersSince(history.begin, allowed, found)

    def _read(self, read: Callable[[PastLog], T]) -> T:
        self._has_read = True
        return read_past(self._log_dir, read, storage=self._storage, index=self._index)


@contextmanager
def named_errors() -> Iterator[None]:
    """Translate errors of the log into errors for callers, without file paths."""
    try:
        yield
    except TooManyChangesError as error:
        raise PastTooFarError(str(error)) from error
    except PastRangeError as error:
        raise PastRefusedError(str(error)) from error
    except PastNotReadError as error:
        raise PastUnavailableError(str(error)) from error
    except PastDamagedError as error:
        _logger.warning("the past cannot be read: %s", error)
        begin = error.readable_from
        readable = "no part of it" if begin is None else f"only what follows offset {begin - 1}"
        raise PastUnavailableError(f"the log is damaged, and {readable} can be read") from error
    except (MetadataLogError, PastMismatchError, OSError) as error:
        _logger.warning("the past cannot be read: %s", error)
        raise PastUnavailableError("the log cannot be read: the daemon's log says why") from error
