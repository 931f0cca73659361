"""Texts that are not read as ACLs, each with a remedy, and other resources of Kubernetes.

``NEXT_STEPS`` is the only list of them, for errors and docs/acl-formats.md.

**Invariant:** an unread resource of Kubernetes that may grant access is an error. Otherwise its
access would seem not to exist, and a plan would delete it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.management.formats.model import AclTextError, Loss
from authorizerd.management.formats.values import Value, check_text

_TERRAFORM: Final = (
    "run terraform plan -out tfplan && terraform show -json tfplan, and pass the output"
)
LIST_STEP: Final = "pass the output of kafka-acls --list"


class NextStep(NamedTuple):
    """A kind of text that is not read.

    Attributes:
        what: its name.
        step: what to do.
        mark: a pattern found in such a text. is_certain: False if other kinds of text may have the
            mark too.
    """

    what: str
    step: str
    mark: re.Pattern[str]
    is_certain: bool = True


NEXT_STEPS: Final = (
    NextStep(
        "the state file of Terraform",
        "run terraform show -json, and pass the output",
        re.compile(r'\A\s*\{(?=.*"terraform_version"\s*:)(?=.*"lineage"\s*:)', re.DOTALL),
    ),
    NextStep("the log of terraform plan -json", _TERRAFORM, re.compile(r'\A\s*\{\s*"@level"')),
    NextStep(
        "the text that terraform plan prints",
        _TERRAFORM,
        re.compile(r"^(?:Terraform|OpenTofu) (?:used the selected|will perform)", re.MULTILINE),
    ),
    NextStep(
        "a saved plan of Terraform, or another zip file",
        "run terraform show -json FILE, and pass the output",
        re.compile(r"\APK\x03\x04"),
    ),
    NextStep("a file of gzip", "decompress it", re.compile(r"\A\x1f\x8b")),
    NextStep(
        "a text in UTF-16, as > of Windows PowerShell writes",
        "write it as UTF-8, with Out-File -Encoding utf8",
        re.compile(r"\A(?:\xff\xfe|\xfe\xff)"),
    ),
    NextStep(
        "a file of Terraform's language (*.tf)",
        _TERRAFORM,
        re.compile(
            r'[a-z](?: +"[^"\n]*"){1,2} *\{'
            r"|^(?:check|import|inputs|locals|moved|removed|terraform) *=? *\{|^\w+ *= *[\[{]",
            re.MULTILINE,
        ),
    ),
    NextStep(
        "the JSON of one znode, which does not name its resource",
        "run acls export --from zookeeper://HOST:PORT, or make a dump: a line "
        '{"path": …, "data": …} for each znode',
        re.compile(
            r'\A\s*\{\s*"(?:version"\s*:\s*[0-9]+\s*,\s*"acls|acls"\s*:\s*\[.*"version)"', re.DOTALL
        ),
    ),
    NextStep(
        "the output of kafka-acls --add or --remove",
        LIST_STEP,
        re.compile(r"^[ \t]*(?:Adding|Removing) ACLs for resource `", re.MULTILINE),
    ),
    NextStep(
        "a file of Pulumi",
        f"run pulumi up, and {LIST_STEP}",
        re.compile(
            r'"urn:pulumi:|\A\s*\{\s*"version":[^{}]*"deployment":|^runtime *:', re.MULTILINE
        ),
        is_certain=False,
    ),
    NextStep(
        "the output of confluent kafka acl list, which names no hosts",
        LIST_STEP,
        re.compile(r"^ *Principal +\| *Permission +\|", re.MULTILINE),
    ),
    NextStep(
        "a plan of kafka-gitops",
        "pass its state file",
        re.compile(r'\A\s*\{\s*"(?:topicPlans|aclPlans)"\s*:'),
    ),
    NextStep(
        "Julie's file of custom roles",
        "append it to its topology, after a line with ---",
        re.compile(r"^roles\s*:", re.MULTILINE),
        is_certain=False,
    ),
    NextStep(
        "a template with {{ }}, such as Helm's",
        "run helm template, and pass the output",
        re.compile(r"\{\{"),
        is_certain=False,
    ),
    NextStep(
        "a text with variables such as ${TEAM}",
        "replace them first, for example by envsubst",
        re.compile(r"\$\{"),
        is_certain=False,
    ),
)

_HEAD_BYTES: Final = 1000
_PLACEHOLDER: Final = re.compile(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}")


def find_step(text: str) -> NextStep | None:
    """Return the kind of a text that could not be read; None if it is unknown."""
    return next((next_step for next_step in NEXT_STEPS if next_step.mark.search(text)), None)


def decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = "not valid UTF-8"
        step = find_step(data[:_HEAD_BYTES].decode("latin-1"))
        if step and step.is_certain:
            reason = f"{step.what} is not read: {step.step}"
        raise AclTextError(f"byte {error.start}", reason) from error


def find_placeholder(name: str) -> str | None:
    """Return the first placeholder in a name, which a tool should have replaced, or None."""
    found = _PLACEHOLDER.search(name)
    return None if found is None else found[0]


_STRIMZI: Final = re.compile(r"[a-z]+\.strimzi\.io")
_OWN_GROUPS: Final = re.compile(r"[a-z]*|[a-z.]+\.k8s\.io")
"""The groups of Kubernetes itself: those without a dot, such as ``apps``, and ``….k8s.io``."""
_KUSTOMIZATION: Final = "Kustomization"
_ACCESS_KINDS: Final = re.compile(r"acl|auth|access|grant|permission|principal|role|user")
_ACCESS_KEYS: Final = re.compile(r"acls?|.*grants?|operations?|permissions?|principals?")


def pass_over(place: str, kind: str, resource: dict[str, Value]) -> Iterator[Loss]:
    """Yield a loss if it is unknown whether a resource of another kind than KafkaUser has ACLs.

    Strimzi's and Kubernetes' own resources cause no loss.
    """
    version = check_text(f"{place}.apiVersion", resource.get("apiVersion"))
    group, _, _ = version.rpartition("/")
    if kind == _KUSTOMIZATION:
        raise AclTextError(
            place, "expected the resources themselves: pass the output of kubectl kustomize"
        )
    if _STRIMZI.fullmatch(group) or _OWN_GROUPS.fullmatch(group):
        return
    if _ACCESS_KINDS.search(ascii_lower(kind)) or _has_access_key(resource):
        raise AclTextError(
            place,
            f"not a KafkaUser of Strimzi: a resource of kind {kind} and apiVersion {version} is "
            f"not read, and may have ACLs: apply it, and {LIST_STEP}",
        )
    yield Loss(None, f"{place}: a resource of kind {kind} is not read", is_document=True)


def _has_access_key(value: Value) -> bool:
    if isinstance(value, list):
        return any(map(_has_access_key, value))
    return isinstance(value, dict) and any(
        _ACCESS_KEYS.fullmatch(ascii_lower(str(key))) or _has_access_key(each)
        for key, each in value.items()
    )
