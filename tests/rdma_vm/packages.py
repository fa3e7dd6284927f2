"""Debian packages as a source of files: downloaded by apt, read by dpkg-deb, never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from .cpio import S_IFREG, Entry
from .errors import BuildError, MissingDependencyError

HOST_PACKAGES = "qemu-system-x86 seabios zstd gcc libc6-dev"
"""What the host needs; of these, only the programs of HOST_PROGRAMS are looked for."""

HOST_PROGRAMS = ("qemu-system-x86_64", "zstd")
"""Needed to run a guest."""

BUILD_PROGRAMS = ("apt-get", "apt-cache", "dpkg-deb", "gcc")
"""Needed besides to build its image."""


def missing_programs(*, build: bool = True) -> list[str]:
    """The names of the programs of the host that are not found on PATH."""
    wanted = HOST_PROGRAMS + (BUILD_PROGRAMS if build else ())
    return [name for name in wanted if shutil.which(name) is None]


def require_programs(*, build: bool) -> None:
    """Raises MissingDependencyError, which names what is missing and the command that installs it."""
    missing = missing_programs(build=build)
    if not missing:
        return
    if {"apt-get", "dpkg-deb"} & set(missing):
        raise MissingDependencyError(
            f"not found: {', '.join(missing)}. The guest is built from Debian packages, on Debian."
        )
    raise MissingDependencyError(
        f"not found: {', '.join(missing)}. "
        f"Install with: apt-get install --no-install-recommends {HOST_PACKAGES}"
    )


def download(names: tuple[str, ...], directory: Path) -> list[Path]:
    """Downloads packages with all they depend on, and returns the .deb files.

    The host's own installed packages do not count, so the set is complete. Needs package lists (`apt-get update`).
    """
    (directory / "archives" / "partial").mkdir(parents=True)
    (directory / "status").touch()
    options = {
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory,
        "Dir::Cache::archives": directory / "archives",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        "Acquire::Retries": "3",
        # The host's dpkg database is not touched, and need not be ours to lock.
        "Debug::NoLocking": "true",
    }
    arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    _apt(["apt-get", "-qqy", *arguments, "--download-only", "install", *names])
    return sorted((directory / "archives").glob("*.deb"))


def download_kernel(directory: Path) -> Path:
    """Downloads the package that Debian's meta package linux-image-amd64 stands for, alone."""
    depends = _apt(["apt-cache", "depends", "linux-image-amd64"])
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise BuildError(
            "apt knows no linux-image-amd64. The guest is built on Debian (amd64); run apt-get update first."
        )
    directory.mkdir(parents=True)
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    _apt(["apt-get", "-qq", *sandbox, "-o", "Acquire::Retries=3", "download", found[1]], directory)
    return next(directory.glob("*.deb"))


def _apt(command: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(
            f"{' '.join(command[:2])} failed ({done.returncode}): {done.stderr.strip()}\n"
            "If packages are not found or out of date, run apt-get update."
        )
    return done.stdout


def contents(deb: Path) -> Iterator[tuple[str, Entry]]:
    """The files of a package, as (path without leading slash, entry)."""
    process = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    hard_links: dict[str, Entry] = {}
    with process.stdout, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            if member.isdir():
                entry = Entry.directory()
            elif member.issym():
                entry = Entry.link(member.linkname)
            elif member.islnk():
                entry = hard_links[member.linkname.removeprefix("./")]
            elif member.isreg():
                file = tar.extractfile(member)
                assert file is not None
                entry = Entry(S_IFREG | member.mode & 0o777, file.read())
                hard_links[path] = entry
            else:
                continue
            if path:
                yield path, entry
    if process.wait() != 0:
        raise BuildError(f"{deb.name} is no package that dpkg-deb can read")
