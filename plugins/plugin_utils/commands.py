# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines of a measurement, as argument lists, and the batch that runs a round. Pure."""

from __future__ import annotations

BANDWIDTH_TOOLS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
LATENCY_TOOLS = ("ib_write_lat", "ib_read_lat", "ib_send_lat")
TOOLS = BANDWIDTH_TOOLS + LATENCY_TOOLS

# perftest prints it when it is about to listen; on a pipe it arrives at once only under stdbuf -oL.
WAITING = "Waiting for client to connect"
# What a client says when nobody listens yet: over TCP, and over rdma_cm (event 8 is RDMA_CM_EVENT_REJECTED).
NOT_LISTENING = [
    "Couldn't connect to ",
    "Unexpected CM event bl blka 8",
]
BASE_PORT = 18515  # perftest's own default


def probe_items(pods: list[dict], script: str, settings: dict) -> list[dict]:
    """Items for `k8s_exec_batch` that run the probe in every pod; `id` is the pod's name."""
    gpu = ["cuda"] if settings["memory"] == "cuda" else []
    return [
        {
            "id": pod["metadata"]["name"],
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
            "container": settings["container"],
            "command": ["sh", "-c", script, "probe", settings["tool"], *gpu],
            "timeout": 60,
        }
        for pod in pods
    ]


def perftest_command(endpoint: dict, settings: dict, peer: dict | None = None) -> list[str]:
    """The command line of one end: of the server, or with `peer` (the server's endpoint) of the client.

    Queue pairs, both ways at once and units are options of bandwidth tools only (perftest's manual page).
    """
    bandwidth = settings["tool"] in BANDWIDTH_TOOLS
    command = ["stdbuf", "-oL"] if endpoint["stdbuf"] else []
    command += [settings["tool"], "-d", endpoint["device"], "-i", str(endpoint["port"])]
    if settings["duration_s"]:
        command += ["-D", str(settings["duration_s"])]
    if settings["sizes"] == "all":
        command += ["-a"]
    elif settings["sizes"]:
        command += ["-s", str(settings["sizes"])]
    if settings["iterations"]:
        command += ["-n", str(settings["iterations"])]
    command += ["-F", "--report_gbits"] if bandwidth else ["-F"]
    if settings["rdma_cm"]:
        command += ["-R"]
    elif endpoint["gid_index"] is not None:
        command += ["-x", str(endpoint["gid_index"])]
    if settings["qps"] != 1 and bandwidth:
        command += ["-q", str(settings["qps"])]
    if settings["bidirectional"]:
        command += ["-b"]
    if settings["memory"] == "cuda":
        # --use_cuda must come before --use_cuda_dmabuf (perftest issue 336)
        command += ["--use_cuda", str(endpoint["cuda_device"])]
        if endpoint["cuda_method"] == "dmabuf":
            command += ["--use_cuda_dmabuf"]
    command += ["-p", str(BASE_PORT + (peer or endpoint)["rail"])]
    # Without -R the address only carries the exchange of QP numbers, and the pod IP does.
    which = "address" if settings["rdma_cm"] else "pod_ip"
    server = peer or endpoint
    if ":" in server[which]:
        command += ["--ipv6-addr"]  # on both ends; perftest takes addresses for IPv4 unless told
    command += [str(option) for option in settings["extra_options"]]
    if peer:
        command += [server[which]]
    return command


def round_items(links: list[dict], endpoints: list[dict], settings: dict) -> list[dict]:
    """Items for `k8s_exec_batch` that run every link of a round: server, then client; the end of one ends the other.

    Where the links are those of a round and of its reverse (`rounds.there_and_back`), the way back of a pair starts when its
    way there has ended.
    """
    by_id = {e["id"]: e for e in endpoints}
    first = min((k["round"] for k in links), default=0)
    there = {(k["server"], k["client"]): f"{k['id']} client" for k in links if k["round"] == first}
    items = []
    for link in links:
        server, client = by_id[link["server"]], by_id[link["client"]]
        server_id, client_id = f"{link['id']} server", f"{link['id']} client"
        listening = (
            {"item": server_id, "event": "text", "text": WAITING}
            if server["stdbuf"]
            else {"item": server_id, "event": "started"}
        )
        patience = 30.0
        serving = {
            **_where(server),
            "id": server_id,
            "command": perftest_command(server, settings),
            # the client's deadline decides; the server's is only a backstop
            "timeout": settings["timeout_s"] + 30,
            "end_with": client_id,
        }
        way_there = there.get((link["client"], link["server"]))
        if link["round"] != first and way_there:
            serving["start_after"] = {"item": way_there, "event": "ended"}
            patience += 30.0 + settings["timeout_s"] + 30
        items.append(serving)
        items.append(
            {
                **_where(client),
                "id": client_id,
                "command": perftest_command(client, settings, peer=server),
                "timeout": settings["timeout_s"],
                "start_after": {**listening, "timeout": patience},
                "end_with": server_id,
                "retry": {"texts": NOT_LISTENING, "times": 20, "delay": 0.25},
            }
        )
    return items


def _where(endpoint: dict) -> dict:
    return {k: endpoint[k] for k in ("namespace", "pod", "container")}
