"""Oracle: the ACLs at every offset of a log, and the answers to questions there by plain scans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from authorizerd.acl.model import Acl, Question
from tests.oracles.scan import decide, meets


@dataclass
class AclHistory:
    """A log's changes of ACLs by offset, and the last offset of each batch.

    ``added`` has the offset and the ACL of each id. ``removed`` has the offset by id.
    """

    batch_ends: set[int] = field(default_factory=set)
    added: dict[str, tuple[int, Acl]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    @property
    def last_offset(self) -> int:
        return max(self.batch_ends)

    def acls_at(self, offset: int) -> list[Acl]:
        """Return the ACLs of the state with this last offset; a binding may occur twice."""
        return [
            acl
            for acl_id, (added_at, acl) in self.added.items()
            if added_at <= offset < self.removed.get(acl_id, offset + 1)
        ]

    def find_doubles(self) -> list[Acl]:
        """Return the bindings that were added while they existed."""
        lives: dict[Acl, list[tuple[int, float]]] = {}
        for acl_id, (added_at, acl) in self.added.items():
            removed_at = self.removed.get(acl_id, float("inf"))
            lives.setdefault(acl, []).append((added_at, removed_at))
        return [
            acl
            for acl, spans in lives.items()
            for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False)
            if start < end
        ]

    def timelines(self, questions: Iterable[Question]) -> dict[Question, Timeline]:
        """Return the answer to each question at every offset, by a plain scan."""
        by_name: dict[str, list[str]] = {}
        for acl_id, (_, acl) in self.added.items():
            by_name.setdefault(acl.resource_name if _is_plain(acl) else "", []).append(acl_id)
        return {
            question: self._timeline(
                question, (*by_name.get("", ()), *by_name.get(question.resource_name, ()))
            )
            for question in questions
        }

    def _timeline(self, question: Question, acl_ids: Iterable[str]) -> Timeline:
        timeline = Timeline(question)
        for offset, acl_id in sorted(self._turns(acl_ids)):
            timeline.apply(offset, acl_id, self.added[acl_id][1])
        return timeline

    def _turns(self, acl_ids: Iterable[str]) -> Iterator[tuple[int, str]]:
        for acl_id in acl_ids:
            yield self.added[acl_id][0], acl_id
            if acl_id in self.removed:
                yield self.removed[acl_id], acl_id


class Timeline:
    """The answers to one question by offset. Changes are applied in the order of the log."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._acls: dict[str, Acl] = {}
        """Those that match, by id."""
        self._offsets = [0]
        self._answers = [decide((), False, question)[0]]

    def apply(self, offset: int, acl_id: str, acl: Acl) -> None:
        """Add the ACL, or remove it if it was added before; all changes of a batch are one."""
        assert offset >= self._offsets[-1], "changes are applied in order"
        if not meets(acl, self._question):
            return
        if self._acls.pop(acl_id, None) is None:
            self._acls[acl_id] = acl
        if offset > self._offsets[-1]:
            self._offsets.append(offset)
            self._answers.append(False)
        self._answers[-1] = decide(self._acls.values(), False, self._question)[0]

    def at(self, offset: int) -> bool:
        """Return the answer of the state with this last offset."""
        return self._answers[bisect_right(self._offsets, offset) - 1]

    def between(self, first: int, last: int) -> set[bool]:
        """Return the answers of the states with these last offsets and all between them."""
        start = bisect_right(self._offsets, first) - 1
        return {*self._answers[start : bisect_right(self._offsets, last)]}


def _is_plain(acl: Acl) -> bool:
    """Return True if the pattern matches one name."""
    return acl.pattern_type == 3 and acl.resource_name != "*"
