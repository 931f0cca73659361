import errno
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.config.configuration import Configuration
from authorizerd.config.tls import ClientAuth
from authorizerd.daemon.certificates import LISTED_MAX, OWN_PORTS, Certificates
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.session_keys import KEYS_SECONDS, renew_session_keys
from authorizerd.daemon.settings import needs_restart
from authorizerd.tls.material import describe_certificate, read_material
from authorizerd.tls.server import TlsServer
from tests.config.properties_file import configure
from tests.support.certificates import Authority, expired

LISTENERS = (
    "listeners=PLAIN://h:1,SECURE://h:2",
    "listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SSL",
)
HTTPS = "authorizerd.decision.http=https://127.0.0.1:8181"


class Ports:
    """A listener and the decision port, each with its own keystore."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.keystores = {name: self.authority.issue(name) for name in ("SECURE", OWN_PORTS)}
        self.certificates = Certificates(self.configuration())
        self.reload()

    def configuration(self, *lines: str) -> Configuration:
        return configure(
            *LISTENERS,
            HTTPS,
            f"listener.name.secure.ssl.keystore.location={self.keystores['SECURE']}",
            f"authorizerd.http.ssl.keystore.location={self.keystores[OWN_PORTS]}",
            *lines,
        )

    def reload(self, *lines: str) -> None:
        self.certificates.prepare_reload(self.configuration(*lines))()

    def refuse(self, *lines: str) -> str:
        """Return the error of a reload."""
        with pytest.raises(StartError) as refusal:
            self.certificates.prepare_reload(self.configuration(*lines))
        return str(refusal.value)

    def serials(self) -> dict[str, int]:
        return {name: serial_of(server) for name, server in self.certificates.servers.items()}


def serial_of(server: TlsServer | None) -> int:
    assert server is not None
    return describe_certificate(server.current.chain[0]).serial


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    return Ports(tmp_path)


def test_reload_takes_up_replaced_files(ports: Ports) -> None:
    before = ports.serials()
    servers = dict(ports.certificates.servers)
    for name in ports.keystores:
        ports.authority.issue(name)
    ports.reload()
    assert ports.certificates.servers == servers
    assert not {*before.values()} & {*ports.serials().values()}


def spoil_text(ports: Ports) -> None:
    ports.keystores["SECURE"].write_text("no PEM")


def spoil_by_age(ports: Ports) -> None:
    ports.authority.issue("SECURE", not_after=expired())


def spoil_by_youth(ports: Ports) -> None:
    now = datetime.now(UTC)
    ports.authority.issue(
        "SECURE", not_before=now + timedelta(days=1), not_after=now + timedelta(days=2)
    )


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (spoil_text, "is not PEM, and not PKCS12"),
        (spoil_by_age, "the certificate expired on 2020-01-01 at 00:00 UTC"),
        (spoil_by_youth, "the certificate is valid only from"),
    ],
)
def test_unusable_store_leaves_the_old_certificates_on_all_ports(
    ports: Ports, spoil: Callable[[Ports], None], reason: str
) -> None:
    before = ports.serials()
    spoil(ports)
    ports.authority.issue(OWN_PORTS)
    error = ports.refuse()
    key = "listener.name.secure.ssl.keystore.location"
    assert error.startswith(f"{key}: {ports.keystores['SECURE']}: {reason}")
    assert ports.serials() == before


def test_expired_certificate_is_used_at_a_start_and_blocks_no_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other ports and settings are needed."""
    keystore = Authority(tmp_path).issue("a", not_after=expired())
    configuration = configure(HTTPS, f"authorizerd.http.ssl.keystore.location={keystore}")
    certificates = Certificates(configuration)
    certificates.prepare_reload(configuration)()
    certificates.prepare_reload(configuration)()
    assert certificates.own_ports is not None
    text = f"authorizerd.http.ssl.keystore.location: {keystore}: the certificate in use expired"
    assert len([record for record in caplog.messages if record.startswith(text)]) == 2
    assert not [record for record in caplog.messages if "expires soon" in record]


def test_reload_takes_up_other_settings(ports: Ports) -> None:
    other = ports.authority.issue("other")
    own = "listener.name.secure.ssl."
    ports.reload(
        f"{own}keystore.location={other}",
        f"{own}enabled.protocols=TLSv1.3",
        f"{own}client.auth=required",
        f"{own}truststore.location={ports.authority.ca_file}",
    )
    server = ports.certificates.servers["SECURE"]
    assert server.current.chain == read_material(server.settings).chain
    assert (server.settings.protocols, server.settings.client_auth) == (
        ("TLSv1.3",),
        ClientAuth.REQUIRED,
    )
    assert server.identifies_clients
    assert server.current.trusted


def test_reload_does_not_switch_tls_off(ports: Ports) -> None:
    ports.authority.issue("SECURE")
    before = ports.serials()
    ports.certificates.prepare_reload(configure())()
    assert ports.serials()["SECURE"] != before["SECURE"]
    assert ports.certificates.servers["SECURE"].settings.keystore is not None


def test_callers_need_credentials_once_certificates_are_asked_for(ports: Ports) -> None:
    required: list[bool] = []
    ports.certificates.on_client_auth(lambda: required.append(True))
    ports.reload()
    assert not required
    own = "authorizerd.http.ssl."
    trust = f"{own}truststore.location={ports.authority.ca_file}"
    ports.reload(f"{own}client.auth=requested", trust)
    assert required
    assert "callers of the decision ports would no longer need credentials" in ports.refuse()
    assert ports.certificates.own_ports is not None
    assert ports.certificates.own_ports.identifies_clients


def test_clients_are_identified_again_only_when_a_ca_leaves(ports: Ports, tmp_path: Path) -> None:
    own = "listener.name.secure.ssl."
    trusted = tmp_path / "trusted.pem"
    lines = f"{own}client.auth=required", f"{own}truststore.location={trusted}"
    first, second = (Authority(tmp_path, name).ca_file.read_text() for name in ("one", "two"))
    ended: list[TlsServer] = []
    ports.certificates.on_lost_trust(ended.append)
    for text, count in ((first, 0), (first + second, 0), (second + first, 0), (second, 1)):
        trusted.write_text(text)
        ports.authority.issue("SECURE")
        ports.reload(*lines)
        assert ended == [ports.certificates.servers["SECURE"]] * count


def test_worker_has_the_settings_of_the_reload(ports: Ports) -> None:
    """It starts with the daemon's first configuration, and must then apply the reloaded one."""
    own = "authorizerd.http.ssl."
    ports.authority.issue(OWN_PORTS)
    ports.reload(
        f"{own}client.auth=required", f"{own}truststore.location={ports.authority.ca_file}"
    )
    worker = Certificates(ports.configuration(f"{own}enabled.protocols=TLSv1.2"))
    required: list[bool] = []
    worker.on_client_auth(lambda: required.append(True))
    stores = ports.certificates.stores
    worker.prepare_stores(stores)()
    assert worker.own_ports is not None
    assert ports.certificates.own_ports is not None
    assert worker.own_ports.settings == ports.certificates.own_ports.settings
    assert serial_of(worker.own_ports) == ports.serials()[OWN_PORTS]
    assert worker.own_ports.current.trusted
    assert required
    assert repr(stores) == "Stores()"


def test_every_certificate_is_listed_once(ports: Ports) -> None:
    bundle = "".join(
        Authority(ports.keystores["SECURE"].parent, f"ca{number}").ca_file.read_text()
        for number in range(LISTED_MAX + 5)
    )
    truststore = ports.keystores["SECURE"].parent / "bundle.pem"
    truststore.write_text(bundle)
    ports.reload(
        "authorizerd.metrics.http=https://127.0.0.1:8183",
        "listener.name.secure.ssl.client.auth=requested",
        f"listener.name.secure.ssl.truststore.location={truststore}",
    )
    listed = ports.certificates.listed
    own = {each.port: each.validity.serial for each in listed if each.store == "keystore"}
    assert own == ports.serials()
    assert len([each for each in listed if each.store == "truststore"]) == LISTED_MAX
    assert {each.position for each in listed if each.store == "keystore"} == {0}


@pytest.mark.parametrize(("days", "level"), [(13, logging.WARNING), (15, logging.INFO)])
def test_certificate_is_logged_when_it_comes_into_use(
    ports: Ports, caplog: pytest.LogCaptureFixture, days: int, level: int
) -> None:
    caplog.set_level(logging.INFO, "authorizerd")
    ports.authority.issue("SECURE", not_after=datetime.now(UTC) + timedelta(days=days))
    ports.reload()
    ports.reload()
    [record] = caplog.records
    server = ports.certificates.servers["SECURE"]
    assert server is not None
    serial = describe_certificate(server.current.chain[0]).serial_text
    assert record.getMessage().startswith(f"SECURE: certificate {serial} ")
    assert record.levelno == level


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("authorizerd.http.ssl.enabled.protocols=TLSv1.2",), False),
        (("listener.name.secure.ssl.enabled.protocols=TLSv1.2",), False),
        (("ssl.keystore.location=/other.pem",), False),
        (("authorizerd.decision.http=http://127.0.0.1:8181",), True),
        (("listener.security.protocol.map=PLAIN:SSL,SECURE:SSL",), True),
        (("node.id=2",), True),
    ],
)
def test_only_switching_tls_on_or_off_needs_a_restart(
    ports: Ports, lines: tuple[str, ...], expected: bool
) -> None:
    before = ports.configuration("ssl.keystore.location=/k.pem")
    after = ports.configuration("ssl.keystore.location=/k.pem", *lines)
    assert needs_restart(before, after) is expected


async def test_session_keys_are_renewed_every_hour(
    ports: Ports, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The certificates stay the same, and open connections continue."""
    ended: list[TlsServer] = []
    ports.certificates.on_lost_trust(ended.append)
    contexts, serials = [server.current.context for server in servers(ports)], ports.serials()
    nursery.start_soon(renew_session_keys, ports.certificates)
    await trio.sleep(KEYS_SECONDS - 1)
    assert [server.current.context for server in servers(ports)] == contexts
    await wait_until(
        lambda: all(
            server.current.context is not before
            for server, before in zip(servers(ports), contexts, strict=True)
        )
    )
    assert (ports.serials(), ended) == (serials, [])


def test_renewal_keeps_certificates_that_were_replaced_meanwhile(ports: Ports) -> None:
    apply = ports.certificates.prepare_renewal()
    ports.keystores["SECURE"] = ports.authority.issue("SECURE")
    ports.reload()
    contexts, serials = [server.current.context for server in servers(ports)], ports.serials()
    apply()
    assert ports.serials() == serials
    assert [server.current.context for server in servers(ports)] == contexts


async def test_keys_are_kept_if_the_system_is_short_of_resources(
    ports: Ports,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ports.certificates, "prepare_renewal", fail)
    nursery.start_soon(renew_session_keys, ports.certificates)
    await wait_until(lambda: "Too many open files" in caplog.text)
    assert "tickets are kept for another hour" in caplog.text


def servers(ports: Ports) -> list[TlsServer]:
    return [*ports.certificates.servers.values()]


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(2 * KEYS_SECONDS):
        while not condition():  # noqa: ASYNC110 - the end of a thread sets no event
            await trio.sleep(1)
