# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What perftest says before its table: which test, its parameters, both ends' addresses, the memory used."""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils.units import canonical_gid

_TITLE = re.compile(
    r"(?:^|\s)(RDMA_Write|RDMA_Read|Send|Atomic|Raw_?Ethernet)((?:_imm)?\b[\w /+-]{0,80}?)\b(BW|Latency)\b([\w -]{0,40}?)Test\s*$",
    re.ASCII,
)
_LONGEST_TITLE = 120
_VERB = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send", "Atomic": "atomic"}

# Name in the banner -> (key, reader). Names as printed by 5.x to 6.29 and the forks seen.
_KEYS = {
    "Dual-port": ("dual_port", "flag"),
    "Device": ("device", "text"),
    "Number of qps": ("qps", "int"),
    "Transport type": ("transport", "text"),
    "Connection type": ("connection", "text"),
    "Using SRQ": ("srq", "flag"),
    "PCIe relax order": ("pcie_relaxed_order", "flag"),
    "Lock-free": ("lock_free", "flag"),
    "ibv_wr* API": ("ibv_wr_api", "flag"),
    "Using DDP": ("ddp", "flag"),
    "Using Enhanced Reorder": ("enhanced_reorder", "flag"),
    "TX depth": ("tx_depth", "int"),
    "RX depth": ("rx_depth", "int"),
    "Post List": ("post_list", "int"),
    "Recv Post List": ("recv_post_list", "int"),
    "CQ Moderation": ("cq_moderation", "int"),
    "CQE Poll Batch": ("cqe_poll_batch", "text"),
    "Mtu": ("mtu_bytes", "int"),
    "Link type": ("link_type", "text"),
    "GID index": ("gid_index", "int"),
    "Max inline data": ("max_inline_bytes", "int"),
    "Outstand reads": ("outstanding_reads", "int"),
    "rdma_cm QPs": ("rdma_cm", "flag"),
    "Data ex. method": ("data_exchange", "text"),
    "NUMA node": ("numa_node", "int"),
    "CPU freq": ("cpu_mhz", "int"),
    "Use ROCm memory": ("rocm", "flag"),
    "Use MUSA memory": ("musa", "flag"),
}
_PARAMETER = re.compile(
    "("
    + "|".join(re.escape(k) for k in sorted(_KEYS, key=len, reverse=True))
    + r")\s{0,40}:\s{0,40}(\S{1,64})",
    re.ASCII,
)
_INT = re.compile(r"-?\d{1,18}", re.ASCII)
_ADDRESS = re.compile(r"(local|remote) address:\s{0,8}(.{1,256})", re.ASCII)
_ADDRESS_FIELD = re.compile(
    r"\b(LID|QPN|PSN|OUT|RKey|VAddr)\s{1,4}(?:0x)?([0-9a-fA-F]{1,16})\b", re.ASCII
)
_GID = re.compile(r"\bGID:\s{0,8}([0-9a-fA-F:.]{2,64})", re.ASCII)

_DEVICE_NAME = re.compile(r"\[pid = \d+, dev = (\d+)\] device name = \[([^\]]{1,120})\]", re.ASCII)
_ALLOCATED_OLD = re.compile(r"cuMemAlloc\(\) of a (\d{1,20}) bytes GPU buffer", re.ASCII)
_ALLOCATED_NEW = re.compile(
    r"allocated GPU buffer of a (\d{1,20}) address at 0x[0-9a-f]{1,16} for type (\w{1,40})",
    re.ASCII,
)
_ADDRESS_OLD = re.compile(r"allocated GPU buffer address at ([0-9a-fA-F]{1,16})\b", re.ASCII)
_FREED = re.compile(r"deallocating (?:RX )?GPU buffer (?:0x)?([0-9a-fA-F]{1,16})\b", re.ASCII)
_REGISTERED = re.compile(r"Calling ibv_reg_\w{1,32}(?: with dmabuf)?\(", re.ASCII)
_ROCM_DEVICE = re.compile(r"Using ROCm Device with ID: (\d{1,4}), Name: ([^,]{1,120})", re.ASCII)
_ROCM_ALLOCATED = re.compile(
    r"allocated (\d{1,20}) bytes of GPU buffer at 0x([0-9a-f]{1,16})", re.ASCII
)


def read_title(line: str) -> dict | None:
    """Return {verb, kind, bidirectional, write_with_imm, title} of the line that names the test, or None."""
    line = line.rstrip()
    if not line.endswith("Test"):
        return None
    match = _TITLE.search(line[-_LONGEST_TITLE:])
    if match is None:
        return None
    name, before, kind, _after = match.groups()
    return {
        "verb": _VERB.get(name, "raw_ethernet"),
        "kind": "bw" if kind == "BW" else "lat",
        "bidirectional": "Bidirectional" in before,
        "write_with_imm": before.startswith("_imm"),
        "title": " ".join(match.group(0).split()),
    }


def tool_name(verb: str | None, kind: str | None, connection: str | None = None) -> str | None:
    """Return the name of the program, ib_write_bw or the like."""
    if verb is None or kind is None:
        return None
    if verb == "raw_ethernet" or connection == "RawEth":
        return f"raw_ethernet_{kind}"
    return f"ib_{verb}_{kind}"


def read_parameters(line: str) -> dict:
    """Return the parameters that a line of the banner holds (often two), typed."""
    found = {}
    for name, text in _PARAMETER.findall(line):
        key, kind = _KEYS[name]
        value = _typed(text, kind)
        if value is not None:
            found[key] = value
    return found


def typed_parameter(name: str, value: object) -> tuple[str, object] | None:
    """Return (key, value) for a name as perftest's JSON writes it (underscores for spaces), or None."""
    for printed, (key, kind) in _KEYS.items():
        if re.sub(r"\W+", "_", printed).strip("_") == name or printed == name:
            typed = _typed(str(value), kind)
            return None if typed is None else (key, typed)
    return None


def _typed(text: str, kind: str) -> object:
    if kind == "int":
        match = _INT.match(text)
        return int(match.group()) if match else None
    if kind == "flag":
        # "Unsupported" is a third answer of one of them, and is not "off".
        return {"ON": True, "OFF": False}.get(text, text.lower())
    return text


def read_address(line: str) -> tuple[str, dict] | None:
    """Return ("local" or "remote", address) of an address line, or None."""
    match = _ADDRESS.search(line)
    if match is None:
        return None
    fields = {name: int(figure, 16) for name, figure in _ADDRESS_FIELD.findall(match.group(2))}
    if "QPN" not in fields and "LID" not in fields:
        return None
    address = {
        "lid": fields.get("LID"),
        "qpn": fields.get("QPN"),
        "psn": fields.get("PSN"),
        "rkey": fields.get("RKey"),
        "vaddr": fields.get("VAddr"),
        "gid": None,
    }
    if "OUT" in fields:
        address["outstanding_reads"] = fields["OUT"]
    return match.group(1), address


def read_gid(line: str) -> str | None:
    """Return the GID of the line that follows an address, in canonical text."""
    match = _GID.search(line)
    return canonical_gid(match.group(1)) if match else None


class MemoryEvidence:
    """What one end's output says about the buffer it used; each end proves only itself."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.device: str | None = None
        self.index: int | None = None
        self.size: int | None = None
        self.memory_type: str | None = None
        self.base: int | None = None
        self.dmabuf = False
        self.registered = False
        self.lines: list[str] = []

    def note(self, line: str) -> bool:
        """Take a line; tell whether it was about GPU memory."""
        if "GPU" in line:
            for pattern in (_ALLOCATED_OLD, _ALLOCATED_NEW):
                if match := pattern.search(line):
                    self.kind, self.size = "cuda", int(match.group(1))
                    self.memory_type = (
                        match.group(2) if pattern is _ALLOCATED_NEW else "CUDA_MEM_DEVICE"
                    )
                    break
            else:
                if match := _FREED.search(line):
                    self.base = int(match.group(1), 16)
                elif match := _ROCM_ALLOCATED.search(line):
                    self.kind, self.size, self.base = (
                        "rocm",
                        int(match.group(1)),
                        int(match.group(2), 16),
                    )
                elif "using DMA-BUF for GPU buffer" in line:
                    self.dmabuf = True
                elif match := _ADDRESS_OLD.search(line):
                    self.base = int(match.group(1), 16)
                else:
                    return False
        elif match := _DEVICE_NAME.search(line):
            self.kind = "cuda"
            self.index, self.device = int(match.group(1)), match.group(2)
        elif "ibv_reg_" in line and _REGISTERED.search(line):
            self.registered = True
        elif "ROCm Device" in line and (match := _ROCM_DEVICE.search(line)):
            self.kind = "rocm"
            self.index, self.device = int(match.group(1)), match.group(2).strip()
        elif "initializing CUDA" in line:
            self.kind = "cuda"
        else:
            return False
        if len(self.lines) < 16:
            self.lines.append(line.strip())
        return True

    def result(
        self,
        has_output: bool,
        has_row: bool,
        rc: int | None,
        local: list[dict],
        tableless: bool = False,
    ) -> dict:
        """Return the memory section of a parse result.

        proven: the buffer was in GPU memory and was used. It takes the allocation, the device's name and
        a result row, an exit status that is not a failure, and, where the end printed them, its own
        address inside the buffer it gave back. An end that never prints a table (tableless) must show
        the address and exit status 0 instead of a row.
        """
        if self.kind is None:
            kind = "host" if has_output else None
            return {
                "kind": kind,
                "device": None,
                "device_index": None,
                "method": None,
                "buffer_bytes": None,
                "memory_type": None,
                "address_in_buffer": None,
                "proven": False,
                "evidence": [],
            }
        addresses = [a["vaddr"] for a in local if a["vaddr"]]
        inside = None
        if addresses and self.base is not None and self.size:
            inside = all(self.base <= a < self.base + self.size for a in addresses)
        device_memory = self.kind == "rocm" or self.memory_type == "CUDA_MEM_DEVICE"
        proven = bool(
            device_memory
            and self.size
            and self.device
            and (has_row or (tableless and inside and rc == 0))
            and rc in (None, 0)
            and inside is not False
        )
        method = None
        if proven and not self.dmabuf:
            method = "peermem"
        elif proven and self.registered:
            # "using DMA-BUF" alone is printed before the registration is tried.
            method = "dmabuf"
        return {
            "kind": self.kind,
            "device": self.device,
            "device_index": self.index,
            "method": method,
            "buffer_bytes": self.size,
            "memory_type": self.memory_type,
            "address_in_buffer": inside,
            "proven": proven,
            "evidence": list(self.lines),
        }
