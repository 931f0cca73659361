"""Every port of a real daemon, tried without, with wrong and with another's credentials.

Each table has a row in which the right credentials are accepted, so a refusal shows that the
credentials matter. A refusal tells nothing: no name of another principal, and no secret.
"""

import json
import secrets
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from authorizerd.acl.model import AclFilter
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.daemon.console.requests import SECURE_COOKIE
from authorizerd.daemon.console.setup import ACLS_ONLY, NAVIGATION
from authorizerd.protocol.kafka.acl_client import encode_describe_acls_request
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism
from tests.daemon.decision_place import entry
from tests.support.acls import acl
from tests.support.api_documents import ADMIN_ENDPOINTS, DECISION_ENDPOINTS, Endpoint
from tests.support.certificates import Authority
from tests.support.daemon_process import (
    SECONDS_MAX,
    Answer,
    DaemonProcess,
    ask,
    run,
    running,
    write_config,
)
from tests.support.envelopes import envelope
from tests.support.kafka_connection import KafkaConnection
from tests.support.sasl import MECHANISMS, log_in
from tests.support.stream_connection import StreamConnection

ROOT, MALLORY, NOBODY = "root", "mallory", "nobody"
"""A super user, a user without rights, and a name that the daemon does not know."""

HIDDEN: Final = "hidden-from-others"
"""The name of a topic and of a principal that only root may see."""

OPEN_PATHS: Final = {
    "/.well-known/authzen-configuration": b"evaluation",
    "/health": b"{}",
    "/openapi.json": b"openapi",
}
"""Paths of the decision port that need no credentials, and a part of each answer."""

SELF_ALLOWED: Final = {"/access/v1/evaluations"}
"""Paths that refuse single questions and not the request."""

ENDLESS: Final = "/v1/watch"
FORM: Final[dict[str, Any]] = {"Content-Type": "application/x-www-form-urlencoded"}
CONSOLE_PATHS: Final = (
    *NAVIGATION,
    *ACLS_ONLY,
    "/console/acls.csv",
    "/console/who.jsonl",
    "/console/x",
)
FORGED_HEADERS: Final[dict[str, Any]] = {
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-User": ROOT,
    "X-Forwarded-Client-Cert": 'Subject="CN=root"',
    "X-Real-IP": "127.0.0.1",
    "X-Remote-User": ROOT,
    "X-SSL-Client-DN": "CN=root",
    "Forwarded": "for=127.0.0.1;by=root",
    "Cookie": f"{SECURE_COOKIE}=guessed",
}


@dataclass
class Place:
    """A daemon in which everything that needs credentials is open, and the credentials.

    ``secrets`` has a password for each user, which is also the secret of its token; ``answers`` all
    answers to refused requests.
    """

    daemon: DaemonProcess
    authority: Authority
    stranger: Authority
    secrets: dict[str, str]
    answers: list[bytes] = field(default_factory=list)

    def token(self, user: str) -> str:
        return f"{user}.{self.secrets.get(user, 'guessed')}"

    def context(self, user: str | None, *, is_stranger: bool = False) -> ssl.SSLContext:
        """Return the context of a client with the user's certificate, or without one."""
        if user is None:
            return self.authority.client_context()
        signer = self.stranger if is_stranger else self.authority
        context = self.authority.client_context()
        context.load_cert_chain(signer.issue(f"client-{user}", common_name=user))
        return context

    def request(
        self,
        port: str,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        certificate: str | None = None,
        is_stranger: bool = False,
        **headers: str,
    ) -> Answer:
        host, _, number = self.daemon.ready[port].rpartition(":")
        lines = {"Content-Type": "application/json"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection: HTTPConnection
        if port == "metrics_http":
            connection = HTTPConnection(host, int(number), timeout=SECONDS_MAX)
        else:
            context = self.context(certificate, is_stranger=is_stranger)
            connection = HTTPSConnection(host, int(number), context=context, timeout=SECONDS_MAX)
        try:
            if path != ENDLESS:
                answer = ask(connection, method, path, body, lines)
            else:  # do not wait for the end of an answer that has none
                connection.request(method, path, body, lines)
                response = connection.getresponse()
                text = b"" if response.status == 200 else response.read()
                answer = Answer(response.status, dict(response.getheaders()), text)
        finally:
            connection.close()
        if answer.status >= 400:
            self.answers.append(repr(answer).encode())
        return answer

    def connect(
        self, listener: str, certificate: str | None = None, *, is_stranger: bool = False
    ) -> KafkaConnection:
        address = self.daemon.ready["listeners"][listener]
        context = None
        if listener in ("MTLS", "SASLTLS"):
            context = self.context(certificate, is_stranger=is_stranger)
        return KafkaConnection(address, context=context)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("credentials")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    known = {user: "s" + secrets.token_hex(12) for user in (ROOT, MALLORY)}
    users = " ".join(f'user_{user}="{password}"' for user, password in known.items())
    jaas = f"{PLAIN_LOGIN_MODULE} required {users};"
    tokens = folder / "tokens"
    tokens.write_text("".join(entry(user, f"User:{user}", each) for user, each in known.items()))
    tokens.chmod(0o600)
    trust = {"truststore_location": str(authority.ca_file)}
    rules = {"principal_mapping_rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT"}
    config = {
        "listeners": ",".join(
            f"{each}://127.0.0.1:0" for each in ("OPEN", "MTLS", "SASL", "SASLTLS", "CONTROLLER")
        ),
        "listener.security.protocol.map": (
            "OPEN:PLAINTEXT,MTLS:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,CONTROLLER:SASL_PLAINTEXT"
        ),
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": jaas
            for name in ("sasl", "sasltls", "controller")
        },
        **authority.server_keys("listener.name.mtls.", **trust, **rules, client_auth="required"),
        **authority.server_keys("listener.name.sasltls."),
        **authority.server_keys(**trust, **rules, client_auth="requested"),
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.admin.http": "https://127.1:0",  # 127.0.0.1, which counts as a host name
        "authorizerd.metrics.http": "http://127.0.0.1:0",
        "authorizerd.tokens.file": str(tokens),
        "authorizerd.console": "true",
        "authorizerd.log.level": "DEBUG",
        "connection.failed.authentication.delay.ms": "0",
        "super.users": f"User:{ROOT}",
    }
    scram = [
        f"--add-scram={mechanism.text}=[name={user},password={password}]"
        for mechanism in ScramMechanism
        for user, password in known.items()
    ]
    log_dir = folder / "log"
    done = run("format", "--config", write_config(folder, log_dir, config), *scram)
    assert done.returncode == 0, done.stderr
    with running(folder, log_dir, config) as daemon:
        place = Place(daemon, authority, stranger, known)
        root = place.connect("MTLS", ROOT)
        assert root.create(acl(f"User:{HIDDEN}", topic=HIDDEN)) == [None]
        root.close()
        yield place
        code, log = daemon.stop()
    assert code == 0
    refused = b"".join(place.answers)
    assert HIDDEN.encode() not in refused
    for secret in (*known.values(), "guessed"):
        assert secret.encode() not in refused
        assert secret not in log


def example_of(endpoint: Endpoint) -> tuple[str, str, bytes]:
    """Return the method, the path and the body of a request about alice."""
    path = endpoint.path.replace("{policy}", "kafka/authz/allow")
    assert "{" not in path
    if endpoint.methods[0] == "GET":
        return "GET", path, b""
    assert endpoint.example is not None
    return "POST", path, json.dumps(endpoint.example).encode()


DECISION_ROWS: Final = [(*example_of(each), each.path in OPEN_PATHS) for each in DECISION_ENDPOINTS]
NO_CREDENTIALS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "an unknown token": {"Authorization": "Bearer nobody.guessed"},
    "a wrong secret": {"Authorization": "Bearer root.guessed"},
    "no secret": {"Authorization": "Bearer root."},
    "another scheme": {"Authorization": "Basic cm9vdDpndWVzc2Vk"},
    "the headers of a proxy": FORGED_HEADERS,
    "a wrong token and a certificate": {
        "Authorization": "Bearer root.guessed",
        "certificate": ROOT,
    },
}


@pytest.mark.parametrize("credentials", NO_CREDENTIALS.values(), ids=NO_CREDENTIALS)
@pytest.mark.parametrize(
    ("method", "path", "body", "is_open"), DECISION_ROWS, ids=[row[1] for row in DECISION_ROWS]
)
def test_decision_port_identifies_every_caller(
    place: Place, method: str, path: str, body: bytes, is_open: bool, credentials: dict[str, Any]
) -> None:
    """Also before it reads the body, so an unidentified caller learns nothing from errors."""
    answer = place.request("decision_http", method, path, body, **credentials)
    if is_open:
        assert (answer.status, OPEN_PATHS[path] in answer.body) == (200, True)
        return
    assert answer.status == 401
    broken = place.request("decision_http", method, path, b"{" if body else b"", **credentials)
    assert (broken.status, broken.body) == (401, answer.body)
    assert place.request("decision_http", method, f"{path}?token=root.guessed").status == 401


@pytest.mark.parametrize("proof", ["token", "certificate"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [row[:3] for row in DECISION_ROWS if not row[3]],
    ids=[row[1] for row in DECISION_ROWS if not row[3]],
)
def test_decision_port_applies_the_callers_own_rights(
    place: Place, method: str, path: str, body: bytes, proof: str
) -> None:
    """Mallory may not ask what root may ask, whatever the headers of a proxy say."""
    statuses = {}
    for user in (MALLORY, ROOT):
        headers: dict[str, Any] = dict(FORGED_HEADERS)
        if proof == "token":
            headers["Authorization"] = f"Bearer {place.token(user)}"
        else:
            headers["certificate"] = user
        answer = place.request("decision_http", method, path, body, **headers)
        statuses[user] = answer.status
        if path in SELF_ALLOWED and user == MALLORY:
            for each in answer.json["evaluations"]:
                assert each["decision"] is False
                assert each["context"]["error"]["status"] == 403
            statuses[user] = 403
    assert statuses == {MALLORY: 403, ROOT: 200}


def test_certificate_of_another_authority_is_refused(place: Place) -> None:
    for port in ("decision_http", "admin_http"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            place.request(port, "GET", "/healthz", certificate=ROOT, is_stranger=True)
    check_unanswered(place.connect("MTLS", ROOT, is_stranger=True))


@pytest.mark.parametrize(
    ("token", "certificate", "asked", "greeting", "code"),
    [
        (None, None, MALLORY, ErrorCode.SASL_AUTHENTICATION_FAILED, None),
        ("nobody.guessed", None, MALLORY, ErrorCode.SASL_AUTHENTICATION_FAILED, None),
        ("root.guessed", None, ROOT, ErrorCode.SASL_AUTHENTICATION_FAILED, None),
        ("root.guessed", ROOT, ROOT, ErrorCode.SASL_AUTHENTICATION_FAILED, None),
        ("", ROOT, ROOT, ErrorCode.SASL_AUTHENTICATION_FAILED, None),
        (MALLORY, None, ROOT, ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (None, MALLORY, ROOT, ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (MALLORY, ROOT, ROOT, ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (MALLORY, None, MALLORY, ErrorCode.NONE, ErrorCode.NONE),
        (ROOT, None, MALLORY, ErrorCode.NONE, ErrorCode.NONE),
        (None, ROOT, MALLORY, ErrorCode.NONE, ErrorCode.NONE),
    ],
)
def test_stream_applies_the_callers_own_rights(
    place: Place,
    token: str | None,
    certificate: str | None,
    asked: str,
    greeting: ErrorCode,
    code: ErrorCode | None,
) -> None:
    """A token comes before a certificate: with a token, only its own rights count."""
    sent = place.token(token) if token in (MALLORY, ROOT) else token
    address = place.daemon.ready["decision_stream"]
    connection = StreamConnection(address, sent, place.context(certificate))
    assert connection.greeting.error_code == greeting
    if code is not None:
        own: Any = (f"User:{MALLORY}", None, "READ", "TOPIC", HIDDEN)
        about: Any = (f"User:{asked}", None, "READ", "TOPIC", HIDDEN)
        answer = connection.ask(own, about)
        assert answer.error_code == code
        assert (answer.decisions == b"") is (code is not ErrorCode.NONE)
    connection.close()


@pytest.mark.parametrize("credentials", NO_CREDENTIALS.values(), ids=NO_CREDENTIALS)
@pytest.mark.parametrize("path", [each.path for each in ADMIN_ENDPOINTS] + ["/nothing"])
def test_admin_port_identifies_every_caller(
    place: Place, path: str, credentials: dict[str, Any]
) -> None:
    """Its address counts as one that others can reach."""
    assert place.request("admin_http", "GET", path, **credentials).status == 401
    expected = 404 if path == "/nothing" else 200
    for user in (MALLORY, ROOT):
        bearer: dict[str, Any] = {"Authorization": f"Bearer {place.token(user)}"}
        assert place.request("admin_http", "GET", path, **bearer).status == expected


QUESTION_FIELDS: Final = {
    "principal": f"User:{ROOT}",
    "operation": "READ",
    "resource_type": "TOPIC",
    "resource_name": "orders",
}
RESOURCE_FIELDS: Final = {
    name: value for name, value in QUESTION_FIELDS.items() if name != "principal"
}
RIGHTS_FIELDS: Final = {
    name: value for name, value in QUESTION_FIELDS.items() if name != "resource_name"
}
PASTED: Final = json.dumps(
    {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permission_type": "ALLOW",
    }
)


@pytest.mark.parametrize("credentials", NO_CREDENTIALS.values(), ids=NO_CREDENTIALS)
@pytest.mark.parametrize("page", CONSOLE_PATHS)
def test_console_shows_nothing_before_a_log_in(
    place: Place, page: str, credentials: dict[str, Any]
) -> None:
    """The page in its place asks for a token. Even its navigation is missing."""
    path = f"{page}?{urlencode(QUESTION_FIELDS)}"
    answer = place.request("admin_http", "GET", path, **credentials)
    assert answer.status == 401
    assert b'action="/console/login"' in answer.body
    assert b"<nav" not in answer.body
    assert b"ACLs at log offset" not in answer.body


@pytest.mark.parametrize("token", ["", "nobody.guessed", "root.guessed", "root", "mallory.guessed"])
def test_console_opens_no_session_for_a_wrong_token(place: Place, token: str) -> None:
    body = urlencode({"token": token, "next": "/console/acls"}).encode()
    for headers in (FORM, FORM | FORGED_HEADERS):
        answer = place.request("admin_http", "POST", "/console/login", body, **headers)
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("page", "fields", "mallory", "root"),
    [
        ("", {}, 200, 200),
        ("acls", {}, 403, 200),
        ("explain", QUESTION_FIELDS, 403, 200),
        ("history", QUESTION_FIELDS | {"as_of": "0"}, 403, 200),
        ("who", RESOURCE_FIELDS, 403, 200),
        ("who.csv", RESOURCE_FIELDS, 403, 200),
        ("what", RIGHTS_FIELDS, 403, 200),
        ("acls.csv", {}, 403, 200),
        ("plan", {"mode": "add", "acls": PASTED}, 403, 200),
    ],
)
def test_console_is_no_way_around_the_visitors_rights(
    place: Place, page: str, fields: dict[str, str], mallory: int, root: int
) -> None:
    """By its token, its session's cookie or its certificate, a visitor has its own rights."""
    path = f"/console/{page}?{urlencode(fields)}"
    for user, status in ((MALLORY, mallory), (ROOT, root)):
        body = urlencode({"token": place.token(user)}).encode()
        entered = place.request("admin_http", "POST", "/console/login", body, **FORM)
        assert entered.status == 303
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
        proofs: list[dict[str, Any]] = [
            {"Authorization": f"Bearer {place.token(user)}"},
            {"certificate": user},
            {"Cookie": cookie},
            {"Cookie": cookie, "certificate": ROOT},  # the session comes first
        ]
        for credentials in proofs:
            if page == "plan":
                sent, headers = urlencode(fields).encode(), FORM | credentials
                answer = place.request("admin_http", "POST", "/console/plan", sent, **headers)
            else:
                answer = place.request("admin_http", "GET", path, **credentials)
            assert answer.status == status, (user, credentials, answer.body)


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_metrics_port_needs_no_credentials_and_has_nothing_else(place: Place, path: str) -> None:
    assert place.request("metrics_http", "GET", path).status == 200
    bearer: dict[str, Any] = {"Authorization": f"Bearer {place.token(ROOT)}"}
    for other in ("/console/", "/openapi.json", "/v1/acls", "/access/v1/evaluation"):
        assert place.request("metrics_http", "GET", other, **bearer).status == 404


DESCRIBE: Final = bytes(encode_describe_acls_request(3, AclFilter()))
SASL_LISTENERS: Final = ("SASL", "SASLTLS", "CONTROLLER")


@pytest.mark.parametrize("listener", SASL_LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("user", "password_of"),
    [(ROOT, None), (ROOT, MALLORY), (NOBODY, None), (NOBODY, ROOT), ("Root", ROOT)],
    ids=["wrong", "another's", "unknown", "unknown with another's", "other case"],
)
def test_wrong_log_in_is_refused(
    place: Place, listener: str, mechanism: str, user: str, password_of: str | None
) -> None:
    """An unknown user gets the same answer as a wrong password, and both end the connection."""
    connection = place.connect(listener)
    password = "guessed" if password_of is None else place.secrets[password_of]
    answer = log_in(connection, mechanism, user, password)
    text = (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else "Authentication failed during authentication due to invalid credentials with SASL"
        f" mechanism {mechanism}"
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    place.answers.append(repr(answer).encode())
    check_unanswered(connection)


@pytest.mark.parametrize("listener", SASL_LISTENERS)
@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "plain", ""])
def test_mechanism_that_is_not_enabled_is_refused(
    place: Place, listener: str, mechanism: str
) -> None:
    connection = place.connect(listener)
    answer = log_in(connection, mechanism, ROOT, place.secrets[ROOT])
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    check_unanswered(connection)


@pytest.mark.parametrize("listener", SASL_LISTENERS)
def test_nothing_is_answered_before_the_log_in(place: Place, listener: str) -> None:
    """The connection ends without a byte, also for a certificate that this listener ignores."""
    for certificate in (None, ROOT):
        for api_key, version, body in (
            (ApiKey.DESCRIBE_ACLS, 3, DESCRIBE),
            (ApiKey.ENVELOPE, 1, envelope()),
        ):
            check_unanswered(place.connect(listener, certificate), api_key, version, body)


def check_unanswered(
    connection: KafkaConnection,
    api_key: ApiKey = ApiKey.DESCRIBE_ACLS,
    version: int = 3,
    body: bytes = DESCRIBE,
) -> None:
    """Check that the daemon ends the connection instead of answering a request."""
    with closing(connection), pytest.raises((ssl.SSLError, ConnectionError)):
        connection.ask_raw(api_key, version, body)


def test_client_without_the_required_certificate_is_not_answered(place: Place) -> None:
    check_unanswered(place.connect("MTLS"))


def connect_as(place: Place, listener: str, mechanism: str, user: str) -> KafkaConnection:
    """Connect with the user's right credentials."""
    connection = place.connect(listener, user if listener == "MTLS" else None)
    if listener in SASL_LISTENERS:
        assert log_in(connection, mechanism, user, place.secrets[user]).error_code == 0
    return connection


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("OPEN", ""),
        ("MTLS", ""),
        *((listener, each) for listener in SASL_LISTENERS for each in MECHANISMS),
    ],
)
def test_listener_applies_the_clients_own_rights(
    place: Place, listener: str, mechanism: str
) -> None:
    """Without authentication and certificate, everybody is ANONYMOUS, who has no right."""
    connection = connect_as(place, listener, mechanism, MALLORY)
    refused = connection.describe()
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (error,) = connection.create(acl(f"User:{MALLORY}", "ALL", cluster=True))
    assert error is not None
    assert error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    users = connection.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
    assert users.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    configs = connection.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[SimpleNamespace(resource_type=4, resource_name="1", configuration_keys=None)],
        include_synonyms=True,
        include_documentation=False,
    )
    (found,) = configs.results
    assert (found.error_code, found.configs) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
    if listener == "CONTROLLER":
        assert bytes(connection.ask_raw(ApiKey.ENVELOPE, 1, envelope()))[1:3] == bytes((0, 31))
        connection.close()
    else:  # the API is for controllers only
        check_unanswered(connection, ApiKey.ENVELOPE, 1, envelope())
    place.answers += (repr(each).encode() for each in (refused, error, users, configs))
    if listener != "OPEN":
        root = connect_as(place, listener, mechanism, ROOT)
        described = root.describe()
        assert isinstance(described, list)
        assert acl(f"User:{HIDDEN}", topic=HIDDEN) in described
        root.close()
