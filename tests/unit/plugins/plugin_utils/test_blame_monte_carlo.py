"""Planner and judge against the simulator's model of the fabric: 1,000 seeded fault plans, no Ansible, no cluster.

A plan breaks up to 10 % of 8 to 64 nodes with one or two rails: nodes, ports, paths, ports in one role only, one direction of
a path. Every measurement has 2 % noise. A path that no round measured cannot be seen by any judge and is not counted; half of the
broken paths are put where the first round goes.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import rounds
from ansible_collections.k8si.fabric.plugins.plugin_utils.localise import localise

_PATH = Path(__file__).resolve().parents[3] / "simulator" / "fabric.py"
PLANS = 1000
NOISE = 0.02
THRESHOLD = 360.0
LARGEST = 8 << 20
KINDS = ("node", "port", "role", "path", "way")


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("fabric_model", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Case:
    """One fault plan and what came of it."""

    nodes: int
    rails: int
    faults: list[tuple]
    expected: set[tuple] = field(default_factory=set)
    blamed: set[tuple] = field(default_factory=set)
    first: int = 0  # rounds a direction of the first wave
    more: int = 0  # rounds a direction of all retests

    @property
    def sick(self) -> set[str]:
        return {f[1] for f in self.faults if f[0] in ("node", "port", "role")}


def broken(rng: random.Random, names: list[str], rails: int, plan: list) -> list[tuple]:
    """Up to 10 % faults; those of nodes are on different nodes, those of paths on different pairs."""
    faults, nodes = [], rng.sample(names, len(names))
    met = [(k["client"].split("/")[0], k["server"].split("/")[0]) for links in plan for k in links]
    for _number in range(rng.randint(0, max(1, len(names) // 10))):
        kind = rng.choice(KINDS if rails > 1 else [k for k in KINDS if k != "port"])
        if kind == "node":
            faults.append((kind, nodes.pop()))
        elif kind == "port":
            faults.append((kind, nodes.pop(), rng.randrange(rails)))
        elif kind == "role":
            faults.append(
                (kind, nodes.pop(), rng.randrange(rails), rng.choice(["client", "server"]))
            )
        else:
            pair = rng.choice(met) if rng.random() < 0.5 else tuple(rng.sample(names, 2))
            if not any(f[0] in ("path", "way") and set(f[1:]) == set(pair) for f in faults):
                faults.append((kind, *pair))
    return faults


def impair(fabric, model, faults: list[tuple], rng: random.Random) -> None:
    for number, fault in enumerate(faults):
        kind, name, factor = fault[0], f"fault {number}", rng.uniform(0.2, 0.7)
        if kind == "node":
            fabric.slow_node(name, fault[1], factor)
        elif kind == "port":
            fabric.slow_port(name, model.Port(fault[1], fault[2]), factor)
        elif kind == "role":
            port, sends = model.Port(fault[1], fault[2]), fault[3] == "client"
            fabric.impair(
                name,
                lambda a, b, _gpu, port=port, sends=sends, factor=factor: (
                    factor if (a if sends else b) == port else 1.0
                ),
            )
        else:
            fabric.slow_path(name, fault[1], fault[2], factor)
            if kind == "path":
                fabric.slow_path(f"{name} back", fault[2], fault[1], factor)


def measure(fabric, model, links: list[dict]) -> list[dict]:
    judged = []
    for link in links:
        client, server = (link[r].split("/")[0] for r in ("client", "server"))
        rail = link["rail"]
        row = fabric.bandwidth(model.Port(client, rail), model.Port(server, rail), LARGEST)
        passed = row.average_gbps >= THRESHOLD
        judged.append(
            {
                **link,
                "client_node": client,
                "server_node": server,
                "verdict": "passed" if passed else "slow",
                "bandwidth_average_gbps": row.average_gbps,
                "finding": None if passed else {"code": "slow_link", "seen": ""},
            }
        )
    return judged


def exposed(fault: tuple, links: list[dict], faults: list[tuple]) -> bool:
    """Whether a broken path was measured between ends that are fine in their roles: otherwise nothing can be told of it."""
    ways = {fault[1:3], fault[2:0:-1]} if fault[0] == "path" else {fault[1:3]}

    def masked(node: str, rail: int, role: str) -> bool:
        return any(
            f[1] == node and (f[0] == "node" or (f[2] == rail and f[3:] in ((), (role,))))
            for f in faults
            if f[0] in ("node", "port", "role")
        )

    seen = {
        (k["client_node"], k["server_node"])
        for k in links
        if (k["client_node"], k["server_node"]) in ways
        and not masked(k["client_node"], k["rail"], "client")
        and not masked(k["server_node"], k["rail"], "server")
    }
    return bool(seen)


def blamed(findings: list[dict], rails: int) -> set[tuple]:
    found = set()
    for f in findings:
        where, kind = f["where"], f["localisation"]
        if kind == "bad_node":
            found.add(("node", where["node"]))
        elif kind == "bad_port":
            found.add(("port", where["node"], where["rail"]))
        elif kind == "one_way" and "node" in where:
            found.add(("role", where["node"], where["rail"], where["role"]))
        elif kind == "one_way":
            found.add(("way", where["client"], where["server"]))
        elif kind == "bad_path":
            found.add(("path", *where["nodes"]))
        elif kind != "not_enough_evidence":
            found.add((kind,))
    return found


def run(seed: int, model, plan_name: str = "adaptive", nodes: int = 0) -> Case:
    rng = random.Random(seed)
    count, rails = nodes or rng.randint(8, 64), rng.choice((1, 2))
    names = [f"n{i}" for i in range(1, count + 1)]
    ends = [{"id": f"{n}/{r}", "node": n, "rail": r} for n in names for r in range(rails)]
    settings = {
        "plan": plan_name,
        "retests": 4,
        "both_directions": True,
        "rail_mode": rng.choice(("serial", "parallel")),
        "cross_rail": False,
        "max_parallel_links": 0,
        "reference": "",
    }
    plan = rounds.plan_rounds(ends, settings)
    case = Case(count, rails, broken(rng, names, rails, plan), first=len(plan) // 2)
    fabric = model.Fabric(seed=seed, noise=NOISE)
    impair(fabric, model, case.faults, rng)
    links: list[dict] = []
    while plan:
        for batch in plan:
            links += measure(fabric, model, batch)
        plan = rounds.plan_retests(links, ends, settings)
        case.more += len(plan) // 2
    paths = ("path", "way")
    case.expected = {
        (f[0], *sorted(f[1:])) if f[0] == "path" else f
        for f in case.faults
        if f[0] not in paths or exposed(f, links, case.faults)
    }
    case.blamed = blamed(localise(links), rails)
    return case


def table(cases: list[Case], title: str) -> str:
    exact = sum(c.blamed == c.expected for c in cases)
    healthy = sum(
        any(b[0] in ("node", "port", "role") and b[1] not in c.sick for b in c.blamed)
        for c in cases
    )
    rows = [
        f"{title}: {len(cases)} plans, {NOISE:.0%} noise",
        f"  exactly the right components blamed   {exact / len(cases):7.2%}",
        f"  a healthy node blamed                 {healthy / len(cases):7.2%}",
        f"  rounds a direction, first wave        {max(c.first for c in cases):7d}  at most",
        f"  rounds a direction, retests           {max(c.more for c in cases):7d}  at most"
        f" (mean {sum(c.more for c in cases) / len(cases):.2f})",
        "  fault                         there  visible   blamed   missed   wrongly",
    ]
    for kind, words in (
        ("node", "bad node"),
        ("port", "bad port"),
        ("role", "port bad in one role"),
        ("path", "bad path"),
        ("way", "one way of a path"),
    ):
        there = sum(f[0] == kind for c in cases for f in c.faults)
        visible = sum(f[0] == kind for c in cases for f in c.expected)
        hit = sum(f[0] == kind for c in cases for f in c.expected & c.blamed)
        wrong = sum(f[0] == kind for c in cases for f in c.blamed - c.expected)
        rows.append(f"  {words:<26}{there:9d}{visible:9d}{hit:9d}{visible - hit:9d}{wrong:10d}")
    return "\n".join(rows)


def check(cases: list[Case], title: str, capsys) -> None:
    with capsys.disabled():
        print("\n" + table(cases, title))
    exact = sum(c.blamed == c.expected for c in cases)
    healthy = [
        c
        for c in cases
        for b in c.blamed
        if b[0] in ("node", "port", "role") and b[1] not in c.sick
    ]
    assert exact >= 0.99 * len(cases)
    assert len(healthy) <= 0.005 * len(cases)


def test_a_thousand_fault_plans(model, capsys):
    cases = [run(seed, model) for seed in range(PLANS)]
    check(cases, "adaptive, 8 to 64 nodes, 1 or 2 rails", capsys)
    assert max(c.more for c in cases) <= 4


def test_a_full_mesh_sees_every_path(model, capsys):
    cases = [run(seed, model, "full_mesh", nodes=8 + seed % 9) for seed in range(100)]
    check(cases, "full mesh, 8 to 16 nodes, 1 or 2 rails", capsys)
    assert sum(f[0] in ("path", "way") for c in cases for f in c.faults) == sum(
        f[0] in ("path", "way") for c in cases for f in c.expected
    )
