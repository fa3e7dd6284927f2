"""What happens to an object between decoding and storing: defaults, the service account, Pod Security."""

from __future__ import annotations

import secrets
from typing import Any

from .errors import forbidden
from .store import Store

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def suffix(length: int = 5) -> str:
    """Random letters and digits as the server appends to generateName."""
    return "".join(secrets.choice(_ALPHABET) for _unused in range(length))


def default_pod_spec(spec: dict[str, Any]) -> None:
    """Fills in what a client left out, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or []:
            _default_container(container)
    for volume in spec.get("volumes") or []:
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if source in volume:
                volume[source].setdefault("defaultMode", 420)


def _default_container(container: dict[str, Any]) -> None:
    image = container.get("image") or ""
    tag = image.rsplit("/", 1)[-1]
    latest = "@" not in tag and (":" not in tag or tag.endswith(":latest"))
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def admit_pod(store: Store, pod: dict[str, Any]) -> list[str]:
    """Service account, tolerations, Pod Security; returns warnings, raises 403."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    found = store.find(("", "serviceaccounts"), namespace, account)
    if found is None:
        raise forbidden(
            "pods",
            "",
            pod["metadata"]["name"],
            f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found',
        )
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    mount = spec.get(
        "automountServiceAccountToken", found.get("automountServiceAccountToken", True)
    )
    if mount:
        _mount_token(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            t.get("key") in (key, None) and t.get("effect") in ("NoExecute", None)
            for t in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            )
    return pod_security(store, pod)


def _mount_token(spec: dict[str, Any]) -> None:
    volumes = spec.setdefault("volumes", [])
    if any(v["name"].startswith("kube-api-access-") for v in volumes):
        return
    name = "kube-api-access-" + suffix()
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    },
                ],
            },
        },
    ]
    volumes.append({"name": name, "projected": {"sources": sources, "defaultMode": 420}})
    mount = {
        "name": name,
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or []:
            container.setdefault("volumeMounts", []).append(mount)


# ---- Pod Security

# Capabilities that the baseline level lets a container add.
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}


def pod_security(store: Store, pod: dict[str, Any]) -> list[str]:
    """Holds a pod against its namespace's Pod Security labels: raises 403 (enforce) or returns warnings (warn)."""
    namespace = store.find(("", "namespaces"), None, pod["metadata"]["namespace"]) or {
        "metadata": {}
    }
    labels = namespace["metadata"].get("labels") or {}
    warnings = []
    for mode in ("enforce", "warn"):
        level = labels.get(f"pod-security.kubernetes.io/{mode}", "privileged")
        version = labels.get(f"pod-security.kubernetes.io/{mode}-version", "latest")
        violations = _violations(pod["spec"], level)
        if not violations:
            continue
        text = f'PodSecurity "{level}:{version}": {", ".join(violations)}'
        if mode == "enforce":
            raise forbidden("pods", "", pod["metadata"]["name"], f"violates {text}")
        warnings.append(f"would violate {text}")
    return warnings


def _these(names: list[str]) -> str:
    quoted = ", ".join(f'"{n}"' for n in names)
    return f"container{'s' if len(names) > 1 else ''} {quoted}"


def _violations(spec: dict[str, Any], level: str) -> list[str]:
    if level not in ("baseline", "restricted"):
        return []
    containers = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    contexts = {c["name"]: c.get("securityContext") or {} for c in containers}
    pod = spec.get("securityContext") or {}
    out = []
    if spec.get("hostNetwork") or spec.get("hostPID") or spec.get("hostIPC"):
        used = [f"{k}=true" for k in ("hostNetwork", "hostPID", "hostIPC") if spec.get(k)]
        out.append(f"host namespaces ({', '.join(used)})")
    paths = [v["name"] for v in spec.get("volumes") or [] if "hostPath" in v]
    if paths:
        quoted = ", ".join(f'"{n}"' for n in paths)
        out.append(f"hostPath volumes (volume{'s' if len(paths) > 1 else ''} {quoted})")
    privileged = [n for n, c in contexts.items() if c.get("privileged")]
    if privileged:
        out.append(
            f"privileged ({_these(privileged)} must not set securityContext.privileged=true)"
        )
    if level == "baseline":
        added = {
            n: [
                a
                for a in (c.get("capabilities") or {}).get("add") or []
                if a not in _BASELINE_CAPABILITIES
            ]
            for n, c in contexts.items()
        }
        if bad := [n for n, caps in added.items() if caps]:
            caps = ", ".join(f'"{c}"' for c in sorted({c for n in bad for c in added[n]}))
            out.append(
                f"non-default capabilities ({_these(bad)} must not include {caps} in securityContext.capabilities.add)"
            )
        return out
    escalating = [n for n, c in contexts.items() if c.get("allowPrivilegeEscalation") is not False]
    if escalating:
        out.append(
            f"allowPrivilegeEscalation != false ({_these(escalating)} must set"
            " securityContext.allowPrivilegeEscalation=false)"
        )
    undropped = [
        n
        for n, c in contexts.items()
        if "ALL" not in ((c.get("capabilities") or {}).get("drop") or [])
    ]
    adding = {
        n: [a for a in (c.get("capabilities") or {}).get("add") or [] if a != "NET_BIND_SERVICE"]
        for n, c in contexts.items()
    }
    parts = []
    if undropped:
        parts.append(f'{_these(undropped)} must set securityContext.capabilities.drop=["ALL"]')
    if bad := [n for n, caps in adding.items() if caps]:
        caps = ", ".join(f'"{c}"' for c in sorted({c for n in bad for c in adding[n]}))
        parts.append(f"{_these(bad)} must not include {caps} in securityContext.capabilities.add")
    if parts:
        out.append(f"unrestricted capabilities ({'; '.join(parts)})")
    root = [
        n for n, c in contexts.items() if c.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True
    ]
    if root:
        out.append(
            f"runAsNonRoot != true (pod or {_these(root)} must set securityContext.runAsNonRoot=true)"
        )
    zero = [n for n, c in contexts.items() if c.get("runAsUser", pod.get("runAsUser")) == 0]
    if zero:
        out.append(f"runAsUser=0 ({_these(zero)} must not set runAsUser=0)")
    profile = (pod.get("seccompProfile") or {}).get("type")
    open_ = [
        n
        for n, c in contexts.items()
        if ((c.get("seccompProfile") or {}).get("type") or profile)
        not in ("RuntimeDefault", "Localhost")
    ]
    if open_:
        out.append(
            f"seccompProfile (pod or {_these(open_)} must set securityContext.seccompProfile.type to"
            ' "RuntimeDefault" or "Localhost")'
        )
    return out
