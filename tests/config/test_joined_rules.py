import pytest

from authorizerd.acl.audit.mask import Masking
from authorizerd.config.configuration import parse
from authorizerd.config.endpoints import HttpEndpoint, StreamEndpoint
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.values import SecurityProtocol
from tests.config.properties_file import BASE, SOURCE, configure, endpoint, refuse
from tests.support.sasl import sasl_settings

LISTENERS = "listeners=PLAINTEXT://:1,CONTROLLER://:2"
CONTROLLERS = "controller.listener.names=CONTROLLER"


@pytest.mark.parametrize(("lines", "directory"), [
    (["log.dirs=/a , /b"], "/a"),
    (["log.dir=/c"], "/c"),
    (["log.dir=/c,/d"], "/c"),
    (["log.dirs=/a", "log.dir=/c"], "/a"),
    (["log.dirs=/a", "metadata.log.dir=/m,n "], "/m,n"),
    (["metadata.log.dir=relative/dir"], "relative/dir"),
])  # fmt: skip
def test_metadata_log_has_one_directory(lines: list[str], directory: str) -> None:
    """metadata.log.dir, or the first of log.dirs, or the first of log.dir."""
    text = "\n".join(["node.id=1", *lines])
    configuration = parse(text, source=SOURCE)
    assert configuration.metadata_log_dir == directory
    assert configuration.ignored_keys == ()


def test_controller_listener_is_plaintext_by_default() -> None:
    assert configure(LISTENERS, CONTROLLERS).listeners == (
        endpoint("PLAINTEXT", None, 1),
        endpoint("CONTROLLER", None, 2),
    )


@pytest.mark.parametrize("lines", [
    [LISTENERS],
    [LISTENERS, CONTROLLERS, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT"],
    ["listeners=PLAINTEXT://:1,SSL://:3,CONTROLLER://:2", CONTROLLERS],
    ["listeners=SASL_PLAINTEXT://:1,CONTROLLER://:2", CONTROLLERS],
])  # fmt: skip
def test_controller_listener_needs_a_mapping_next_to_ssl_or_sasl(lines: list[str]) -> None:
    """A map that is set is used unchanged."""
    assert refuse(BASE + "\n".join(lines)) == (
        "server.properties:3: listeners:"
        " listener.security.protocol.map has no security protocol for CONTROLLER:"
        " add CONTROLLER:PROTOCOL to the map"
    )


def test_map_without_the_default_listener_is_rejected_with_the_remedy() -> None:
    assert refuse(BASE + "listener.security.protocol.map=CONTROLLER:PLAINTEXT") == (
        "server.properties: listeners: listener.security.protocol.map has no security protocol"
        " for PLAINTEXT, a listener of the default: add PLAINTEXT:PROTOCOL to the map"
    )


def test_map_sets_the_protocol_of_each_listener() -> None:
    """Even if the listener is named after another protocol."""
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=b;"
    configuration = configure(
        "listeners=ssl://:1,internal://:2",
        "listener.security.protocol.map=internal:sasl_plaintext,Ssl:PLAINTEXT,UNUSED:SSL",
        "advertised.listeners=INTERNAL://h:1",
        f"listener.name.internal.plain.sasl.jaas.config={jaas}",
    )
    assert configuration.listeners == (
        endpoint("SSL", None, 1, SecurityProtocol.PLAINTEXT),
        endpoint("INTERNAL", None, 2, SecurityProtocol.SASL_PLAINTEXT),
    )
    assert configuration.advertised_listeners == (
        endpoint("INTERNAL", "h", 1, SecurityProtocol.SASL_PLAINTEXT),
    )
    assert configuration.sasl_listeners == {"INTERNAL": sasl_settings(users={"a": "b"})}


@pytest.mark.parametrize(("lines", "said"), [
    (["listeners=SASL_PLAINTEXT://h:1"],
     ": listener.name.sasl_plaintext.plain.sasl.jaas.config: required"),
    (["listeners=SASL_PLAINTEXT://h:1",
      "listener.name.sasl_plaintext.plain.sasl.jaas.config=secret"],
     ":4: listener.name.sasl_plaintext.plain.sasl.jaas.config: expected the login module"),
])  # fmt: skip
def test_unsupported_listener_is_rejected(lines: list[str], said: str) -> None:
    """A listener never opens with less protection than configured."""
    with pytest.raises(ConfigurationError) as error:
        configure(*lines)
    assert said in str(error.value)
    assert "secret" not in str(error.value).partition("jaas.config: ")[2]


def test_controller_listener_may_listen_on_every_address() -> None:
    """It is not advertised to clients."""
    configuration = configure("listeners=PLAINTEXT://h:1,CONTROLLER://0.0.0.0:2", CONTROLLERS)
    assert configuration.listeners[1] == endpoint("CONTROLLER", "0.0.0.0", 2)
    configuration = configure(
        "listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners=PLAINTEXT://h:9"
    )
    assert configuration.listeners == (endpoint("PLAINTEXT", "0.0.0.0", 1),)
    assert configuration.advertised_listeners == (endpoint("PLAINTEXT", "h", 9),)


@pytest.mark.parametrize(("lines", "names"), [
    ([], {"CONTROLLER"}),
    (["early.start.listeners="], set()),
    (["early.start.listeners= PLAINTEXT, PLAINTEXT "], {"PLAINTEXT"}),
    (["early.start.listeners=PLAINTEXT,CONTROLLER"], {"PLAINTEXT", "CONTROLLER"}),
])  # fmt: skip
def test_early_start_listeners_default_to_controllers(lines: list[str], names: set[str]) -> None:
    configuration = configure(LISTENERS, f"{CONTROLLERS},CONTROLLER", *lines)
    assert configuration.early_start_listeners == names
    assert configuration.controller_listener_names == ("CONTROLLER",)


def test_ignored_keys_are_sorted_and_distinct() -> None:
    configuration = configure("z=1", "a=1", "z=2", "= x", "AUTHORIZERD.x=1", "authorizerd=1")
    assert configuration.ignored_keys == ("", "AUTHORIZERD.x", "a", "authorizerd", "z")


def test_both_http_ports_may_be_0() -> None:
    configuration = configure(
        "authorizerd.decision.http=http://127.0.0.1:0", "authorizerd.admin.http=http://127.0.0.1:0"
    )
    assert configuration.decision_http == configuration.admin_http


@pytest.mark.parametrize(("text", "endpoint"), [
    ("", None),
    ("http://0.0.0.0:9182", HttpEndpoint(host="0.0.0.0", port=9182)),
    ("http://[::]:9182", HttpEndpoint(host="::", port=9182)),
    ("http://:9182", HttpEndpoint(host=None, port=9182)),
])  # fmt: skip
def test_metrics_port_may_have_any_address(text: str, endpoint: HttpEndpoint | None) -> None:
    assert configure(f"authorizerd.metrics.http={text}").metrics_http == endpoint


def test_tokens_allow_decision_ports_on_any_address() -> None:
    configuration = configure(
        "authorizerd.tokens.file=/etc/tokens",
        "authorizerd.decision.http=http://:8181",
        "authorizerd.decision.stream=tcp://10.0.0.1:8183",
    )
    assert configuration.tokens_file == "/etc/tokens"
    assert configuration.decision_http == HttpEndpoint(host=None, port=8181)
    assert configuration.decision_stream == StreamEndpoint(host="10.0.0.1", port=8183)


@pytest.mark.parametrize("name", ["", "my.Authorizer"])
def test_only_the_built_in_authorizer_runs_in_workers(name: str) -> None:
    """Another one may keep state in its process."""
    assert configure(f"authorizer.class.name={name}", "authorizerd.workers=1").workers == 1
    with pytest.raises(ConfigurationError, match=r"authorizerd\.workers: several processes"):
        configure(f"authorizer.class.name={name}", "authorizerd.workers=2")


@pytest.mark.parametrize("what", ["principal", "host", "resource"])
def test_hashing_requires_a_secret(what: str) -> None:
    """Without one, names could be guessed."""
    key = f"authorizerd.audit.mask.{what}"
    said = refuse(f"{BASE}{key}=hash\n")
    assert f"{key}: hash requires authorizerd.audit.mask.secret.file" in said
    assert getattr(configure(f"{key}=cut"), f"audit_mask_{what}") is Masking.CUT
    secret = "authorizerd.audit.mask.secret.file=/secret"
    assert configure(f"{key}=hash", secret).audit_mask_secret_file == "/secret"
