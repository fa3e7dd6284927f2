"""The parts of the build that need no packages, and the errors that name what is missing."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import pytest
import rdma_vm
from rdma_vm import __main__ as command_line
from rdma_vm import image, packages, shape, snapshot
from rdma_vm.cpio import Entry, archive
from rdma_vm.kernel import decompress_image, loading_order


def members(data: bytes) -> list[tuple[str, int, bytes]]:
    """Reads a newc archive, by the format's description."""
    found, at = [], 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * k : at + 14 + 8 * k], 16) for k in range(13)]
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        at = (at + 110 + fields[11] + 3) // 4 * 4
        content = data[at : at + fields[6]]
        at = (at + fields[6] + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(data)
            return found
        found.append((name, fields[1], content))


def test_archive_holds_files_links_and_directories_in_order() -> None:
    entries = {
        "d/f": Entry.file(b"12345", 0o640),
        "d": Entry.directory(),
        "l": Entry.link("d/f"),
    }
    assert members(archive(entries)) == [
        ("d", 0o040755, b""),
        ("d/f", 0o100640, b"12345"),
        ("l", 0o120777, b"d/f"),
    ]


def boot_image(payload: bytes, setup_sectors: int) -> bytes:
    head = bytearray(512 * ((setup_sectors or 4) + 1))
    head[0x1F1] = setup_sectors
    struct.pack_into("<II", head, 0x248, 16, len(payload))
    return bytes(head) + bytes(16) + payload + b"after"


@pytest.mark.parametrize("setup_sectors", [0, 4, 27])
@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress])
def test_kernel_is_taken_out_of_its_boot_image(compress, setup_sectors: int) -> None:
    elf = b"\x7fELF" + bytes(range(256)) * 9
    payload = compress(elf) + struct.pack("<I", len(elf))
    assert decompress_image(boot_image(payload, setup_sectors)) == elf


def test_unknown_compression_is_named() -> None:
    with pytest.raises(rdma_vm.BuildError, match=r"LZ4!"):
        decompress_image(boot_image(b"LZ4!data", 4))


def module(*depends: str) -> bytes:
    return b"ELF\0license=GPL\0depends=" + ",".join(depends).encode() + b"\0name=x\0"


def test_modules_load_after_what_they_need() -> None:
    files = {
        "rdma_rxe": module("ib-core", "udp_tunnel"),
        "ib_core": module(),
        "udp_tunnel": module("ib_core"),
        "unwanted": module(),
    }
    names = [name for name, _ in loading_order(["rdma_rxe", "built_in", "ib_core"], files)]
    assert names == ["ib_core", "udp_tunnel", "rdma_rxe"]


def test_missing_programs_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"apt-get", "apt-cache", "dpkg-deb", "gcc"}
    monkeypatch.setattr(packages.shutil, "which", lambda name: name if name in there else None)
    assert rdma_vm.missing_programs() == ["qemu-system-x86_64", "zstd"]
    with pytest.raises(
        rdma_vm.MissingDependencyError, match=r"qemu-system-x86_64, zstd.*apt-get install.*gcc"
    ):
        packages.require_programs(build=True)


def test_without_apt_the_error_says_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    with pytest.raises(rdma_vm.MissingDependencyError, match="on Debian"):
        packages.require_programs(build=True)


def test_a_failing_apt_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "apt-get"
    fake.write_text("#!/bin/sh\necho 'E: Unable to locate package perftest' >&2\nexit 100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(rdma_vm.BuildError, match=r"locate package perftest(.|\n)*apt-get update"):
        packages.download(("perftest",), tmp_path / "work")


def test_an_image_of_other_sources_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "image.json").write_text('{"source": "old"}')
    assert image.find(tmp_path) is None
    assert image.find(tmp_path / "nowhere") is None


@pytest.mark.parametrize("nodes", [0, 33])
def test_number_of_nodes_is_bounded(nodes: int, tmp_path: Path) -> None:
    for kind in (rdma_vm.Guest, rdma_vm.GuestGroup):
        with pytest.raises(ValueError, match="nodes"):
            kind(nodes, tmp_path)


def test_snapshots_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "qemu_version", lambda: "QEMU 1")
    built = rdma_vm.Image(Path("/a/k"), Path("/a/i"), "id", "1", "2")
    moved = rdma_vm.Image(Path("/b/k"), Path("/b/i"), "id", "1", "2")
    newer = rdma_vm.Image(Path("/a/k"), Path("/a/i"), "other", "1", "2")
    two, three = (shape.Shape(nodes, 0, "tcg") for nodes in (2, 3))

    def name(*arguments) -> str:
        return snapshot._path(*arguments, Path("/cache"), "").name

    assert name(two, built) == name(two, moved)
    assert len({name(two, built), name(three, built), name(two, newer)}) == 3
    monkeypatch.setattr(snapshot, "qemu_version", lambda: "QEMU 2")
    assert name(two, built) != name(three, built)


def test_kvm_is_tried_only_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape.os, "access", lambda *arguments: True)
    for flags, expected in (("fpu sse2", False), ("fpu vmx", True), ("svm fpu", True)):
        monkeypatch.setattr(Path, "read_text", lambda self, f=flags: f"model\nflags\t\t: {f}\n")
        assert shape.kvm_is_worth_trying() is expected


def test_kvm_that_fails_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(with_kvm: shape.Shape, *arguments: object) -> Path:
        tried.append(with_kvm.accelerator)
        raise rdma_vm.GuestError("failed to set MSR")

    monkeypatch.setattr(snapshot, "kvm_is_worth_trying", lambda: True)
    monkeypatch.setattr(snapshot, "ensure", fail)
    built = rdma_vm.Image(Path("/a/k"), Path("/a/i"), "id", "1", "2")
    emulated = shape.Shape(2, 0, "tcg")
    for _ in range(2):
        assert snapshot.working_shape(emulated, built, tmp_path) == emulated
    assert tried == ["kvm"]


def test_gid_is_written_as_perftest_prints_it() -> None:
    rail = rdma_vm.Rail("mlx5_0", "net1", "10.9.0.12", "02:00:00:09:00:0c")
    assert rail.gid == "00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:12"


def test_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command_line.main(["exec", "--cache", str(tmp_path), "1", "true"]) == 1
    assert "no guests of this cache folder are up" in capsys.readouterr().err
    assert command_line.main(["down", "--cache", str(tmp_path)]) == 0
