"""Kerberos with a real KDC and a real Kafka: our clients and followers log in with GSSAPI."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from authorizerd.config.kerberos import KERBEROS_LOGIN_MODULE
from tests.conformance.followers import Follower
from tests.kafka_rig.broker import Broker, BrokerSettings, format_storage, running_broker
from tests.kafka_rig.properties import find_free_ports, find_lasting_ports, write_properties
from tests.kafka_rig.rig import Program, Rig
from tests.support.daemon_process import connect, run, wait_until

REALM: Final = "AUTHORIZERD.TEST"
USER: Final = "follower"
TICKET_SECONDS: Final = 10
SHORT: Final = f'-maxlife "{TICKET_SECONDS} sec"'
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
PATH: Final = f"/usr/sbin{os.pathsep}{os.environ['PATH']}"


@dataclass(frozen=True)
class Realm:
    """A KDC; ``environment`` makes the clients of a process use it."""

    folder: Path
    environment: dict[str, str]

    def add(self, principal: str, *options: str) -> Path:
        """Add a principal with a random key, and return its keytab."""
        keytab = self.folder / f"{principal.replace('/', '.')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc {' '.join(options)} -randkey {principal}@{REALM}")
        self.run("kadmin.local", "-q", f"ktadd -k {keytab} {principal}@{REALM}")
        return keytab

    def run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=PATH)
        assert found is not None
        subprocess.run(
            [found, *arguments], check=True, capture_output=True,
            env={**os.environ, **self.environment},
        )  # fmt: skip


@contextmanager
def running_kdc(folder: Path) -> Iterator[Realm]:
    """Run a KDC on 127.0.0.1 until the block ends."""
    (port,) = find_free_ports(1)
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
        " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        f"[domain_realm]\n 127.0.0.1 = {REALM}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
        f"  key_stash_file = {folder}/stash\n  kdc_listen = 127.0.0.1:{port}\n"
        f"  kdc_tcp_listen = 127.0.0.1:{port}\n  max_life = 1h\n }}\n"
        f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
    )
    environment = {
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
    }
    realm = Realm(folder, environment)
    realm.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    program = shutil.which("krb5kdc", path=PATH)
    assert program is not None
    with subprocess.Popen([program, "-n"], env={**os.environ, **environment}) as kdc:
        try:
            wait_until(lambda: _listens(port), "the KDC listens")
            yield realm
        finally:
            kdc.terminate()


def _listens(port: int) -> bool:
    try:
        connect(f"127.0.0.1:{port}").close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class World:
    """A broker with GSSAPI on two listeners, and the keytab of a user."""

    realm: Realm
    broker: Broker
    keytab: Path

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.broker.settings.listeners[listener][1]}"

    @property
    def login(self) -> dict[str, str]:
        line = (
            f"{KERBEROS_LOGIN_MODULE} required useKeyTab=true storeKey=true"
            f' keyTab="{self.keytab}" principal="{USER}@{REALM}";'
        )
        return {"sasl.jaas.config": line, "sasl.kerberos.service.name": "kafka"}


@pytest.fixture(scope="module")
def world(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing or find_spec("gssapi") is None:
        pytest.skip("krb5-kdc, krb5-admin-server or the library gssapi is not installed")
    folder = tmp_path_factory.mktemp("kerberos")
    with pytest.MonkeyPatch.context() as environment, running_kdc(folder) as realm:
        for name, value in realm.environment.items():
            environment.setenv(name, value)
        service, keytab = realm.add("kafka/127.0.0.1"), realm.add(USER, SHORT)
        ports = find_lasting_ports(2)
        more = {"controller.listener.names": "CONTROLLER,QUORUM"}
        for name in ("kerberos", "quorum"):
            prefix = f"listener.name.{name}."
            more |= {
                f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
                f"{prefix}gssapi.sasl.jaas.config": f"{KERBEROS_LOGIN_MODULE} required"
                f' useKeyTab=true storeKey=true keyTab="{service}"'
                f' principal="kafka/127.0.0.1@{REALM}";',
                f"{prefix}sasl.kerberos.service.name": "kafka",
            }
        more |= {
            "listener.name.kerberos.connections.max.reauth.ms": "4000",
            "listener.name.quorum.connections.max.reauth.ms": "4000",
        }
        settings = BrokerSettings(
            listeners={
                name: ("SASL_PLAINTEXT", port)
                for name, port in zip(("KERBEROS", "QUORUM"), ports, strict=True)
            },
            super_users=("User:admin", f"User:{USER}"),
            jvm_options=(
                *BrokerSettings().jvm_options,
                f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}",
            ),
            more=more,
        )
        assert format_storage(rig, folder, folder / "log").exit_code == 0
        with running_broker(rig, folder, folder / "log", settings) as broker:
            yield World(realm, broker, keytab)


def list_acls(address: str, config: Path) -> subprocess.CompletedProcess[str]:
    return run("acls", "--list", "--bootstrap-server", address, "--command-config", config)


def test_command_logs_in_with_a_keytab(world: World, tmp_path: Path) -> None:
    """Without sasl.mechanism, since GSSAPI is Kafka's default."""
    config = tmp_path / "client.properties"
    keys = {"security.protocol": "SASL_PLAINTEXT", **world.login}
    write_properties(config, keys)
    listed = list_acls(world.address("KERBEROS"), config)
    assert listed.returncode == 0, listed.stdout
    faults = {
        "sasl.kerberos.service.name": ("nobody", "nobody@127.0.0.1"),
        "sasl.jaas.config": (
            keys["sasl.jaas.config"].replace(str(world.keytab), "/none"),
            f"no ticket for {USER}@{REALM}",
        ),
    }
    for key, (value, said) in faults.items():
        write_properties(config, keys | {key: value})
        refused = list_acls(world.address("KERBEROS"), config)
        assert refused.returncode == 1
        assert said in refused.stdout


def test_daemon_follows_brokers_and_controllers_with_kerberos(world: World, tmp_path: Path) -> None:
    """Tickets last 10 s and sessions 4 s; the daemon gets new ones and connects again."""
    world.broker.run(
        Program.ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Read",
        "--topic", "orders",
    )  # fmt: skip
    prefix, own = "authorizerd.source.", "listener.name.controller.gssapi."
    brokers = {
        "authorizerd.source": "brokers",
        f"{prefix}bootstrap.servers": world.address("KERBEROS"),
        f"{prefix}security.protocol": "SASL_PLAINTEXT",
        f"{prefix}sasl.mechanism": "GSSAPI",
        f"{prefix}poll.ms": "500",
        **{f"{prefix}{key}": value for key, value in world.login.items()},
    }
    quorum = {
        "controller.quorum.bootstrap.servers": world.address("QUORUM"),
        "controller.listener.names": "CONTROLLER",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        **{f"{own}{key}": value for key, value in world.login.items()},
    }
    asked = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "Read"},
             "resource": {"type": "topic", "id": "orders"}}  # fmt: skip
    log = world.realm.folder / "kdc.log"
    for name, source in {"brokers": brokers, "quorum": quorum}.items():
        with Follower(tmp_path / name, source) as follower:
            assert follower.evaluate(asked).json["decision"]
            before = log.read_text().count("AS_REQ")
            time.sleep(2 * TICKET_SECONDS)
            assert follower.readiness().status == 200, follower.log.read_text()
            assert log.read_text().count("AS_REQ") > before
