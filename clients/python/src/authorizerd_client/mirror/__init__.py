"""Decide in this process, by a copy of a daemon's ACLs.

with Mirror("http://127.0.0.1:8181", token="ID.SECRET") as mirror:
    mirror.wait_until_ready(timeout_seconds=10)
    may = mirror.decide(("User:alice", "10.0.0.1", "READ", "TOPIC", "orders"))

**Invariant:** a mirror decides as the daemon does, by a state that was the daemon's at most
``stale_seconds`` ago. If it cannot prove that, it raises an error, and the caller denies.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from authorizerd.acl.decision import authorize
from authorizerd.acl.errors import InvalidQuestionError as InvalidError
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.actors.boot_clock import boot_time
from authorizerd_client.blocking import AclWatch, watch
from authorizerd_client.errors import (
    NOT_READY,
    NotReadyError,
)
from authorizerd_client.mirror.contact import Contact
from authorizerd_client.mirror.copy import Copy, View
from authorizerd_client.values import AnyQuestion, new_invalid_question_error

STALE_SECONDS: Final = 10.0
CONTACTS_PER_STALE: Final = 5
CONTACT_SECONDS_MAX: Final = 1.0
PAUSE_SECONDS_MIN: Final = 0.005
RETRY_SECONDS: Final = 1.0
_BEHIND: Final = "it has no proof yet that its ACLs are those of the daemon"

_OPERATION_OF: Final[dict[str | int, int]] = {
    name: int(code) for code in OPERATIONS for name in (Operation(code).name, int(code))
}
_TYPE_OF: Final[dict[str | int, int]] = {
    name: int(code) for code in RESOURCE_TYPES for name in (ResourceType(code).name, int(code))
}


class Mirror:
    """A copy of a daemon's ACLs and settings that decides. Any number of threads may share it.

    Two threads keep it current: one follows the changes of ACLs, and one asks by what the daemon
    decides, once a second and after each change. A mirror decides only by ACLs and settings that
    one answer has named together.

    Args:
        address: ``http://HOST:PORT`` or ``https://HOST:PORT`` of the decision port; or a list of
            daemons that follow the same cluster, in order of preference.
        token: ``ID.SECRET`` of a principal in the daemon's ``authorizerd.callers.read``, unless the
            client has a certificate.
        tls: how to check the daemon's certificate, and which certificate to present.
        stale_seconds: the mirror stops deciding this long after its last proof that it is current.
            A daemon that itself may decide for a shorter time only is stricter.

    Raises:
        ValueError: an address is invalid, or ``stale_seconds`` is not positive.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        if not stale_seconds > 0:
            raise ValueError(f"stale_seconds: expected a positive number, found {stale_seconds}")
        addresses = [address] if isinstance(address, str) else list(address)
        self._copy: Final = Copy(stale_seconds)
        self._view: View | None = None
        self._changed: Final = threading.Condition()
        self._closing: Final = threading.Event()
        self._news: Final = threading.Event()  # the ACLs have changed, or the mirror closes
        self._problems: Final = {"watch": "", "contact": ""}
        self._interval: Final = min(CONTACT_SECONDS_MAX, stale_seconds / CONTACTS_PER_STALE)
        self._contact: Final = Contact(addresses, token, tls, timeout_seconds=stale_seconds / 2)
        self._new_watch: Final = partial(watch, addresses, token=token, tls=tls)
        self._watch: AclWatch = self._new_watch()
        for name, run in (("watch", self._follow), ("contact", self._keep_contact)):
            threading.Thread(target=run, name=f"authorizerd-mirror-{name}", daemon=True).start()

    def decide(self, question: AnyQuestion) -> bool:
        """Return True if the copy allows the question, False if it denies it. Never blocks.

        Raises:
            InvalidQuestionError: the question is invalid.
            NotReadyError: the copy is not proved to be current. The text says why.
        """
        view = self._view
        if view is None or boot_time() >= view.deadline:
            raise self._not_ready()
        try:
            principal, host, operation, resource_type, name = question
            operation, resource_type = _OPERATION_OF[operation], _TYPE_OF[resource_type]
            address = None if host is None else host_address(host)
            if name and ":" in principal and (address is not None or host is None):
                snapshot, settings = view.snapshot, view.settings
                return authorize(
                    snapshot, settings, principal, address, operation, resource_type, name
                )
        except (InvalidError, KeyError, TypeError, ValueError):
            pass
        raise new_invalid_question_error(question)

    def decide_many(self, questions: Iterable[AnyQuestion]) -> list[bool]:
        """Return one answer for each question, in order. Different states may decide them.

        Raises:
            InvalidQuestionError, NotReadyError: as ``decide``, for the first such question.
        """
        return [self.decide(question) for question in questions]

    @property
    def offset(self) -> int:
        """The log offset of the copy's newest change, -1 before the first listing."""
        view = self._view
        return -1 if view is None else view.snapshot.offset

    @property
    def seconds_left(self) -> float:
        """For how long the copy may decide if there is no further contact; 0 if it may not."""
        view = self._view
        return 0.0 if view is None else max(0.0, view.deadline - boot_time())

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Return once the mirror decides.

        Raises:
            NotReadyError: it does not within the time limit. The text says why.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.seconds_left > 0, timeout_seconds):
                raise self._not_ready()

    def close(self) -> None:
        """Stop following. The mirror decides no more."""
        self._closing.set()
        self._news.set()
        self._watch.close()
        with self._changed:
            self._copy.forget()
            self._view = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _not_ready(self) -> NotReadyError:
        problem = self._problems["watch"] or self._problems["contact"] or _BEHIND
        if self._closing.is_set():
            problem = "it is closed"
        return NotReadyError(f"the mirror cannot decide: {problem}", NOT_READY)

    def _follow(self) -> None:
        """Apply the changes of ACLs, until ``close``."""
        while not self._closing.is_set():
            try:
                with self._watch as events:
                    for event in events:
                        self._update("watch", partial(self._copy.apply, event, boot_time()))
                        self._news.set()
            except Exception as error:  # noqa: BLE001 - if the thread ended, nobody would notice
                self._problems["watch"] = str(error) or type(error).__name__
            self._closing.wait(RETRY_SECONDS)
            self._watch = self._new_watch()

    def _keep_contact(self) -> None:
        """Ask by what the daemon decides, regularly and after each change, until ``close``."""
        pause = 0.0
        while not self._closing.is_set():
            asked_at = boot_time()
            try:
                state = self._contact.ask()
                self._update("contact", partial(self._copy.note_state, state, asked_at))
            except Exception as error:  # noqa: BLE001 - as above
                self._problems["contact"] = str(error) or type(error).__name__
            # Another process of the daemon may answer, a little later than the watch.
            pause = max(2 * pause, PAUSE_SECONDS_MIN) if self._copy.is_behind else self._interval
            if self._news.wait(min(pause, self._interval)):
                self._news.clear()
                self._closing.wait(PAUSE_SECONDS_MIN)
                pause = 0.0
        self._contact.close()

    def _update(self, name: str, change: Callable[[], None]) -> None:
        with self._changed:
            if self._closing.is_set():
                return
            try:
                change()
                self._problems[name] = ""
            finally:
                self._view = self._copy.view
                self._changed.notify_all()
