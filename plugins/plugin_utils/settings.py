# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a test, made from role variables: typed, checked, with nothing left to be guessed later. Pure.

Argument specs neither convert types nor see what a value means, so it is done here; every error is a sentence that names
the variable, the value and what is allowed.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.baseline import make_baseline
from ansible_collections.k8si.fabric.plugins.plugin_utils.commands import LATENCY_TOOLS, TOOLS
from ansible_collections.k8si.fabric.plugins.plugin_utils.rounds import PLANS
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings_reader import (
    RESOURCE,
    Reader,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.values import (
    NAME,
    NAME_FORM,
    OBJECT_NAME,
    OBJECT_NAME_FORM,
)

CUDA_METHODS = ("auto", "peermem", "dmabuf")


def make_settings(variables: dict, prefix: str, baseline_text: str | None = None) -> dict:
    """Checks and converts the variables of a test role.

    Args:
        variables: the role's variables without their prefix: {`namespace`: …, `nodes`: …, …}.
        prefix: `rdma_test_` or `gpudirect_test_`, for the words of errors.
        baseline_text: what the file `baseline` holds; null when it could not be read.

    Returns:
        The same names with proper types, plus `rails`: [{index, network, resource, device, port}] and
        `host_gbps`: {link id: Gb/s in host memory}, where a threshold needs it, and `baseline`: null, or what
        `baseline.make_baseline` returns.

    Raises:
        ValueError: with a sentence that names variable, value and what is allowed.
    """
    v = Reader(variables, prefix)
    memory = v.choice("memory", ("host", "cuda"))
    rails = v.rails()
    settings = {
        "test": v.text("test"),
        "memory": memory,
        "run": v.text("run", NAME, NAME_FORM),
        "namespace": v.text("namespace", NAME, NAME_FORM),
        "image": v.text("image"),
        "image_pull_policy": v.choice("image_pull_policy", ("Always", "IfNotPresent", "Never")),
        "image_pull_secrets": v.texts("image_pull_secrets", OBJECT_NAME, OBJECT_NAME_FORM),
        "container": v.text("container", NAME, NAME_FORM),
        "nodes": v.nodes(),
        "tolerations": v.dicts("tolerations"),
        "tool": v.choice("tool", TOOLS),
        "sizes": v.sizes(),
        "duration_s": v.integer("duration", 0, 3600),
        "iterations": v.integer("iterations", 0, 100_000_000),
        "qps": v.integer("qps", 1, 16384),
        "bidirectional": v.boolean("bidirectional"),
        "plan": v.choice("plan", PLANS),
        "retests": v.integer("retests", 0, 100),
        "reference": str(v.raw("reference") or ""),
        "both_directions": v.boolean("both_directions"),
        "rail_mode": v.choice("rail_mode", ("serial", "parallel")),
        "cross_rail": v.boolean("cross_rail"),
        "max_parallel_links": v.integer("max_parallel_links", 0, 100_000),
        "extra_options": v.words("extra_options"),
        "threshold_percent": v.number("threshold_percent", 0, 100),
        "threshold_gbps": v.number("threshold_gbps", 0, 100_000),
        "threshold_host_percent": 0,
        "threshold_us": v.number("threshold_us", 0, 10_000_000),
        "outlier_percent": v.number("outlier_percent", 0, 100),
        "timeout_s": v.number("timeout", 1, 86_400),
        "pod_timeout_s": v.number("pod_timeout", 1, 86_400),
        "pod_lifetime_s": v.integer("pod_lifetime", 60, 604_800),
        "rails": rails,
        "rdma_cm": _rdma_cm(v, rails),
        "gpu_resource": "",
        "gpu_count": 0,
        "cuda_device": 0,
        "cuda_method": "",
        "host_passed": v.raw("host_passed"),
        "host_gbps": {},
        "baseline": None,
    }
    if memory == "cuda":
        settings["gpu_resource"] = v.text("gpu_resource", RESOURCE)
        settings["gpu_count"] = v.integer("gpu_count", 1, 64)
        settings["cuda_device"] = (
            "auto" if v.raw("cuda_device") == "auto" else v.integer("cuda_device", 0, 63)
        )
        settings["cuda_method"] = v.choice("method", CUDA_METHODS)
        settings["threshold_host_percent"] = v.number("threshold_host_percent", 0, 100)
        if settings["threshold_host_percent"]:
            settings["host_gbps"] = _host_figures(v.raw("host_result"))
    _check_together(settings, prefix)
    if v.given("baseline"):
        tolerance = v.number("baseline_tolerance", 0, 100)
        settings["baseline"] = _baseline(v, baseline_text, settings, tolerance)
    return settings


def _rdma_cm(v: Reader, rails: list[dict]) -> bool:
    """Whether to connect by rdma_cm: it needs the address of a secondary network on every rail; `auto`: where there is one."""
    bare = [str(rail["index"]) for rail in rails if not rail["network"]]
    automatic = v.raw("rdma_cm") == "auto"
    if bare and len(bare) < len(rails) and automatic:
        raise v.bad(
            "rdma_cm",
            f"rail {', '.join(bare)} has no network and others have one; set it to false to connect all without rdma_cm",
        )
    wanted = not bare if automatic else v.boolean("rdma_cm")
    if wanted and bare:
        raise v.bad(
            "rdma_cm",
            f"rdma_cm (-R) needs the address of a secondary network and rail {', '.join(bare)} has none; name it in"
            f" {v.prefix}networks, or set {v.prefix}rdma_cm to false: then the pod IP carries the exchange of queue pairs",
        )
    return wanted


def _baseline(v: Reader, text: str | None, settings: dict, tolerance: float) -> dict:
    if not text:
        raise v.bad("baseline", "there is no such file, it is empty, or it cannot be read")
    try:
        return make_baseline(text, "this file", settings, tolerance)
    except ValueError as error:
        raise v.bad("baseline", str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise v.bad(
            "baseline", f"this file is damaged ({type(error).__name__}: {error})"
        ) from error


def _host_figures(result: dict | None) -> dict[str, float]:
    """Link id -> best average that the test in host memory measured, of its links that passed."""
    links = (result or {}).get("links") or []
    return {k["id"]: k["bandwidth_average_gbps"] for k in links if k["verdict"] == "passed"}


def _check_together(settings: dict, prefix: str) -> None:
    """What single variables do not show: values that do not go together."""
    if settings["duration_s"] and settings["sizes"] == "all":
        raise ValueError(
            f"{prefix}duration={settings['duration_s']} with {prefix}sizes=all: perftest cannot run all sizes for a duration;"
            f" set {prefix}sizes to one size in bytes, or {prefix}duration to 0"
        )
    if settings["tool"] in LATENCY_TOOLS:
        _check_latency(settings, prefix)
    elif not any(settings[f"threshold_{k}"] for k in ("gbps", "percent", "host_percent")):
        raise ValueError(
            f"{prefix}threshold_percent and {prefix}threshold_gbps are both 0: every link would pass; set one of them"
        )
    longest = settings["timeout_s"] + settings["pod_timeout_s"]
    if settings["pod_lifetime_s"] <= longest:
        raise ValueError(
            f"{prefix}pod_lifetime={settings['pod_lifetime_s']} s: pods would expire while they are used; it must be more than"
            f" {prefix}pod_timeout + {prefix}timeout ({longest:g} s)"
        )


def _check_latency(settings: dict, prefix: str) -> None:
    tool = settings["tool"]
    if not settings["threshold_us"]:
        raise ValueError(
            f"{prefix}tool={tool} with {prefix}threshold_us=0: every link would pass; set it to the largest latency in"
            " microseconds that is good enough"
        )
    if settings["bidirectional"]:
        raise ValueError(f"{prefix}bidirectional is for bandwidth; {tool} measures latency")
    if settings["memory"] == "cuda" and tool == "ib_write_lat":
        raise ValueError(
            f"{prefix}tool={tool}: perftest measures no write latency in GPU memory; use ib_read_lat or ib_send_lat"
        )
