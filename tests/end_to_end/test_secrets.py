"""No secret leaves the daemon: each place that can hold one gets a marker, then all output is read.

The markers are random letters. Base64 and hexadecimal forms of them are searched for too.
"""

import base64
import contextlib
import io
import json
import secrets
import signal
import subprocess
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from authorizerd.cli.main import main
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from authorizerd.config.tokens import SECRET_BYTES, new_token
from authorizerd.protocol.kafka.api import ApiKey
from tests.support.certificates import Authority
from tests.support.daemon_process import COMMAND, DaemonProcess, ask, run, running, write_config
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation

UNREACHABLE = "127.0.0.1:1"
BROKER = 4
"""Kafka's ConfigResource.Type.BROKER."""
EVALUATION = "/access/v1/evaluation"


class Installation:
    """A configuration with a secret in every place, and everything that was printed.

    ``markers`` has the secrets by place.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.markers: dict[str, str] = {}
        self.outputs: dict[str, bytes] = {}
        self.config = self._configure()

    def marker(self, place: str) -> str:
        marker = "m" + secrets.token_hex(12)
        self.markers[place] = marker
        return marker

    def _configure(self) -> dict[str, str]:
        jaas = f'{PLAIN_LOGIN_MODULE} required user_admin="{self.marker("JAAS password")}";'
        token, line = new_token("proxy", "User:proxy", secrets.token_bytes(SECRET_BYTES))
        self.token = token
        self.markers["token"] = token.partition(".")[2]
        self._write("tokens", line + "\n")
        audit_secret = self._write("audit.secret", self.marker("audit secret"))
        audit_secret.chmod(0o600)
        trust_password = self.marker("ssl.truststore.password")
        return {
            "listeners": "SASL://127.0.0.1:0,INLINE://127.0.0.1:0",
            "listener.security.protocol.map": "SASL:SASL_SSL,INLINE:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.plain.sasl.jaas.config": jaas,
            **self._inline_keys("listener.name.inline."),
            **self._pkcs12_keys("listener.name.sasl."),
            **self._pkcs12_keys("authorizerd.http."),
            "authorizerd.http.ssl.truststore.location": str(self._truststore(trust_password)),
            "authorizerd.http.ssl.truststore.password": trust_password,
            "authorizerd.http.ssl.client.auth": "requested",
            "authorizerd.decision.http": "https://127.0.0.1:0",
            "authorizerd.decision.stream": "tls://127.0.0.1:0",
            "authorizerd.tokens.file": str(self.folder / "tokens"),
            "authorizerd.audit.log": str(self.folder / "audit.log"),
            "authorizerd.audit.mask.principal": "hash",
            "authorizerd.audit.mask.secret.file": str(audit_secret),
            "authorizerd.log.level": "DEBUG",
            "authorizerd.audit.level": "DEBUG",
            "authorizerd.workers": "2",
            "super.users": "User:admin",
            "of.other.software.password": self.marker("another program's key"),
        }

    def follower(self, source: str, servers: str = UNREACHABLE) -> dict[str, str]:
        """Return a configuration that follows ``servers``, with secrets of its own."""
        jaas = f'{SCRAM_LOGIN_MODULE} required username="daemon" password="{self.marker(source)}";'
        prefix = "authorizerd.source." if source == "brokers" else "listener.name.controller."
        stores = {**self._inline_keys(prefix), **self._trusted_keys(prefix)}
        if source == "brokers":
            return {
                "authorizerd.source": "brokers",
                f"{prefix}bootstrap.servers": servers,
                f"{prefix}security.protocol": "SASL_SSL",
                f"{prefix}sasl.mechanism": "SCRAM-SHA-256",
                f"{prefix}sasl.jaas.config": jaas,
                **stores,
            }
        return {
            "controller.quorum.bootstrap.servers": servers,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
            f"{prefix}scram-sha-256.sasl.jaas.config": jaas,
            **stores,
        }

    def _trusted_keys(self, prefix: str) -> dict[str, str]:
        password = self.marker(f"{prefix}ssl.truststore.password")
        return {
            f"{prefix}ssl.truststore.location": str(self._truststore(password)),
            f"{prefix}ssl.truststore.password": password,
        }

    def _write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _inline_keys(self, prefix: str) -> dict[str, str]:
        """Return the keys of an encrypted key and its chain in the configuration itself."""
        password = self.marker("ssl.key.password")
        key, _, chain = (
            self.authority.issue("inline", "127.0.0.1").read_text().partition("-----BEGIN C")
        )
        loaded = load_pem_private_key(key.encode(), None)
        encryption = BestAvailableEncryption(password.encode())
        encrypted = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
        self.markers["decrypted key"] = "".join(key.split("\n")[1:-2])[60:100]
        self.markers["encrypted key"] = "".join(encrypted.split("\n")[1:-2])[60:100]
        return {
            f"{prefix}ssl.keystore.key": encrypted.replace("\n", " "),
            f"{prefix}ssl.keystore.certificate.chain": f"-----BEGIN C{chain}".replace("\n", " "),
            f"{prefix}ssl.key.password": password,
        }

    def _pkcs12_keys(self, prefix: str) -> dict[str, str]:
        password = self.marker(f"{prefix}ssl.keystore.password")
        pem = self.authority.issue("pkcs12", "127.0.0.1", "localhost").read_bytes()
        key = load_pem_private_key(pem, None)
        self.markers[f"key of {prefix}"] = base64.b64encode(
            key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        ).decode()[60:100]
        content = pkcs12.serialize_key_and_certificates(
            b"server",
            key,  # type: ignore[arg-type]  # an elliptic curve's key, which PKCS12 supports
            x509.load_pem_x509_certificate(pem),
            None,
            BestAvailableEncryption(password.encode()),
        )
        store = self._write(f"{prefix}p12", content)
        return {
            f"{prefix}ssl.keystore.location": str(store),
            f"{prefix}ssl.keystore.password": password,
        }

    def _truststore(self, password: str) -> Path:
        ca = x509.load_pem_x509_certificate(self.authority.ca_file.read_bytes())
        encryption = BestAvailableEncryption(password.encode())
        content = pkcs12.serialize_key_and_certificates(b"ca", None, None, [ca], encryption)
        return self._write("trust.p12", content)

    def command(self, name: str, *arguments: str | Path) -> None:
        done: subprocess.CompletedProcess[str] = run(*arguments)
        self.outputs[name] = (done.stdout + done.stderr).encode()

    def call(self, name: str, *arguments: str | Path) -> None:
        """Like ``command``, but in this process, which is faster."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main([str(each) for each in arguments])
        self.outputs[name] = out.getvalue().encode()

    def find(self, *, ignored: tuple[str, ...] = ()) -> dict[str, list[str]]:
        """Return the places of secrets by output; files named in ``ignored`` may have secrets."""
        outputs = dict(self.outputs)
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name not in ignored:
                outputs[str(path.relative_to(self.folder))] = path.read_bytes()
        found: dict[str, list[str]] = {}
        for name, output in outputs.items():
            for place, marker in self.markers.items():
                if any(form in output for form in _forms(marker)):
                    found.setdefault(name, []).append(place)
        return found


def _forms(marker: str) -> list[bytes]:
    """Return a secret as it might be written; of base64, what any bytes around it leave."""
    data = marker.encode()
    encoded = [base64.b64encode(bytes(shift) + data)[4 * (shift > 0) : -4] for shift in range(3)]
    return [data, data.hex().encode(), *encoded]


def use(installation: Installation, daemon: DaemonProcess) -> None:
    """Send requests with right and wrong credentials, and keep the answers."""
    outputs, context = installation.outputs, installation.authority.client_context()
    listeners = daemon.ready["listeners"]
    wrong = installation.marker("wrong password")
    for name, password in (("right", installation.markers["JAAS password"]), ("wrong", wrong)):
        try:
            connection = KafkaConnection(listeners["SASL"], "admin", password, context)
        except AssertionError:
            assert name == "wrong"
            continue
        answer = connection.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[_Resource(BROKER, "1")],
            include_synonyms=True,
            include_documentation=True,
        )
        outputs["DescribeConfigs"] = repr(answer).encode()
        connection.close()
    host, _, port = daemon.ready["decision_http"].rpartition(":")
    for token in (installation.token, f"proxy.{installation.marker('wrong token')}"):
        http = HTTPSConnection(host, int(port), context=context)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        body = json.dumps(evaluation("proxy")).encode()
        answered = ask(http, "POST", EVALUATION, body, headers)
        outputs[f"AuthZEN {answered.status}"] = repr(answered).encode()
        http.close()
    for path in ("/metrics", "/healthz", "/readyz"):
        outputs[path] = ask(daemon.admin, "GET", path).body


class _Resource:
    """A resource of DescribeConfigs with all its configs."""

    configuration_keys = None

    def __init__(self, resource_type: int, resource_name: str) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name


def break_configuration(installation: Installation, log_dir: Path) -> None:
    """Start daemons with each secret in a malformed value; keep the errors."""
    for number, (key, value) in enumerate(
        {
            "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required user_x=",
            "listener.name.sasl.ssl.keystore.password": "",
            "authorizerd.http.ssl.truststore.password": "",
            "listener.name.inline.ssl.key.password": "",
            "listener.name.inline.ssl.keystore.key": "-----BEGIN PRIVATE KEY----- ",
            "listener.name.inline.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE----- ",
            "ssl.client.auth": "",
        }.items()
    ):
        marker = installation.marker(f"malformed {key}")
        config = {**installation.config, key: value + marker}
        path = write_config(installation.folder, log_dir, config)
        installation.command(f"serve {number}", "serve", "--config", path)
        if "ssl." in key:
            installation.call(f"doctor {number}", "doctor", "--config", path)
        if key == "ssl.client.auth":  # not a secret: an error may show it
            del installation.markers[f"malformed {key}"]


def fail_to_log_in(installation: Installation, listener: str) -> None:
    """Follow a listener that refuses authentication, and keep what doctor and the daemon print."""
    folder = installation.folder
    config = installation.follower("quorum", listener) | {"authorizerd.log.level": "DEBUG"}
    path = write_config(folder, folder / "follower", config)
    installation.call("doctor with a wrong password", "doctor", "--config", path)
    command = (*COMMAND, "serve", "--config", str(path))
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=folder) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if b"check the credentials" in line:
                break
        process.terminate()
        installation.outputs["follower's log"] = b"".join([*lines, *process.stderr])
    assert b"check the credentials" in installation.outputs["follower's log"]


def follow_clusters(installation: Installation) -> None:
    """Examine followers of each source, import a broker's file, and break each secret."""
    folder = installation.folder
    for source in ("quorum", "brokers"):
        config = installation.follower(source)
        path = write_config(folder, folder / source, config)
        installation.call(f"doctor {source}", "doctor", "--config", path)
        installation.call(f"doctor --json {source}", "doctor", "--json", "--config", path)
        for key in config:
            is_jaas = key.endswith("jaas.config")
            if is_jaas or key.endswith(("password", ".key", ".chain")):
                marker = installation.marker(f"malformed {key}")
                value = f"{SCRAM_LOGIN_MODULE} required password=" if is_jaas else ""
                path = write_config(folder, folder / source, {**config, key: value + marker})
                installation.call(f"doctor with {key}", "doctor", "--config", path)
                if is_jaas:
                    installation.command(f"serve with {key}", "serve", "--config", path)
    keys = "".join(f"{key}={value}\n" for key, value in installation.follower("quorum").items())
    (folder / "broker.properties").write_text(f"node.id=4\n{keys}")
    broker, imported = str(folder / "broker.properties"), folder / "imported"
    installation.call("import-config", "import-config", broker)
    installation.call("import-config --output", "import-config", broker, "--output", imported)
    assert installation.markers["quorum"].encode() in imported.read_bytes()


def test_no_secret_is_in_any_output(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    log_dir = tmp_path / "log"
    config_file = write_config(tmp_path, log_dir, installation.config)
    password = installation.marker("SCRAM password")
    scram = f"SCRAM-SHA-256=[name=alice,password={password}]"
    installation.command("format", "format", "--config", config_file, "--add-scram", scram)
    with running(tmp_path, log_dir, installation.config) as daemon:
        use(installation, daemon)
        fail_to_log_in(installation, daemon.ready["listeners"]["SASL"])
        write_config(tmp_path, log_dir, installation.config)
        installation.call("doctor", "doctor", "--config", config_file)
        installation.call("doctor --json", "doctor", "--json", "--config", config_file)
        write_config(
            tmp_path, log_dir, installation.config | {"ssl.key.password": "", "node.id": "x"}
        )
        log = reload(daemon, "is not reloaded: ")
        exit_code, errors = daemon.stop()
        installation.outputs["log"] = (log + errors).encode()
    assert exit_code == 0
    break_configuration(installation, log_dir)
    follow_clusters(installation)
    installation.call("check-log", "check-log", log_dir)
    backup = tmp_path / "out.checkpoint"
    installation.call("backup", "backup", "--json", "--log-dir", log_dir, backup)
    installation.call("restore", "restore", "--json", backup, "--log-dir", tmp_path / "restored")
    assert b"acls_digest" in installation.outputs["restore"]
    assert len(installation.outputs) > 15
    assert b"failed authentication from" in installation.outputs["log"]
    assert installation.find(ignored=(*_inputs(tmp_path),)) == {}


def _inputs(folder: Path) -> list[str]:
    stores = [path.name for path in folder.glob("*.p12")]
    files = ("server.properties", "broker.properties", "imported", "audit.secret")
    return [*files, *stores, *(p.name for p in folder.glob("*.pem"))]


def reload(daemon: DaemonProcess, awaited: str) -> str:
    """Send SIGHUP, and return what is logged up to a line with this text."""
    assert daemon.process.stderr is not None
    daemon.process.send_signal(signal.SIGHUP)
    lines = []
    for line in daemon.process.stderr:
        lines.append(line)
        if awaited in line:
            break
    return "".join(lines)


@pytest.mark.parametrize("form", ["plain", "hex", "base64", "base64 after a byte"])
def test_every_form_of_a_secret_is_found(tmp_path: Path, form: str) -> None:
    """This checks the search itself."""
    installation = Installation(tmp_path)
    marker = installation.markers["JAAS password"]
    encoded = {
        "plain": marker.encode(),
        "hex": marker.encode().hex().encode(),
        "base64": base64.b64encode(marker.encode()),
        "base64 after a byte": base64.b64encode(b"\0" + marker.encode() + b"x"),
    }[form]
    installation.outputs["here"] = b"before " + encoded + b" after"
    assert installation.find(ignored=tuple(_inputs(tmp_path))) == {"here": ["JAAS password"]}
    with contextlib.suppress(KeyError):
        del installation.outputs["here"]
