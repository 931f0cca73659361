"""Authorizers for tests: the built-in one without a log, and a third-party one."""

from collections.abc import Iterator, Sequence
from typing import cast

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorizer, RequestContext, ServerEndpoint
from authorizerd.actors.completion import Completion
from authorizerd.config.values import SecurityProtocol


def server_endpoint(name: str) -> ServerEndpoint:
    return ServerEndpoint(name, SecurityProtocol.PLAINTEXT, host="h", port=9092)


class Plug(Authorizer):
    """A third-party authorizer. It returns ``answers``, or raises it if it is an exception."""

    def __init__(self, answers: object = (), *, acls: Sequence[Acl] = ()) -> None:
        self.answers = answers
        self.asked: list[tuple[RequestContext, tuple[Action, ...]]] = []
        self.listed: object = list(acls)

    def _answer(self) -> object:
        if isinstance(self.answers, BaseException):
            raise self.answers
        return self.answers

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        self.asked.append((context, tuple(actions)))
        return cast("list[bool]", self._answer())

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        return cast("Sequence[Completion[None]]", self._answer())

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return cast("Sequence[Completion[Deleted]]", self._answer())

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        yield ()
        self._answer()
        yield cast("list[Acl]", self.listed)
