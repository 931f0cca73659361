"""Generate the README of the Helm chart from the comments of its values.

Run ``python -m tools.chart_reference > ops/helm/README.md`` to update it; a test compares the two.
A comment that begins with ``# --`` describes the value below it.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.site.places import link_pages

_CHART: Final = Path(__file__).parents[1] / "ops" / "helm"
_WIDTH: Final = 110
_SHOWN_MAX: Final = 80
"""Longer defaults are shown only in values.yaml."""

_KEY: Final = re.compile(r"( *)(\w+):")
_HEAD: Final = """\
# authorizerd

This chart runs authorizerd, {description}, in Kubernetes: one pod with a log
of its own, or any number of pods that follow a Kafka cluster.

```console
$ kubectl create namespace authorizerd
$ kubectl --namespace authorizerd create secret generic authorizerd \\
    --from-file tokens --from-file listener.properties
$ helm install authorizerd CHART --namespace authorizerd --set image.repository=REGISTRY/authorizerd
```

- The Secret has the tokens of callers, and the users of the Kafka listener with all other secret
  settings. The chart creates none.
- [The documentation]({home}container/#kubernetes) explains
  both files, TLS, OpenShift, and monitoring.
- The chart rejects values that it does not know, secrets in `settings`, and ports that the Service
  does not use.

## Values

"""


def write_readme() -> str:
    """Return the whole README."""
    chart = yaml.safe_load((_CHART / "Chart.yaml").read_text())
    text = link_pages((_CHART / "values.yaml").read_text(), chart["home"])
    schema = json.loads((_CHART / "values.schema.json").read_text())
    items = list_values(yaml.safe_load(text), schema, read_comments(text))
    return _HEAD.format(**chart) + "".join(items)


def read_comments(text: str) -> Mapping[str, str]:
    """Return the comment of each value that has one, by the value's path with dots."""
    found: dict[str, str] = {}
    comment: list[str] = []
    parents: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = [stripped.removeprefix("# -- ")]
        elif stripped.startswith("#") and comment:
            comment.append(stripped.removeprefix("#").strip())
        elif (key := _KEY.match(line)) is not None:
            parents = [*parents[: len(key[1]) // 2], key[2]]
            if comment:
                found[".".join(parents)] = " ".join(comment)
            comment = []
    return found


def list_values(
    values: Mapping[str, Any],
    schema: Mapping[str, Any],
    comments: Mapping[str, str],
    place: str = "",
) -> Iterator[str]:
    """Yield a list item for each value, and for each group of values with a comment."""
    for name, value in values.items():
        path, known = f"{place}{name}", schema["properties"][name]
        is_group = known.get("additionalProperties") is False
        comment = comments.get(path, "")
        if comment or not is_group:
            yield _item(path, comment, None if is_group else json.dumps(value))
        if is_group:
            yield from list_values(value, known, comments, f"{path}.")


def _item(path: str, comment: str, default: str | None) -> str:
    remark = ""
    if default is not None:
        is_short = len(default) <= _SHOWN_MAX
        remark = f" (default `{default}`)" if is_short else " (default: see values.yaml)"
    item = f"- **`{path}`**{remark}" + (f": {comment}" if comment else "")
    wrapped = textwrap.wrap(
        item, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*wrapped, ""])


if __name__ == "__main__":
    sys.stdout.write(write_readme())
