"""A real OpenLDAP server with its own configuration, database and certificates, for a test."""

import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import trustme

from tests.support.daemon_process import wait_until

PROGRAMS = (Path("/usr/sbin/slapd"), Path("/usr/sbin/slapadd"))
SUFFIX = "dc=example"
PASSWORD = "of the tests"

_CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
TLSCACertificateFile {folder}/ca.pem
TLSVerifyClient try
{limits}
database mdb
maxsize 1073741824
suffix "dc=example"
directory {folder}/db
index objectClass eq
"""


def skip_without_slapd() -> None:
    if not all(map(Path.exists, PROGRAMS)) or find_spec("ldap") is None:
        pytest.skip("slapd or python-ldap is not installed")


def entry(name: str, *classes: str, **attributes: str | Iterable[str]) -> str:
    """Return the LDIF of an entry below the suffix."""
    lines = [f"dn: {name},{SUFFIX}" if name else f"dn: {SUFFIX}"]
    lines += [f"objectClass: {each}" for each in classes]
    for key, values in attributes.items():
        lines += [f"{key}: {value}" for value in ([values] if isinstance(values, str) else values)]
    return "\n".join(lines) + "\n"


def person(uid: str, name: str | None = None) -> str:
    return entry(name or f"uid={uid},ou=people", "inetOrgPerson", uid=uid, cn="x", sn="x")


def group(name: str, *members: str) -> str:
    """Return the LDIF of a group. Members without a comma are people."""
    names = [each if "," in each else f"uid={each},ou=people,{SUFFIX}" for each in members]
    return entry(f"cn={name},ou=groups", "groupOfNames", cn=name, member=names)


@contextmanager
def running_slapd(folder: Path, entries: Iterable[str], limits: str = "") -> Iterator[int]:
    """Run a server with these entries; yield its port. Files for clients are in ``folder``."""
    skip_without_slapd()
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("server", "client"):
        issued = ca.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        (folder / f"{name}.key").chmod(0o600)
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "password").chmod(0o640)
    (folder / "ca.pem").chmod(0o644)
    shutil.rmtree(folder / "db", ignore_errors=True)
    (folder / "db").mkdir()
    config = folder / "slapd.conf"
    config.write_text(_CONFIG.format(folder=folder, limits=limits))
    fixed = (
        entry("", "dcObject", "organization", o="example", dc="example"),
        *(entry(f"ou={each}", "organizationalUnit", ou=each) for each in ("people", "groups")),
        entry("cn=reader", "organizationalRole", "simpleSecurityObject", cn="reader",
              userPassword=PASSWORD),
    )  # fmt: skip
    ldif = folder / "entries.ldif"
    ldif.write_text("\n".join((*fixed, *entries)))
    subprocess.run([PROGRAMS[1], "-q", "-f", config, "-l", ldif], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: list[str | Path] = [
        PROGRAMS[0],
        "-d",
        "0",
        "-f",
        config,
        "-h",
        f"ldaps://127.0.0.1:{port}/",
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _is_open(port), "slapd listens")
        yield port
    finally:
        process.terminate()
        process.wait()


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def groups_file(folder: Path, port: int, **changes: str) -> Path:
    """Write a file of groups that names a server, with other values of some keys; "" omits one."""
    keys = {
        "url": f"ldaps://127.0.0.1:{port}",
        "ca": f"{folder}/ca.pem",
        "bind_dn": f"cn=reader,{SUFFIX}",
        "password_file": f"{folder}/password",
        "groups": f'{{base: "ou=groups,{SUFFIX}", filter: (objectClass=groupOfNames)}}',
        "people": f'{{base: "ou=people,{SUFFIX}", filter: (objectClass=inetOrgPerson)}}',
        "principal": "User:{uid}",
        **changes,
    }
    path = folder / "groups.yaml"
    lines = (f"  {key}: {value}\n" for key, value in keys.items() if value)
    path.write_text(f"set: payments\nldap:\n{''.join(lines)}")
    return path
