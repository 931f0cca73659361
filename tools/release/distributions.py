"""Build the packages for Debian and for distributions with rpm, by ``dpkg-deb`` and ``rpmbuild``.

Neither needs root. ``ops/packages`` has their descriptions, and the scripts that both share.

**Invariant:** the bytes depend only on the sources, the version's date, and the two programs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tools.release.bundle import CONFIGURATION, MACHINES, lay_out, normalize_tree
from tools.release.packages import UMASK, Release
from tools.release.versions import in_package_form

_SCRIPTS: Final = {
    "preinst": "before-install",
    "postinst": "after-install",
    "prerm": "before-remove",
    "postrm": "after-remove",
}
"""dpkg's names of the scripts in ``ops/packages``."""


class Builders(NamedTuple):
    """The programs that build packages; None if one is missing, which a trial permits."""

    dpkg_deb: str | None
    rpmbuild: str | None


def build_distribution_packages(
    source: Path,
    wheel: Path,
    out: Path,
    release: Release,
    builders: Builders,
    machines: Mapping[str, str] = MACHINES,
) -> None:
    """Write a package of each kind for each architecture into ``out``.

    Args:
        source: the files of a commit, with ``ops/packages``.
        machines: the architectures, as in ``MACHINES``.

    Raises:
        CalledProcessError: a library cannot be downloaded, or a program finds a fault.
    """
    for architecture, machine in machines.items():
        with TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            lay_out(source, wheel, machine, tree)
            normalize_tree(tree, release.epoch)
            if builders.rpmbuild is not None:
                _build_rpm(source, tree, out, release, machine, builders.rpmbuild)
            if builders.dpkg_deb is not None:
                _build_deb(source, tree, out, release, architecture, builders.dpkg_deb)


def _build_deb(
    source: Path, tree: Path, out: Path, release: Release, architecture: str, dpkg_deb: str
) -> None:
    """Write the package; the tree becomes Debian's."""
    completions = tree / "usr/share/zsh"
    (completions / "site-functions").rename(completions / "vendor-completions")
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    control = tree / "DEBIAN"
    control.mkdir()
    control.chmod(0o755)
    version = in_package_form(release.version)
    _fill_in(
        source / "ops/packages/control",
        control / "control",
        version=version,
        architecture=architecture,
        kib=sum(-(-path.stat().st_size // 1024) for path in files),
        maintainer=_read_maintainer(source),
    )
    (control / "conffiles").write_text("".join(f"/{name}\n" for name in CONFIGURATION))
    (control / "md5sums").write_text("".join(_md5_line(tree, path) for path in files))
    for name, script in _SCRIPTS.items():
        shutil.copyfile(source / "ops/packages" / script, control / name)
    for path in control.iterdir():
        path.chmod(0o755 if path.name in _SCRIPTS else 0o644)
    package = out / f"authorizerd_{version}_{architecture}.deb"
    _run(
        # With xz, the bytes would depend on the number of threads.
        *(dpkg_deb, "--root-owner-group", "-Zgzip", "--build", tree, package),
        epoch=release.epoch,
    )


def _build_rpm(
    source: Path, tree: Path, out: Path, release: Release, machine: str, rpmbuild: str
) -> None:
    with TemporaryDirectory() as folder:
        top = Path(folder)
        files = top / "files"
        files.write_text("".join(_list_files(tree)))
        spec = top / "authorizerd.spec"
        _fill_in(
            source / "ops/packages/authorizerd.spec",
            spec,
            version=in_package_form(release.version),
            tree=tree,
            scripts=source / "ops/packages",
            files=files,
            maintainer=_read_maintainer(source),
        )
        _run(
            *(rpmbuild, "-bb", "--quiet", "--target", f"{machine}-linux", spec),
            *("--define", f"_topdir {top}", "--define", f"_rpmdir {out}"),
            *("--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"),
            epoch=release.epoch,
        )


def _list_files(tree: Path) -> list[str]:
    """Return the lines of the spec for files, and for the folders that belong to the package."""
    lines = []
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        mode = f"{path.lstat().st_mode & 0o7777:04o}"
        if path.is_symlink():
            lines.append(f'"/{name}"\n')
        elif path.is_file():
            kind = "%config(noreplace) " if name in CONFIGURATION else ""
            lines.append(f'{kind}%attr({mode}, root, root) "/{name}"\n')
        elif "authorizerd" in name:
            lines.append(f'%dir %attr({mode}, root, root) "/{name}"\n')
    return lines


def _fill_in(template: Path, to: Path, **values: object) -> None:
    to.write_text(Template(template.read_text()).substitute(values))


def _read_maintainer(source: Path) -> str:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    return str(project["authors"][0]["name"])


def _md5_line(tree: Path, path: Path) -> str:
    """Return a line by which ``dpkg --verify`` finds damage; it protects from nothing else."""
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    return f"{digest}  {path.relative_to(tree)}\n"


def _run(*command: str | Path, epoch: int) -> None:
    subprocess.run(  # noqa: S603 - programs that the caller chose
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        umask=UMASK,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"},
    )
