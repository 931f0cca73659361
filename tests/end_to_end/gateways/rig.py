"""A gateway as its page configures it, between a client and an API that records, with a daemon."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Acl
from tests.end_to_end.documents import ROOT, blocks_of, commands_of
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.gateways.api import ROUTES, Api, Question
from tests.end_to_end.gateways.gateway import DAEMON, PAGE, PROGRAMS, Gateway
from tests.end_to_end.page_shell import Names, Shell, save_files
from tests.support.daemon_process import DaemonProcess, connect, new_log, running, wait_until
from tests.support.forked_command import program_folder
from tests.support.kafka_connection import EVERY_ACL, KafkaConnection

_AS_ROOT: Final = {"events {}": "user root;\nevents {}"}
"""As root, nginx changes to another user, who may not read the test's files."""
NO_CHANGES: Final[Mapping[str, str]] = {}
_AUDIT: Final = "audit.log"
ALICE, LOCAL = "User:alice", "127.0.0.1"


def names_for(
    gateway: Gateway, ports: Ports, changes: Mapping[str, str] = NO_CHANGES
) -> Names:  # fmt: skip
    """Return what differs from the page: the ports, how `routes.yaml` begins, and ``changes``."""
    port = ports.to_real(":8181").removeprefix(":")
    real = {"gateway: nginx": gateway.kind, "port_value: 8181": f"port_value: {port}", **changes}
    if os.geteuid() == 0:
        real |= _AS_ROOT
    return Names(real, ports)


def accepts(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return False
    return True


def commands() -> str:
    """Return the `PATH` of a page's commands."""
    return f"{program_folder()}{os.pathsep}{PROGRAMS}"


class Rig:
    """A gateway that runs, the API behind it, and a daemon that may end and start again."""

    def __init__(self, folder: Path, gateway: Gateway, api: Api, address: str, port: str) -> None:
        self.gateway: Final = gateway
        self.api: Final = api
        self.address: Final = address
        self._folder: Final = folder
        self._port: Final = port
        self._log: Final = new_log(folder)

    @contextmanager
    def daemon(self, *acls: Acl, **audit: str) -> Iterator[DaemonProcess]:
        """Run the daemon with only these ACLs; the keyword ``x`` sets ``authorizerd.audit.x``."""
        audit = {"format": "json", "level": "DEBUG", "log": str(self._folder / _AUDIT)} | audit
        config = {
            "super.users": "User:ANONYMOUS",
            "authorizerd.decision.http": f"https://127.0.0.1:{self._port}",
            "authorizerd.decision.stream": "",
            "authorizerd.http.ssl.keystore.location": str(self._folder / "keystore.pem"),
            "authorizerd.http.ssl.client.auth": "requested",
            "authorizerd.http.ssl.truststore.location": str(self._folder / "ca.pem"),
            "authorizerd.http.ssl.principal.mapping.rules": "RULE:^CN=([^,]+)(,.*)?$/$1/,DEFAULT",
            "authorizerd.tokens.file": str(self._folder / "tokens"),
            "authorizerd.callers.ask": "Service:gateway;User:gateway",
            "authorizerd.routes.file": str(self._folder / "table.yaml"),
            **{f"authorizerd.audit.{key}": value for key, value in audit.items()},
        }
        (self._folder / "table.yaml").write_text(f"{self.gateway.kind}\n{ROUTES}")
        with running(self._folder, self._log, config) as daemon:
            with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as admin:
                admin.delete(EVERY_ACL)
                assert admin.create(*acls) == [None] * len(acls)
            yield daemon

    @contextmanager
    def changed(self, daemon: DaemonProcess, file: str, pattern: str, new: str) -> Iterator[None]:
        """Let the daemon read a file with another text, and then the file as it was."""
        path = self._folder / file
        text = path.read_text()
        path.write_text(re.sub(pattern, new, text))
        assert path.read_text() != text
        daemon.reload()
        yield
        path.write_text(text)
        daemon.reload()

    def allowed(self) -> set[Question]:
        """Return the questions that the daemon has allowed for alice from 127.0.0.1."""
        lines = map(json.loads, (self._folder / _AUDIT).read_text().splitlines())
        return {
            (line["operation"], line["resource_type"], line["resource_name"])
            for line in lines
            # A line about a change of ACLs has no decision.
            if (line.get("principal"), line.get("host"), line.get("allowed"))
            == (ALICE, LOCAL, True)
        }


@contextmanager
def running_gateway(
    folder: Path, gateway: Gateway, changes: Mapping[str, str] = NO_CHANGES
) -> Iterator[Rig]:
    """Start a gateway by the commands of its page, and an API that records what reaches it.

    Args:
        changes: what replaces texts of the page.
    """
    ports = Ports()
    names = names_for(gateway, ports, changes)
    page = [*blocks_of(ROOT / "docs" / PAGE)]
    save_files(page, folder, names)
    shown = [block for block in page if block.language == "console"]
    credentials, *_ = (block for block in shown if block.section == DAEMON)
    start, *_ = (block for block in shown if block.section == gateway.section)
    address = ports.to_real("127.0.0.1:8080")
    api = Api(int(ports.to_real(":8081").removeprefix(":")))
    with api.running(), Shell(folder, PATH=commands()) as shell:
        for command in (*commands_of(credentials.text), *commands_of(start.text)):
            printed, code = shell.run(names.to_real(command.text))
            assert (printed, code) == ("", 0), (command, printed)
        wait_until(lambda: accepts(address), f"{gateway.section} listens")
        port = ports.to_real(":8181").removeprefix(":")
        yield Rig(folder, gateway, api, address, port)
