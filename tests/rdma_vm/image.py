"""The guest's image: a kernel and an initial RAM disk, from Debian packages and the few files in guest/."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import packages
from .cache import lock
from .cpio import Entry, archive
from .errors import BuildError
from .kernel import Kernel, read_kernel

PACKAGES = (
    "perftest",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "coreutils",
    "dash",
    "grep",
    "sed",
    "util-linux",
    "busybox-static",
)
"""What the guest holds, besides what these depend on."""

_NOT_UNPACKED = re.compile(
    r"(perl|libperl|debconf|dpkg|usrmerge|adduser|passwd|libpam|libdb5|pci\.ids|mawk|install-info)[^/]*_"
)
"""Dependencies of the packages' installation, not of their programs."""

_DROPPED = re.compile(
    r"usr/(share|include|games|src|lib/(tc|systemd|x86_64-linux-gnu/(gconv|perl|xtables)))/|\.a$|etc/(init\.d|cron)"
)

_GUEST_FILES = Path(__file__).parent / "guest"
_SCRIPTS = ("attach", "join", "nodes", "neighbours", "processes", "listening")


@dataclass(frozen=True)
class Image:
    """A built image: the files that qemu starts, and an identity that changes with their content."""

    kernel: Path
    initrd: Path
    identity: str
    kernel_version: str
    perftest_version: str


def build(cache: Path) -> Image:
    """Builds the image into the cache folder and returns it. Takes about 10 s and 30 MB of downloads.

    Raises MissingDependencyError or BuildError. The old image stays in place until the new one is complete.
    """
    packages.require_programs(build=True)
    cache.mkdir(parents=True, exist_ok=True)
    with lock(cache), tempfile.TemporaryDirectory(dir=cache, prefix="build-") as name:
        work = Path(name)
        for left_over in set(cache.glob("build-*")) - {work}:  # of a build that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        kernel_deb = packages.download_kernel(work / "kernel")
        debs = packages.download(PACKAGES, work / "packages")
        kernel = read_kernel(kernel_deb)
        initrd = archive(_root(debs, kernel, _compile_agent(work)))
        (work / "vmlinux").write_bytes(kernel.elf)
        (work / "initrd.img").write_bytes(initrd)
        description = {
            "identity": hashlib.sha256(kernel.elf + initrd).hexdigest()[:16],
            "source": source_identity(),
            "kernel_version": _version_of([kernel_deb], "linux-image"),
            "perftest_version": _version_of(debs, "perftest"),
        }
        (work / "image.json").write_text(json.dumps(description, indent=2) + "\n")
        target = cache / "image"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for file in (
            "vmlinux",
            "initrd.img",
            "image.json",
        ):  # the description last: it says "complete"
            (work / file).rename(target / file)
    built = find(cache)
    assert built is not None
    return built


def ensure(cache: Path) -> Image:
    """The image in the cache folder; built when it is missing or of another version of this package."""
    packages.require_programs(build=False)
    return find(cache) or build(cache)


def find(cache: Path) -> Image | None:
    """The image in the cache folder, or None when there is none or it was built by another version of this package."""
    directory = cache / "image"
    try:
        description = json.loads((directory / "image.json").read_text())
    except (OSError, ValueError):
        return None
    if description.get("source") != source_identity():
        return None
    return Image(
        directory / "vmlinux",
        directory / "initrd.img",
        description["identity"],
        description["kernel_version"],
        description["perftest_version"],
    )


def source_identity() -> str:
    """Changes when a new build would give another image, apart from new versions of packages."""
    sources = [
        *sorted(_GUEST_FILES.iterdir()),
        Path(__file__),
        Path(__file__).with_name("kernel.py"),
    ]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _compile_agent(work: Path) -> bytes:
    binary = work / "agent"
    command = ["gcc", "-O2", "-static", "-s", "-o", str(binary), str(_GUEST_FILES / "agent.c")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(
            f"gcc could not build the guest's agent (is libc6-dev installed?):\n{done.stderr.strip()}"
        )
    return binary.read_bytes()


def _root(debs: list[Path], kernel: Kernel, agent: bytes) -> dict[str, Entry]:
    """The guest's root file system."""
    root: dict[str, Entry] = {}
    for deb in debs:
        if _NOT_UNPACKED.match(deb.name):
            continue
        for path, entry in packages.contents(deb):
            if _DROPPED.search(path + ("/" if entry.is_directory else "")):
                continue
            if entry.is_directory and path in root:
                continue  # a directory of one package may be a link of another
            root[path] = entry
    for name, module in kernel.modules:
        root[f"modules.d/{name}.ko"] = Entry.file(module)
    load = "".join(f"/modules.d/{name}.ko\n" for name, _unused in kernel.modules)
    root["modules"] = Entry.file(load.encode(), 0o644)
    root["init"] = Entry.file(_script("init"))
    root["usr/lib/rdma_vm/agent"] = Entry.file(agent)
    for script in _SCRIPTS:
        root[f"usr/lib/rdma_vm/{script}"] = Entry.file(_script(script))
    root["etc/passwd"] = Entry.file(
        b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n", 0o644
    )
    root["etc/group"] = Entry.file(b"root:x:0:\nuser:x:1000:\n", 0o644)
    root["etc/hosts"] = Entry.file(b"127.0.0.1 localhost\n", 0o644)
    root["etc/nsswitch.conf"] = Entry.file(b"hosts: files\npasswd: files\ngroup: files\n", 0o644)
    for path in list(root):
        while "/" in path:
            path = path.rpartition("/")[0]
            root.setdefault(path, Entry.directory())
    return root


def _script(name: str) -> bytes:
    """A script of guest/. There its first line names the interpreter behind `#:`; only in the guest is it a program."""
    return (_GUEST_FILES / name).read_bytes().replace(b"#: ", b"#!", 1)


def _version_of(debs: list[Path], package: str) -> str:
    """The version in the name of a package's file, e.g. perftest_4.5+0.17-1_amd64.deb."""
    return next(deb.name.split("_")[1] for deb in debs if deb.name.startswith(package))
