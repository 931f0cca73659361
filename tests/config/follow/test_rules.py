"""Following a cluster: what the keys mean together, and which ones contradict each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.follow.settings import (
    FollowSettings,
    LogIn,
    Privileged,
    Server,
    SourceKind,
    Writes,
)
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from authorizerd.config.kerberos import KERBEROS_LOGIN_MODULE, TicketLogIn
from authorizerd.config.oauth import OAUTH_LOGIN_MODULE, RefreshRule, TokenLogIn
from tests.config.properties_file import BASE, SOURCE, configure, refuse

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url=https://issuer.test/token"
PLAIN_LINE = f'{PLAIN_LOGIN_MODULE} required username="us" password="pw" user_us="pw";'
SCRAM_LINE = f'{SCRAM_LOGIN_MODULE} required username="us" password="pw";'
BOOTSTRAP = "controller.quorum.bootstrap.servers=c1:9093"
CONTROLLER = "controller.listener.names=CONTROLLER"
QUORUM = (BOOTSTRAP, CONTROLLER)
BROKERS = ("authorizerd.source=brokers", "authorizerd.source.bootstrap.servers=b1:9092")
FORWARD = (*QUORUM, "authorizerd.writes=forward")
SCRAM_LISTENER = (
    "listeners=OWN://:1",
    "listener.security.protocol.map=OWN:SASL_SSL,CONTROLLER:PLAINTEXT",
    "listener.name.own.ssl.keystore.location=/k",
)
PLAIN_LISTENER = (*SCRAM_LISTENER, f"listener.name.own.plain.sasl.jaas.config={PLAIN_LINE}")


def secured(protocol: str, *lines: str) -> tuple[str, ...]:
    """Return the keys for following a quorum whose listener has this security protocol."""
    protocols = f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}"
    return (*QUORUM, protocols, *lines)


def follow(*lines: str) -> FollowSettings:
    settings = configure(*lines).follow
    assert settings is not None
    return settings


@pytest.mark.parametrize(("lines", "kind"), [
    ([], None),
    (["controller.quorum.voters=1@h:1"], None),
    (["controller.quorum.voters=", "controller.quorum.bootstrap.servers="], None),
    (["authorizerd.source=log", *QUORUM, "listeners=CONTROLLER://:1"], None),
    (QUORUM, SourceKind.QUORUM),
    (["controller.quorum.voters=2@h:1", CONTROLLER], SourceKind.QUORUM),
    (["controller.quorum.voters=2@h:1,3@i:1", CONTROLLER], SourceKind.QUORUM),
    (["authorizerd.source=quorum", *QUORUM], SourceKind.QUORUM),
    (BROKERS, SourceKind.BROKERS),
    ([*BROKERS, *QUORUM], SourceKind.BROKERS),
])  # fmt: skip
def test_source_is_explicit_or_implied_by_quorum(lines: list[str], kind: SourceKind | None) -> None:
    settings = configure(*lines).follow
    assert (settings and settings.kind) == kind


def test_two_more_keys_follow_a_quorum() -> None:
    assert follow(*QUORUM) == FollowSettings(
        kind=SourceKind.QUORUM, servers=(Server("c1", 9093),), request_timeout_ms=2000
    )
    configuration = configure(*QUORUM)
    assert configuration.controller_listener_names == ()
    assert configuration.early_start_listeners == frozenset()
    assert configuration.ignored_keys == ()


def test_two_more_keys_follow_brokers() -> None:
    assert follow(*BROKERS) == FollowSettings(
        kind=SourceKind.BROKERS, servers=(Server("b1", 9092),)
    )


@pytest.mark.parametrize("lines", [QUORUM, BROKERS])
def test_three_lines_follow_a_cluster(lines: tuple[str, ...]) -> None:
    configuration = parse("\n".join(("log.dirs=/copy", *lines)), source=SOURCE)
    assert configuration.follow is not None
    assert configuration.node_id == 1_000_000


@pytest.mark.parametrize(("text", "servers"), [
    ("a:1, b:2,a:1", (Server("a", 1), Server("b", 2))),
    ("[::1]:1,::2:3", (Server("::1", 1), Server("::2", 3))),
    ("SSL://a-b.c_d%e:65535", (Server("a-b.c_d%e", 65535),)),
])  # fmt: skip
def test_servers_are_read_as_by_kafka(text: str, servers: tuple[Server, ...]) -> None:
    assert follow(f"controller.quorum.bootstrap.servers={text}", CONTROLLER).servers == servers


def test_bootstrap_servers_are_used_before_voters() -> None:
    voters = "controller.quorum.voters=2@v:1,3@[::1]:2"
    assert follow(*QUORUM, voters).servers == (Server("c1", 9093),)
    assert follow(CONTROLLER, voters).servers == (Server("v", 1, 2), Server("::1", 2, 3))


def test_each_key_sets_its_field() -> None:
    shared = (
        "authorizerd.source.stale.max.ms=9000",
        "authorizerd.source.serve.copy=true",
        "authorizerd.writes=as-self",
    )
    settings = follow(
        *BROKERS, *shared, "authorizerd.source.client.id=me",
        "authorizerd.source.cluster.id=AAAAAAAAQACAAAAAAAAAA-",
        "authorizerd.source.request.timeout.ms=7", "authorizerd.source.poll.ms=100",
    )  # fmt: skip
    assert settings == FollowSettings(
        kind=SourceKind.BROKERS, servers=(Server("b1", 9092),), client_id="me",
        cluster_id="AAAAAAAAQACAAAAAAAAAA-", request_timeout_ms=7, write_timeout_ms=7, poll_ms=100,
        stale_max_ms=9000, serve_copy=True, writes=Writes.AS_SELF,
    )  # fmt: skip
    timeouts = ("controller.quorum.request.timeout.ms=8", "controller.socket.timeout.ms=9")
    settings = follow(*QUORUM, *shared, *timeouts)
    assert (settings.stale_max_ms, settings.serve_copy, settings.writes) == (9000, True, "as-self")
    assert (settings.request_timeout_ms, settings.write_timeout_ms) == (8, 9)
    settings = follow(
        *FORWARD,
        "authorizerd.writes.forward.principals=User:a;User:CN=b,O=c;User:ANONYMOUS",
        "authorizerd.writes.forward.privileged=anonymous,local-users",
    )
    assert settings.writes is Writes.FORWARD
    assert settings.writes_forward_principals == {"User:a", "User:CN=b,O=c", "User:ANONYMOUS"}
    assert settings.writes_forward_privileged == {Privileged.ANONYMOUS, Privileged.LOCAL_USERS}


@pytest.mark.parametrize(("lines", "mechanism"), [
    ([f"listener.name.controller.plain.sasl.jaas.config={PLAIN_LINE}"], "PLAIN"),
    ([f"listener.name.controller.sasl.jaas.config={PLAIN_LINE}"], "PLAIN"),
    ([f"sasl.jaas.config={SCRAM_LINE}"], "PLAIN"),
    (["sasl.jaas.config=wrong", "listener.name.controller.sasl.jaas.config=wrong",
      f"listener.name.controller.scram-sha-512.sasl.jaas.config={SCRAM_LINE}"], "SCRAM-SHA-512"),
])  # fmt: skip
def test_log_in_to_controllers_is_in_the_first_jaas_line(lines: list[str], mechanism: str) -> None:
    keys = secured("SASL_PLAINTEXT", f"sasl.mechanism.controller.protocol={mechanism}", *lines)
    configuration = configure(*keys)
    assert configuration.follow is not None
    expected = LogIn(mechanism=mechanism, username="us", password="pw")
    assert configuration.follow.log_in == expected
    assert configuration.follow.tls is None
    assert configuration.ignored_keys == ()
    assert "pw" not in repr(configuration)


CREDENTIALS = "sasl.oauthbearer.client.credentials.client"


def test_login_with_tokens_is_in_keys_and_in_the_jaas_line() -> None:
    """A key takes precedence over the line, and the controllers' own keys over general ones."""
    configuration = configure(
        *secured("SASL_PLAINTEXT", "sasl.mechanism.controller.protocol=OAUTHBEARER", TOKEN_URL),
        f"listener.name.controller.oauthbearer.sasl.jaas.config={OAUTH_LOGIN_MODULE} required"
        ' clientId="other" clientSecret="pw" scope="acls" extension_pool="p1"'
        ' ssl.truststore.location="/ca.pem";',
        f"listener.name.controller.{CREDENTIALS}.id=ours", f"{CREDENTIALS}.id=general",
        "listener.name.controller.oauthbearer.sasl.login.refresh.buffer.seconds=7",
    )  # fmt: skip
    assert configuration.follow is not None
    log_in = configuration.follow.log_in
    assert isinstance(log_in, TokenLogIn)
    assert (log_in.url.host, log_in.url.port, log_in.url.target) == ("issuer.test", 443, "/token")
    assert (log_in.client_id, log_in.client_secret, log_in.scope) == ("ours", "pw", "acls")
    assert (log_in.extensions, log_in.retry_ms, log_in.retry_max_ms) == ({"pool": "p1"}, 100, 10000)
    assert log_in.refresh == RefreshRule(factor=0.8, jitter=0.05, min_period_s=60, buffer_s=7)
    assert log_in.tls is not None
    assert log_in.tls.truststore is not None
    assert log_in.tls.truststore.location == "/ca.pem"
    assert configuration.ignored_keys == ()
    assert "pw" not in repr(configuration)


def test_login_to_brokers_with_the_token_of_a_file_needs_no_jaas_line() -> None:
    log_in = follow(
        *BROKERS, "authorizerd.source.security.protocol=SASL_PLAINTEXT",
        "authorizerd.source.sasl.mechanism=OAUTHBEARER",
        "authorizerd.source.sasl.oauthbearer.token.endpoint.url=file:///run/token",
    ).log_in  # fmt: skip
    assert isinstance(log_in, TokenLogIn)
    assert (log_in.url.path, log_in.tls) == ("/run/token", None)


def test_login_with_kerberos_uses_kafkas_default_mechanism_and_a_keytab() -> None:
    line = (
        f"{KERBEROS_LOGIN_MODULE} required useKeyTab=true storeKey=true"
        ' keyTab="/etc/us.keytab" principal="us/host.test@TEST" serviceName="kafka";'
    )
    log_in = follow(
        *BROKERS, "authorizerd.source.security.protocol=SASL_PLAINTEXT",
        f"authorizerd.source.sasl.jaas.config={line}",
        "authorizerd.source.sasl.kerberos.ticket.renew.window.factor=0.5",
    ).log_in  # fmt: skip
    assert log_in == TicketLogIn(
        principal="us/host.test@TEST", keytab="/etc/us.keytab", service_name="kafka",
        refresh=RefreshRule(factor=0.5),
    )  # fmt: skip
    assert log_in.username == "us"


@pytest.mark.parametrize(("lifetime_s", "chance", "expected_s"), [
    (3600, 0.0, 2880), (3600, 1.0, 3060), (1000, 1.0, 700), (361, 0.0, 61), (300, 0.0, 240),
])  # fmt: skip
def test_credential_is_replaced_when_kafka_replaces_it(
    lifetime_s: float, chance: float, expected_s: float
) -> None:
    """The buffer at the end counts before the minimum period; neither does for short lives."""
    rule = RefreshRule(min_period_s=60, buffer_s=300)
    assert rule.find_time(lifetime_s, chance) == pytest.approx(expected_s)


def test_listener_keys_replace_general_keys_of_tls() -> None:
    configuration = configure(
        *secured(
            "SSL", "ssl.truststore.location=/general", "ssl.endpoint.identification.algorithm=",
            "listener.name.controller.ssl.truststore.location=/own",
            "listener.name.controller.ssl.keystore.location=/key",
            "listener.name.controller.ssl.enabled.protocols=TLSv1.3",
        )
    )  # fmt: skip
    settings = configuration.follow
    assert settings is not None
    assert settings.log_in is None
    assert settings.tls is not None
    assert settings.tls.truststore is not None
    assert settings.tls.truststore.location == "/own"
    assert settings.tls.keystore is not None
    assert settings.tls.keystore.location == "/key"
    assert settings.tls.protocols == ("TLSv1.3",)
    assert not settings.tls.checks_host
    assert configuration.ignored_keys == ()
    own = follow(*secured("SSL", "listener.name.controller.ssl.endpoint.identification.algorithm="))
    assert own.tls is not None
    assert not own.tls.checks_host
    default = follow(*secured("SSL")).tls
    assert default is not None
    assert default.checks_host


def test_brokers_are_reached_by_kafkas_client_keys() -> None:
    settings = follow(
        *BROKERS, "authorizerd.source.security.protocol=sasl_ssl",
        "authorizerd.source.sasl.mechanism=SCRAM-SHA-256",
        f"authorizerd.source.sasl.jaas.config={SCRAM_LINE}",
        "authorizerd.source.ssl.truststore.location=/t", "ssl.truststore.location=/not-this",
    )  # fmt: skip
    assert settings.log_in == LogIn(mechanism="SCRAM-SHA-256", username="us", password="pw")
    assert settings.tls is not None
    assert settings.tls.truststore is not None
    assert settings.tls.truststore.location == "/t"
    assert settings.tls.checks_host


@pytest.mark.parametrize("name", ["SSL", "ssl"])
def test_protocol_of_controllers_is_by_default_that_of_their_name(name: str) -> None:
    lines = ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT",)
    assert follow(BOOTSTRAP, f"controller.listener.names={name}", *lines).tls is not None


@pytest.mark.parametrize(("lines", "key", "said"), [
    # the source
    (["authorizerd.source=quorum", CONTROLLER], "controller.quorum.bootstrap.servers", "requ"),
    (["authorizerd.source=brokers"], "authorizerd.source.bootstrap.servers", "required with"),
    (["authorizerd.source=kafka"], "authorizerd.source", "expected one of log, quorum, broke"),
    (["authorizerd.source.bootstrap.servers=h:1"], "authorizerd.source.bootstrap.servers",
     "remove this key, or set authorizerd.source=brokers"),
    (["authorizerd.writes=refuse"], "authorizerd.writes", "this daemon owns its log"),
    (["authorizerd.source.stale.max.ms=1000"], "authorizerd.source.stale.max.ms", "owns its"),
    ([*QUORUM, "authorizerd.source.poll.ms=100"], "authorizerd.source.poll.ms", "only author"),
    (["authorizerd.source.poll.ms=5000", "authorizerd.source.stale.max.ms=5000", *BROKERS],
     "authorizerd.source.stale.max.ms",
     "expected more than authorizerd.source.poll.ms (5000), found 5000"),
    ([*QUORUM, "authorizerd.source.pol.ms=1"], "authorizerd.source.pol.ms", "source.poll.ms?"),
    ([*BROKERS, "authorizerd.source.cluster.id=a b"], "authorizerd.source.cluster.id", "'a b'"),
    # the controllers
    ([BOOTSTRAP], "controller.listener.names", "required to follow a quorum"),
    ([*QUORUM, "listeners=CONTROLLER://:1"], "controller.listener.names",
     "remove it from listeners, or set authorizerd.source=log"),
    ([CONTROLLER, "controller.quorum.voters=1@h:1,2@h:2"], "node.id",
     "1 is the id of a controller in controller.quorum.voters"),
    ([BOOTSTRAP, CONTROLLER, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT"],
     "controller.listener.names",
     "listener.security.protocol.map has no security protocol for CONTROLLER"),
    # the log-in
    (secured("SASL_SSL"), "sasl.mechanism.controller.protocol",
     "required, because Kafka's default is GSSAPI and no keytab is configured: set one of PLAIN"),
    (secured("SASL_SSL", f"sasl.jaas.config={PLAIN_LINE}"), "sasl.mechanism.controller.protocol",
     "required, because Kafka's default is GSSAPI and no keytab is configured: set one of PLAIN"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=DIGEST-MD5"),
     "sasl.mechanism.controller.protocol", "DIGEST-MD5 is not supported: set one of PLAIN, SCRAM"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=OAUTHBEARER"),
     "sasl.oauthbearer.token.endpoint.url", "required for OAUTHBEARER: set it to the issuer's"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=OAUTHBEARER",
             f"listener.name.controller.{TOKEN_URL}"),
     "sasl.oauthbearer.client.credentials.client.id",
     "required to request tokens: set it, or clientId in sasl.jaas.config"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=OAUTHBEARER", TOKEN_URL,
             f'sasl.jaas.config={OAUTH_LOGIN_MODULE} required clientId="c";'),
     "sasl.oauthbearer.client.credentials.client.secret", "set it, or clientSecret in"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=OAUTHBEARER", TOKEN_URL,
             f'sasl.jaas.config={OAUTH_LOGIN_MODULE} required clientId="c" clientSecret="hidden"'
             ' extension_auth="b";'), "sasl.jaas.config", "expected extension_NAME=VALUE"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=OAUTHBEARER", TOKEN_URL,
             f'sasl.jaas.config={OAUTH_LOGIN_MODULE} required clientId="c" clientSecret="hidden"'
             ' ssl.truststore.type="hidden";'), "sasl.jaas.config",
     "ssl.truststore.type: the value is invalid"),
    (secured("SASL_SSL", "sasl.login.refresh.window.factor=0.4"),
     "sasl.login.refresh.window.factor", "expected a number from 0.5 to 1, found '0.4'"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=GSSAPI",
             f'sasl.jaas.config={KERBEROS_LOGIN_MODULE} required useTicketCache="true";'),
     "sasl.jaas.config", "expected useKeyTab=true, keyTab="),
    (secured("SASL_SSL", f'sasl.jaas.config={KERBEROS_LOGIN_MODULE} required useKeyTab=true'
             ' keyTab="/k" principal="us@R";'), "sasl.kerberos.service.name",
     "required for GSSAPI"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=SCRAM-SHA-256"),
     "listener.name.controller.scram-sha-256.sasl.jaas.config",
     "required for authentication: set it to a JAAS line with username and password"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=SCRAM-SHA-256",
             f"sasl.jaas.config={PLAIN_LINE}"), "sasl.jaas.config",
     f"expected the login module {SCRAM_LOGIN_MODULE}"),
    (secured("SASL_SSL", "sasl.mechanism.controller.protocol=PLAIN",
             f"sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_us=pw;"), "sasl.jaas.config",
     "username and password must be given"),
    (secured("SSL", "ssl.keystore.key=pw"), "ssl.keystore.certificate.chain",
     "must be set together"),
    ([*BROKERS, "authorizerd.source.security.protocol=SASL_SSL"],
     "authorizerd.source.sasl.mechanism", "required, because Kafka's default is GSSAPI"),
    ([*BROKERS, f"authorizerd.source.{TOKEN_URL}"],
     "authorizerd.source.sasl.oauthbearer.token.endpoint.url",
     "authorizerd.source.security.protocol is PLAINTEXT, which does not use this key"),
    ([*BROKERS, f"authorizerd.source.sasl.jaas.config={PLAIN_LINE}"],
     "authorizerd.source.sasl.jaas.config",
     "authorizerd.source.security.protocol is PLAINTEXT, which does not use this key: set"
     " SASL_SSL or SASL_PLAINTEXT, or remove this key"),
    ([*BROKERS, "authorizerd.source.ssl.truststore.location=/t"],
     "authorizerd.source.ssl.truststore.location",
     "authorizerd.source.security.protocol is PLAINTEXT, which does not use this key: set"
     " SASL_SSL or SSL"),
    # our listeners
    ([*BROKERS, *SCRAM_LISTENER, "sasl.enabled.mechanisms=SCRAM-SHA-256"],
     "sasl.enabled.mechanisms",
     "OWN enables SCRAM-SHA-256, but only ACLs follow from authorizerd.source=brokers"),
    ([*BROKERS, *PLAIN_LISTENER, "listener.name.own.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512"],
     "listener.name.own.sasl.enabled.mechanisms", "OWN enables SCRAM-SHA-512"),
    # what is written
    ([*BROKERS, "authorizerd.writes=forward"], "authorizerd.writes",
     "forward requires the source quorum"),
    (FORWARD, "authorizerd.writes.forward.principals", "required with authorizerd.writes=forw"),
    ([*QUORUM, "authorizerd.writes.forward.principals=User:a"],
     "authorizerd.writes.forward.principals", "only authorizerd.writes=forward uses this key"),
    ([*FORWARD, "authorizerd.writes.forward.principals=a"], "authorizerd.writes.forward.principals",
     "expected Type:name"),
    ([*FORWARD, "authorizerd.writes.forward.principals=User:ANONYMOUS"],
     "authorizerd.writes.forward.principals",
     "add anonymous to authorizerd.writes.forward.privileged"),
    ([*FORWARD, "authorizerd.writes.forward.principals=User:b;User:a", "super.users=User:b"],
     "authorizerd.writes.forward.principals",
     "User:b is a super user: remove it, or add super-users to"),
    ([*FORWARD, *PLAIN_LISTENER, "authorizerd.writes.forward.principals=User:us"],
     "authorizerd.writes.forward.principals",
     "User:us is a PLAIN user of this file: remove it, or add local-users to"),
    ([*FORWARD, "authorizerd.writes.forward.privileged=everyone"],
     "authorizerd.writes.forward.privileged",
     "expected one of anonymous, super-users, local-users"),
    ([*FORWARD, "principal.builder.class=com.example.Builder"], "principal.builder.class",
     "com.example.Builder"),
])  # fmt: skip
def test_contradiction_names_the_key_and_the_remedy(lines: list[str], key: str, said: str) -> None:
    error = refuse(BASE + "\n".join(lines))
    assert f": {key}: " in error
    assert said in error
    assert "pw" not in error
    assert "hidden" not in error


def test_brokers_allow_listeners_with_plain() -> None:
    assert follow(*BROKERS, *PLAIN_LISTENER).kind is SourceKind.BROKERS


def test_keys_of_an_unused_quorum_are_ignored_with_a_warning() -> None:
    ignored = configure(*BROKERS, *QUORUM, "sasl.mechanism.controller.protocol=PLAIN").ignored_keys
    assert ignored == ("controller.quorum.bootstrap.servers", "sasl.mechanism.controller.protocol")


LINES = st.sampled_from(
    [
        *(
            *QUORUM, *BROKERS, *PLAIN_LISTENER, "authorizerd.source=log",
            "authorizerd.writes=forward",
        ),
        *("controller.quorum.voters=1@h:1", "controller.quorum.voters=2@h:1", "super.users=User:a"),
        *("sasl.enabled.mechanisms=SCRAM-SHA-256", "authorizerd.writes.forward.principals=User:a"),
        *("sasl.mechanism.controller.protocol=PLAIN", f"sasl.jaas.config={PLAIN_LINE}"),
        *(
            "authorizerd.writes.forward.privileged=super-users,local-users",
            "authorizerd.writes=as-self",
        ),
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=8))
def test_any_combination_is_sound_or_an_error(lines: list[str]) -> None:
    try:
        configuration = parse(BASE + "\n".join(lines), source=SOURCE)
    except ConfigurationError:
        return
    settings = configuration.follow
    if settings is None:
        return
    assert settings.kind is not SourceKind.LOG
    assert settings.servers
    if settings.kind is SourceKind.BROKERS:
        assert settings.writes is not Writes.FORWARD
        assert all(
            set(each.mechanisms) == {"PLAIN"} for each in configuration.sasl_listeners.values()
        )
    if settings.writes is Writes.FORWARD:
        assert settings.writes_forward_principals
        assert "User:a" not in settings.writes_forward_principals or (
            Privileged.SUPER_USERS in settings.writes_forward_privileged
            or "super.users=User:a" not in lines
        )
