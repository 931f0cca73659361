"""Write the manual page, the completions and the dashboard, which wheels install.

Git does not keep them. ``python -m tools.install_files [SOURCES]`` writes them into the sources
from which a wheel is built.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tools.dashboard import text
from tools.manual.documents import documents

DASHBOARD: Final = "ops/grafana/dashboards/authorizerd.json"


def write_install_files(sources: Path) -> None:
    """Write every file into ``sources``, a checkout or a copy of it."""
    for name, content in {**documents(), DASHBOARD: text()}.items():
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


if __name__ == "__main__":
    write_install_files(Path(*sys.argv[1:2]))
