"""The archive format of an initial RAM disk: cpio "newc" (kernel: Documentation/driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

S_IFDIR = 0o040000
S_IFREG = 0o100000
S_IFLNK = 0o120000


@dataclass(frozen=True)
class Entry:
    """A file of the archive: `mode` with its type bits; `data` is a file's content or a link's target."""

    mode: int
    data: bytes = b""

    @property
    def is_directory(self) -> bool:
        return self.mode & 0o170000 == S_IFDIR

    @classmethod
    def file(cls, data: bytes, permissions: int = 0o755) -> Entry:
        return cls(S_IFREG | permissions, data)

    @classmethod
    def directory(cls) -> Entry:
        return cls(S_IFDIR | 0o755)

    @classmethod
    def link(cls, target: str) -> Entry:
        return cls(S_IFLNK | 0o777, target.encode())


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The archive of {path without leading slash: entry}; every directory comes before what is in it."""
    out = bytearray()
    for inode, path in enumerate(sorted(entries), start=1):
        _append(out, inode, path, entries[path])
    _append(out, 0, "TRAILER!!!", Entry(0))
    return bytes(out)


def _append(out: bytearray, inode: int, path: str, entry: Entry) -> None:
    name = path.encode() + b"\0"
    # inode mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
    out += bytes(-len(out) % 4)
    out += entry.data
    out += bytes(-len(out) % 4)
