"""The perftest double prints what real perftest printed, for the same command lines."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import simulated_replay as replay
from simulator.fabric import Bandwidth, Latency
from simulator.perftest import text
from simulator.perftest.options import VERSIONS, parse
from simulator.perftest.tool import Quirks

HERE = Path(__file__).parent / "captures"
SHARED = Path(os.environ.get("FABRIC_SHARED") or Path(__file__).parents[3] / ".." / "shared")
CHOSEN = sorted(p.name for p in HERE.iterdir() if p.is_dir())

# What the double does not try to be: other reports, other transports, ends that were killed or starved from outside.
LEFT_OUT = re.compile(
    r"json|-H$|v606|warmup|run-inf|siw|sk-|killed|link-cut|udp|frozen|cpufreq|-dc$|xrc|hugepages|odp|limit-bw|rocev1|rocm"
    r"|locked|-f-client-sigint|-f-no-perm|port-in-use|sigint|sigterm|-user$|-f-mismatch-qp$|inline|sbw64|imm|oom|__m_|busid_"
    r"|data_direct|pcie_map|wc12|^git|^sys$|^help$"
)


def settings(name: str) -> tuple[str, dict]:
    """The version of a capture and what its machines were like, from its name."""
    cuda = "__" in name
    quirks: dict = {}
    options: dict = {"cuda": cuda}
    if cuda:
        version = name.split("__")[0].replace("-nocuda", "").replace("debian", "")
        if "nocuda" in name or "debian" in name:
            quirks["without_cuda"] = True
        if "nolibcuda" in name:
            quirks["no_cuda_driver"] = True
        if "regmr14" in name:
            quirks["no_peer_memory"] = True
        if found := re.search(r"dmabuf(9\d)", name):
            quirks["dmabuf_errno"] = int(found[1])
        options["gpus"] = 0 if "novis" in name else 1
    else:
        version = {"606": "6.06", "629": "6.29"}[name[:3]]
        options["devices"] = "no-dev" not in name
        options["up"] = "link-down" not in name
        if "memlock" in name and "root" not in name:
            quirks["memlock"] = True
        options["mtu"] = 1024 if "-2n-" in name or "on-1024" in name else 4096
    ends = (
        ("client",)
        if ("memlock" in name and "server" not in name) or name.endswith("_c")
        else ("server", "client")
    )
    if "memlock" in name and "server" in name:
        ends = ("server",)
    if quirks:
        options["quirks"] = {end: Quirks(**quirks) for end in ends}
    return version, options


def same(folder: Path) -> list[str]:
    """Replays a capture; returns what differs."""
    version, options = settings(folder.name)
    out = []
    for side, mine in replay.run(folder, version, **options).items():
        if side == "server" and "no-dev" in folder.name:
            continue  # there the server had its devices
        real = replay.captured(folder, side)
        if real.status is None and not real.out:
            mine.out = ""  # killed before its first flush, which the replay does not always do
        for kind in ("out", "err"):
            have = replay.normalised(getattr(mine, kind).replace("./ib", "ib"))
            want = replay.normalised(getattr(real, kind).replace("./ib", "ib"))
            want = [line for line in want if "Correlation coefficient" not in line]
            if have != want:
                out.append(
                    f"{side} {kind}:\n" + "\n".join(have) + "\n--- real ---\n" + "\n".join(want)
                )
        if mine.status != real.status:
            out.append(f"{side} status {mine.status}, real {real.status}")
    return out


@pytest.mark.parametrize("name", CHOSEN)
def test_prints_what_the_tool_printed(name):
    assert same(HERE / name) == []


def test_every_capture_at_hand():
    """All pairs of real runs, where they are at hand; those that were cut short while being captured have nothing to compare."""
    folders = [
        p
        for d in ("captures", "captures-cuda")
        for p in sorted((SHARED / d).glob("*"))
        if p.is_dir()
    ]
    if not folders:
        pytest.skip("no other captures here")
    fitting = [p for p in folders if not LEFT_OUT.search(p.name) and p.name != "629-write-lat-a"]
    wrong = {p.name: problems for p in fitting if (problems := same(p))}
    assert wrong == {}
    assert len(fitting) > 250


def rows(name: str, side: str) -> list[str]:
    found = (HERE / name / f"{side}.out").read_text().split("\n")
    return [line for line in found if re.match(r"^ \d+ +\d+ +-?\d", line)]


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in CHOSEN
        if (HERE / n / "client.cmd").exists() and "output" not in n and rows(n, "client")
    ],
)
def test_rows_are_laid_out_byte_for_byte(name):
    """Each row of a capture, taken apart and printed again, is the same row with the same blanks and tabs."""
    version, _unused = settings(name)
    argv = replay.command(HERE / name / "client.cmd")
    options = parse(argv, version, True)
    for row in rows(name, "client"):
        numbers = row.split()
        size, iterations = int(numbers[0]), int(numbers[1])
        values = [float(n) for n in numbers[2:]]
        if options.latency and options.duration is None:
            low, high, typical, average, stdev, p99, p999 = values
            again = text.latency_row(
                options, size, iterations, Latency(low, high, typical, average, stdev, p99, p999)
            )
        elif options.latency:
            again = text.latency_row(
                options, size, iterations, Latency(0, 0, 0, values[0], 0, 0, 0)
            )
            again = again.rsplit(None, 1)[0] + "        " + numbers[3]
            row = re.sub(r"\s+(\S+)$", r"        \1", row)
        else:
            factor = 1.0 if options.gbits else 1e9 / 8 / text.MIB
            figures = Bandwidth(values[0] / factor, values[1] / factor, values[2], 0)
            cpu = values[3] if len(values) > 3 else 0
            again = text.bandwidth_row(options, version, size, iterations, figures, True, cpu)
        assert again.rstrip() == row.rstrip()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gbits", [True, False])
def test_average_is_bytes_times_rate(version, gbits, tmp_path):
    """The law that holds in every real row holds in ours."""
    flags = "-a -F" + (" --report_gbits" if gbits else "")
    (tmp_path / "server.cmd").write_text(f"ib_write_bw -d rxe0 {flags}")
    (tmp_path / "client.cmd").write_text(f"ib_write_bw -d rxe1 {flags} 10.9.0.1")
    out = replay.run(tmp_path, version)["client"].out
    found = [line.split() for line in out.split("\n") if re.match(r"^ \d+ +5000 ", line)]
    assert len(found) == 23
    for size, _unused, peak, average, rate in found:
        unit = int(size) * (8e-3 if gbits else 1e6 / 2**20)
        assert abs(unit * float(rate) - float(average)) <= 0.006 + unit * 0.6e-6
        assert float(peak) >= float(average)


def test_a_killed_server_leaves_nothing_in_its_pipe(tmp_path):
    (tmp_path / "server.cmd").write_text("ib_write_bw -d rxe0")
    assert replay.run(tmp_path, "6.29")["server"].out == ""
