"""``authorizerd acls`` against a server whose listeners have different security protocols."""

import io
import time
from pathlib import Path

from authorizerd.acl.as_of import AsOf
from authorizerd.cli.acls.command import run_acl_command
from authorizerd.cli.acls.runner import AclReader, Terminal
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from tests.conformance.acl_command_stories import Printed
from tests.support.certificates import Authority

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD = "TOP-SECRET"
JAAS = f"{PLAIN_LOGIN_MODULE} required"
USERS = f'{JAAS} user_alice="{PASSWORD}";'
"""A listener's line for PLAIN."""

_SECONDS_MAX = 2
_NO_LOG_IN = "enabled mechanisms are []"


def write_client_config(folder: Path, authority: Authority, protocol: str, more: str = "") -> Path:
    """Write the configuration of a client that may log in as alice with PLAIN."""
    config = folder / "client.properties"
    config.write_text(
        f"security.protocol={protocol}\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={JAAS} username="alice" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.ca_file}\n{more}"
    )
    return config


def list_acls(address: str, config: Path) -> Printed:
    """List the ACLs. Check that the command ends within two seconds and shows no password."""
    out, error = io.StringIO(), io.StringIO()
    terminal = Terminal(answers=io.StringIO(), out=out, error=error)
    words = ["--list", "--bootstrap-server", address, "--command-config", str(config)]
    started = time.monotonic()
    code = run_acl_command(words, terminal, open_log=_open_no_log)
    assert time.monotonic() - started < _SECONDS_MAX
    assert PASSWORD not in out.getvalue() + error.getvalue()
    return Printed(out=out.getvalue(), error=error.getvalue(), code=code)


def check_protocol(printed: Printed, listener: str, protocol: str) -> None:
    if listener == protocol:
        assert printed == Printed(out="", error="", code=0)
        return
    assert printed.code == 1
    assert _expected(listener, protocol) in printed.out
    assert printed.error.startswith("authorizerd: ")
    assert "--command-config" in printed.error


def new_scram_login(mechanism: str, password: str) -> str:
    """Return the properties of a client that logs in as alice with SCRAM."""
    line = f'{SCRAM_LOGIN_MODULE} required username="alice" password="{password}";'
    return f"sasl.mechanism={mechanism}\nsasl.jaas.config={line}"


def _expected(listener: str, protocol: str) -> str:
    has_tls, client_has_tls = listener.endswith("SSL"), protocol.endswith("SSL")
    if has_tls and not client_has_tls:
        return f"the listener expects SSL or SASL_SSL, but the client uses {protocol}"
    if has_tls == client_has_tls and protocol.startswith("SASL"):
        return _NO_LOG_IN
    return f"the listener expects {listener}, but the client uses {protocol}"


def _open_no_log(path: Path, as_of: AsOf | None) -> AclReader:
    raise AssertionError(f"{path} was opened")
