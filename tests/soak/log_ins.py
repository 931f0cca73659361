"""Clients that log in with SASL or with a certificate, with right and with wrong credentials."""

from __future__ import annotations

import math
import ssl
import time
from contextlib import closing
from random import Random
from typing import Final

from authorizerd.acl.model import AclFilter
from authorizerd.daemon.kafka.login.authentication import REAUTHENTICATION_SECONDS_MIN
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.fleet.client import Client, Connected, WrongAnswerError
from tests.fleet.clients import Descriptions
from tests.soak.sites import PASSWORDS, OwnLogSite
from tests.support.certificates import Authority, expired
from tests.support.kafka_connection import KafkaConnection
from tests.support.sasl import MECHANISMS, log_in

WRONG: Final = (("soak", "guessed"), ("soak", PASSWORDS["stranger"]), ("nobody", "guessed"))
"""Users and passwords that do not fit."""


class LoggedIn(Connected[KafkaConnection]):
    """A client that logs in again and again on the same connection, before its session ends."""

    user = "soak"
    _AGAIN_SECONDS = REAUTHENTICATION_SECONDS_MIN * 1.5

    def connect(self) -> KafkaConnection:
        self._mechanism = self.random.choice(MECHANISMS)
        self._again_at = -math.inf  # the first one may follow at once
        connection = self.site.kafka("LOGIN")
        try:
            self._log_in(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def connection(self) -> KafkaConnection:
        if self.opened and time.monotonic() > self._again_at:
            self._log_in(self._connection)
            self._again_at = time.monotonic() + self._AGAIN_SECONDS
        return super().connection

    def _log_in(self, connection: KafkaConnection) -> None:
        answer = log_in(connection, self._mechanism, self.user, PASSWORDS[self.user])
        if answer.error_code:
            text = f"{self._mechanism}: {self.user} cannot log in: {answer.error_message}"
            raise WrongAnswerError(text)


class LoggedInDescriptions(LoggedIn, Descriptions):
    """DescribeAcls of a user who has logged in."""

    name, pause_seconds = "describe, logged in", 0.5


class WrongLogIns(Client):
    """Log-ins with wrong passwords: each gets Kafka's error, and the connection ends."""

    name, pause_seconds, has_worker = "wrong log-in", 1.0, False

    def exchange(self) -> None:
        mechanism, (user, password) = self.random.choice(MECHANISMS), self.random.choice(WRONG)
        text = (
            "Authentication failed: Invalid username or password"
            if mechanism == "PLAIN"
            else "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {mechanism}"
        )
        with closing(self.site.kafka("LOGIN")) as connection:
            answer = log_in(connection, mechanism, user, password)
            found = (answer.error_code, answer.error_message)
            if found != (ErrorCode.SASL_AUTHENTICATION_FAILED, text):
                raise WrongAnswerError(f"{mechanism}: {user} with a wrong password: {found}")
            if connection.socket.recv(1):
                raise WrongAnswerError(f"{mechanism}: an answer after a failed log-in")


class CertifiedDescriptions(Descriptions):
    """DescribeAcls of a user with a certificate."""

    name, pause_seconds = "describe, certified", 0.6
    site: OwnLogSite

    def __init__(self, site: OwnLogSite, random: Random) -> None:
        super().__init__(site, random)
        keystore = site.authority.issue("soak", common_name="soak")
        self._context = site.authority.client_context(keystore)

    def connect(self) -> KafkaConnection:
        return self.site.kafka("CERTIFIED", self._context)


class WrongCertificates(Client):
    """Clients without a valid certificate, whose handshake fails, or with one without rights."""

    name, pause_seconds, has_worker = "wrong certificate", 1.0, False
    site: OwnLogSite

    def __init__(self, site: OwnLogSite, random: Random) -> None:
        super().__init__(site, random)
        authority, other = site.authority, Authority(site.folder, "other")
        keystores = (
            None,
            other.issue("other", common_name="soak"),
            authority.issue("expired", common_name="soak", not_after=expired()),
        )
        self._refused = [authority.client_context(each) for each in keystores]
        stranger = authority.issue("stranger", common_name="stranger")
        self._stranger = authority.client_context(stranger)

    def exchange(self) -> None:
        with closing(self.site.kafka("CERTIFIED", self._stranger)) as connection:
            [found] = connection.delete(AclFilter())
            if found.error is None or found.error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise WrongAnswerError(f"a certificate without rights: {found}")
        context = self.random.choice(self._refused)
        try:
            with closing(self.site.kafka("CERTIFIED", context)) as connection:
                answer = connection.describe()
        except (ssl.SSLError, ConnectionError):  # with TLS 1.3, it comes with the first read
            return
        raise WrongAnswerError(f"an invalid certificate: {answer}")


LOG_INS: Final[tuple[type[Client], ...]] = (LoggedInDescriptions, WrongLogIns)
"""Clients of every daemon."""
