"""The one writer of each daemon's changing ACLs, and one that writes through the follower."""

from __future__ import annotations

from contextlib import closing

from authorizerd.acl.filters import filter_of
from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.fleet.client import Client, Connected, RefusedError, WrongAnswerError
from tests.fleet.clients import HttpClient
from tests.fleet.universe import DAEMON
from tests.soak.sites import FollowerSite, OwnLogSite
from tests.support.acls import acl, question
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation_of
from tests.support.scripted_quorum import ScriptedQuorum


class OwnLogWriter(Connected[KafkaConnection]):
    """Change the ACLs of the daemon with a log of its own, by CreateAcls and DeleteAcls."""

    name, pause_seconds, has_worker = "change", 0.15, False
    site: OwnLogSite

    def connect(self) -> KafkaConnection:
        return self.site.kafka()

    def exchange(self) -> None:
        history, state = self.site.judge, self.site.judge.newest
        added, removed = DAEMON.draw_change(self.random, state.acls)
        # One request is one batch, with a record for each ACL.
        offset = int(state.last) + len(added) + len(removed)
        history.add((state.acls | {*added}) - {*removed}, offset)
        errors = self._send(self.connection, added, removed)
        if not any(errors):
            history.settle(offset)
        elif all(map(self.site.why_refused, errors)):
            history.withdraw()
            self.site.refusals += 1
            raise RefusedError("the disk is full")
        else:
            raise WrongAnswerError(f"changes failed: {errors}")

    @staticmethod
    def _send(
        connection: KafkaConnection, added: list[Acl], removed: list[Acl]
    ) -> list[ApiError | None]:
        if added:
            return connection.create(*added)
        results = connection.delete(*map(filter_of, removed))
        for each, result in zip(removed, results, strict=True):
            found = [match.acl for match in result.matches]
            if result.error is None and found != [each]:
                raise WrongAnswerError(f"expected {each} to be deleted, found {found}")
        return [result.error for result in results]


class QuorumWriter(Client):
    """Change the ACLs in the quorum's log; the daemon follows."""

    name, pause_seconds, has_worker = "change", 0.15, False
    site: FollowerSite

    def exchange(self) -> None:
        with self.site.writing:
            self.site.quorum.do(self._append)

    def _append(self, quorum: ScriptedQuorum) -> None:
        """Append a change. No controller can serve it before this returns."""
        history, ids = self.site.judge, self.site.ids
        acls = history.newest.acls
        added, removed = DAEMON.draw_change(self.random, acls)
        for each in added:
            ids[each] = self.site.new_id()
        offset = quorum.append(
            *(AclAdded(ids[each], each) for each in added),
            *(AclRemoved(ids.pop(each)) for each in removed),
        )
        history.add((acls | {*added}) - {*removed}, offset, is_committed=True)


class ThroughWriter(HttpClient):
    """Change an ACL of its own through the follower, and ask about it once it is acknowledged."""

    name, pause_seconds = "change through", 0.7
    site: FollowerSite
    _ACL = acl("User:through", "READ", topic="through")
    _QUESTION = question("User:through", "READ", topic="through")

    def exchange(self) -> None:
        with self.site.writing, closing(self.site.kafka()) as connection:
            for is_allowed in (True, False):
                if is_allowed:
                    [error] = connection.create(self._ACL)
                else:
                    [result] = connection.delete(AclFilter(principal=self._ACL.principal))
                    error = result.error
                if why := self.site.why_refused(error):
                    raise RefusedError(why)  # the next exchange makes both changes again
                if error is not None:
                    raise WrongAnswerError(f"change failed: {error}")
                answer = self.post("/access/v1/evaluation", evaluation_of(self._QUESTION))
                if answer["decision"] is not is_allowed:
                    raise WrongAnswerError(f"expected {is_allowed}, found {answer}")
