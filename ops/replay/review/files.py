"""Write the files of a review: for each owner a page and a sheet, and a manifest of them all.

**Invariant:** the manifest is written last. So a directory with a manifest has every file that it
names. Equal inputs give equal bytes: no file has the time at which it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from authorizerd.acl.notes import is_note
from authorizerd.management.plan.state import digest_acls
from authorizerd.management.review.sheet import write_sheet
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.report.rendering import render_page
from authorizerd.replay.review.evidence import Evidence
from authorizerd.replay.review.findings import Group, Page, Reviewed, assess
from authorizerd.replay.text import encode_json, format_count, format_time, write_file

MANIFEST_NAME: Final = "review.json"
VERSION: Final = 1


def write_review(
    out: Path, pages: Sequence[Page], reviewed: Reviewed, evidence: Evidence
) -> Iterator[str]:
    """Write all files into a directory, which is created; yield lines about them.

    Raises:
        TrafficError: one cannot be written.
    """
    state = digest_acls(item.acl for item in reviewed.acl_set.acls)
    window = tuple(map(format_time, evidence.window or ()))
    unowned = sum(len(page.items) for page in pages if page.is_unowned)
    totals = {
        "Notes of authorizerd, left out": sum(is_note(each.acl) for each in reviewed.acl_set.acls),
        "ACLs without an owner": unowned,
    }
    owners: list[dict[str, object]] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for page in pages:
            findings = list(assess(page, reviewed, evidence))
            yield f"{page.name}: {format_count(len(page.items), 'ACL')}"
            yield from (f"    {finding.text}" for finding in findings)
            sheet = write_sheet(state, [item.row for item in page.items])
            groups = {
                group: [item for item in page.items if item.group is group] for group in Group
            }
            html = render_page(
                "review.html.jinja",
                has_script=False,
                findings=findings,
                page=page,
                groups=groups,
                reviewed=reviewed,
                window=window,
                totals=totals,
                record=evidence.facts,
                state=state,
                sheet_sha256=_hash(sheet),
            )
            files = {f"{page.name}.html": html, f"{page.name}.csv": sheet}
            for name, text in files.items():
                write_file(out / name, text)
            owners.append(
                {
                    "owner": None if page.is_unowned else page.name,
                    "acls": len(page.items),
                    **{group.name.lower(): len(items) for group, items in groups.items()},
                    "files": {name: f"sha256:{_hash(text)}" for name, text in files.items()},
                }
            )
        manifest = {
            "format": "authorizerd-access-review",
            "version": VERSION,
            "source": reviewed.source,
            "offset": reviewed.acl_set.offset,
            "acls": len(reviewed.acl_set.acls),
            "digest": state,
            "kafka_release": reviewed.release,
            "settings": reviewed.settings,
            "window": window,
            "failure": evidence.failure or None,
            "limits": evidence.limits,
            "record": evidence.facts,
            "logs": evidence.files,
            "owners": owners,
        }
        write_file(out / MANIFEST_NAME, encode_json(manifest))
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
    yield f"wrote {out}: a page and a CSV for each, and {MANIFEST_NAME}"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
