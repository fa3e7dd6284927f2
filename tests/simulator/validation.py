"""What an API server checks beyond the types of fields: names, labels, pods and the pod templates of controllers."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from .errors import ApiError, Causes
from .resources import Resource
from .selectors import label_value_problem, qualified_name_problem

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_ENV = re.compile(r"^[^=\x00-\x1f\x7f]+$")
_RBAC_NAME = re.compile(r"^[^/%]+$")

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_STANDARD = {"cpu", "memory", "ephemeral-storage", "storage"}


def quantity(text: str | int) -> Decimal:
    """The number a quantity stands for: `1k` is 1000, `500m` is 0.5, `1Ki` is 1024."""
    m = re.fullmatch(r"([+-]?[0-9.]+)((?:[KMGTPE]i|[numkMGTPE])?|[eE][+-]?\d+)", str(text))
    if not m:
        raise ValueError(f"not a quantity: {text!r}")
    if m[2][:1] in ("e", "E") and len(m[2]) > 1 and m[2] != "Ei":
        return Decimal(m[1] + m[2])
    return Decimal(m[1]) * _SUFFIXES[m[2]]


def is_extended(resource: str) -> bool:
    """Whether a resource is one of a device plugin: named with a domain that is not Kubernetes' own."""
    return "/" in resource and not resource.split("/")[0].endswith("kubernetes.io")


def metadata(resource: Resource, meta: dict[str, Any], causes: Causes) -> None:
    """Names, labels and annotations."""
    name = meta.get("name", "")
    if resource.group == "rbac.authorization.k8s.io":
        if not _RBAC_NAME.match(name) or name in (".", ".."):
            causes.invalid("metadata.name", name, "may not contain '/' or '%'")
    elif resource.plural in ("namespaces", "services"):
        if not _LABEL.match(name) or len(name) > 63:
            causes.invalid(
                "metadata.name",
                name,
                LABEL_RULE if len(name) <= 63 else "must be no more than 63 characters",
            )
    elif len(name) > 253:
        causes.invalid("metadata.name", name, "must be no more than 253 characters")
    elif not _SUBDOMAIN.match(name):
        causes.invalid("metadata.name", name, SUBDOMAIN_RULE)
    labels(meta.get("labels"), "metadata.labels", causes)
    annotations(meta.get("annotations"), "metadata.annotations", causes)


def labels(values: dict[str, str] | None, path: str, causes: Causes) -> None:
    """Keys and values of labels."""
    for key, value in (values or {}).items():
        if problem := qualified_name_problem(key):
            causes.invalid(path, key, problem)
        if problem := label_value_problem(value):
            causes.invalid(path, value, problem)


def annotations(values: dict[str, str] | None, path: str, causes: Causes) -> None:
    """Keys and size of annotations."""
    total = 0
    for key, value in (values or {}).items():
        total += len(key) + len(value)
        if problem := qualified_name_problem(key.lower()):
            causes.invalid(path, key, problem)
    if total > 256 * 1024:
        causes.add("FieldValueTooLong", path, ": may not be more than 262144 bytes")


def pod_spec(
    spec: dict[str, Any], path: str, causes: Causes, restart: tuple[str, ...] | None = None
) -> None:
    """A pod's or a template's spec; restart names the restart policies that the owner allows."""
    containers = spec.get("containers") or []
    if not containers:
        causes.required(f"{path}.containers")
    volumes: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or []):
        where = f"{path}.volumes[{i}]"
        name = volume.get("name", "")
        if not name:
            causes.required(f"{where}.name")
        elif not _LABEL.match(name):
            causes.invalid(f"{where}.name", name, LABEL_RULE)
        elif name in volumes:
            causes.duplicate(f"{where}.name", name)
        volumes.add(name)
        if len(volume) < 2:
            causes.required(where, "must specify a volume type")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or []):
            _container(container, f"{path}.{field}[{i}]", names, volumes, spec, causes)
    allowed = restart or ("Always", "OnFailure", "Never")
    policy = spec.get("restartPolicy", "Always")
    if policy not in allowed:
        causes.unsupported(f"{path}.restartPolicy", policy, list(allowed))
    for field, low in (("activeDeadlineSeconds", 1), ("terminationGracePeriodSeconds", 0)):
        value = spec.get(field)
        if value is not None and not low <= value <= 2**31 - 1:
            text = (
                "must be between 1 and 2147483647, inclusive"
                if low
                else "must be greater than or equal to 0"
            )
            causes.invalid(f"{path}.{field}", value, text)
    if spec.get("dnsPolicy", "ClusterFirst") not in (
        "ClusterFirst",
        "ClusterFirstWithHostNet",
        "Default",
        "None",
    ):
        causes.unsupported(
            f"{path}.dnsPolicy",
            spec["dnsPolicy"],
            ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        )
    labels(spec.get("nodeSelector"), f"{path}.nodeSelector", causes)
    _tolerations(spec.get("tolerations") or [], f"{path}.tolerations", causes)
    _affinity(spec.get("affinity") or {}, f"{path}.affinity", causes)
    for i, spread in enumerate(spec.get("topologySpreadConstraints") or []):
        where = f"{path}.topologySpreadConstraints[{i}]"
        if spread.get("maxSkew", 0) < 1:
            causes.invalid(
                f"{where}.maxSkew", spread.get("maxSkew", 0), "must be greater than zero"
            )
        if not spread.get("topologyKey"):
            causes.required(f"{where}.topologyKey", "can not be empty")
        if spread.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.unsupported(
                f"{where}.whenUnsatisfiable",
                spread.get("whenUnsatisfiable", ""),
                ["DoNotSchedule", "ScheduleAnyway"],
            )


def _container(
    container: dict[str, Any],
    path: str,
    names: set[str],
    volumes: set[str],
    spec: dict[str, Any],
    causes: Causes,
) -> None:
    name = container.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    elif not _LABEL.match(name) or len(name) > 63:
        causes.invalid(f"{path}.name", name, LABEL_RULE)
    elif name in names:
        causes.duplicate(f"{path}.name", name)
    names.add(name)
    image = container.get("image", "")
    if not image:
        causes.required(f"{path}.image")
    elif image.strip() != image:
        causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("imagePullPolicy", "Always")
    if policy not in ("Always", "IfNotPresent", "Never"):
        causes.unsupported(f"{path}.imagePullPolicy", policy, ["Always", "IfNotPresent", "Never"])
    for i, env in enumerate(container.get("env") or []):
        where = f"{path}.env[{i}]"
        if not env.get("name"):
            causes.required(f"{where}.name")
        elif not _ENV.match(env["name"]):
            causes.invalid(
                f"{where}.name",
                env["name"],
                "a valid environment variable name must consist only of printable"
                " ASCII characters other than '='",
            )
        if env.get("value") and env.get("valueFrom"):
            causes.invalid(
                f"{where}.valueFrom", "", "may not be specified when `value` is not empty"
            )
    for i, mount in enumerate(container.get("volumeMounts") or []):
        where = f"{path}.volumeMounts[{i}]"
        if not mount.get("mountPath"):
            causes.required(f"{where}.mountPath")
        if not mount.get("name"):
            causes.required(f"{where}.name")
        elif mount["name"] not in volumes:
            causes.add("FieldValueInvalid", f"{where}.name", f': "{mount["name"]}"')
            causes.items[-1] = {
                "reason": "FieldValueNotFound",
                "message": f'Not found: "{mount["name"]}"',
                "field": f"{where}.name",
            }
    for i, port in enumerate(container.get("ports") or []):
        number = port.get("containerPort", 0)
        if not 0 < number < 65536:
            causes.invalid(
                f"{path}.ports[{i}].containerPort", number, "must be between 1 and 65535, inclusive"
            )
    _security(container.get("securityContext") or {}, f"{path}.securityContext", causes)
    _resources(container.get("resources") or {}, f"{path}.resources", causes)


def _security(context: dict[str, Any], path: str, causes: Causes) -> None:
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        causes.invalid(
            path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        )
    user = context.get("runAsUser")
    if user is not None and not 0 <= user <= 2**31 - 1:
        causes.invalid(f"{path}.runAsUser", user, "must be between 0 and 2147483647, inclusive")


def _resources(resources: dict[str, Any], path: str, causes: Causes) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, values in (("limits", limits), ("requests", requests)):
        for name, text in values.items():
            where = f"{path}.{field}[{name}]" if "/" in name else f"{path}.{field}.{name}"
            if problem := qualified_name_problem(name):
                causes.invalid(where, name, problem)
                continue
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                causes.invalid(where, name, "must be a standard resource for containers")
                continue
            number = quantity(text)
            if number < 0:
                causes.invalid(where, text, "must be greater than or equal to 0")
            elif is_extended(name) and number != number.to_integral_value():
                causes.invalid(where, text, "must be an integer")
    for name, text in requests.items():
        where = f"{path}.requests"
        if name in limits:
            if is_extended(name) and quantity(text) != quantity(limits[name]):
                causes.invalid(where, text, f"must be equal to {name} limit of {limits[name]}")
            elif quantity(text) > quantity(limits[name]):
                causes.invalid(
                    where, text, f"must be less than or equal to {name} limit of {limits[name]}"
                )
        elif is_extended(name):
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _tolerations(tolerations: list[dict[str, Any]], path: str, causes: Causes) -> None:
    for i, toleration in enumerate(tolerations):
        where = f"{path}[{i}]"
        operator = toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            causes.unsupported(f"{where}.operator", operator, ["Equal", "Exists"])
        if operator == "Exists" and toleration.get("value"):
            causes.invalid(
                f"{where}.operator", toleration, "value must be empty when `operator` is 'Exists'"
            )
        if not toleration.get("key") and operator != "Exists":
            causes.invalid(
                f"{where}.operator", operator, "operator must be Exists when `key` is empty"
            )
        effect = toleration.get("effect")
        if effect and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            causes.unsupported(
                f"{where}.effect", effect, ["NoSchedule", "PreferNoSchedule", "NoExecute"]
            )


def _affinity(affinity: dict[str, Any], path: str, causes: Causes) -> None:
    node = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if node is not None:
        where = (
            f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        )
        terms = node.get("nodeSelectorTerms") or []
        if not terms:
            causes.required(where, "must have at least one node selector term")
        for i, term in enumerate(terms):
            for j, expression in enumerate(term.get("matchFields") or []):
                if expression.get("key") != "metadata.name":
                    causes.invalid(
                        f"{where}[{i}].matchFields[{j}].key",
                        expression.get("key", ""),
                        "not a valid field selector key",
                    )
            for j, expression in enumerate(term.get("matchExpressions") or []):
                operator = expression.get("operator")
                at = f"{where}[{i}].matchExpressions[{j}]"
                if operator in ("In", "NotIn") and not expression.get("values"):
                    causes.required(
                        f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                    )
                if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
                    causes.invalid(
                        f"{at}.operator", operator or "", "not a valid selector operator"
                    )
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (affinity.get(kind) or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or []
        for i, term in enumerate(terms):
            if not term.get("topologyKey"):
                causes.required(
                    f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{i}].topologyKey",
                    "can not be empty",
                )


_MUTABLE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_update(old: dict[str, Any], new: dict[str, Any], causes: Causes) -> None:
    """What may change in the spec of a pod that exists."""
    if old == new:
        return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or after > before):
        (
            causes.invalid(
                "spec.activeDeadlineSeconds", after, "must be less than or equal to previous value"
            )
            if after is not None
            else causes.invalid(
                "spec.activeDeadlineSeconds",
                None,
                "must not update from a positive integer to nil value",
            )
        )
        return
    had, has = old.get("tolerations") or [], new.get("tolerations") or []
    if any(t not in has for t in had):
        causes.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
        return
    if _frozen(old) != _frozen(new):
        causes.items.append({"reason": "FieldValueForbidden", "message": _MUTABLE, "field": "spec"})


def _frozen(spec: dict[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
    for field in ("containers", "initContainers"):
        if field in out:
            out[field] = [{k: v for k, v in c.items() if k != "image"} for c in out[field]]
    return out


def template(resource: Resource, obj: dict[str, Any], causes: Causes) -> None:
    """The pod template of a controller, and its selector."""
    spec = obj.get("spec") or {}
    pod = spec.get("template") or {}
    if resource.plural == "cronjobs":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
        pod = spec.get("template") or {}
    path = "spec.jobTemplate.spec.template" if resource.plural == "cronjobs" else "spec.template"
    job = resource.group == "batch"
    meta = pod.get("metadata") or {}
    labels(meta.get("labels"), f"{path}.metadata.labels", causes)
    annotations(meta.get("annotations"), f"{path}.metadata.annotations", causes)
    if job and "restartPolicy" not in (pod.get("spec") or {}):
        causes.required(f"{path}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        pod = {**pod, "spec": {**(pod.get("spec") or {}), "restartPolicy": "Never"}}
    pod_spec(
        pod.get("spec") or {},
        f"{path}.spec",
        causes,
        ("OnFailure", "Never") if job else ("Always",),
    )
    if not job:
        selector = spec.get("selector")
        if not selector:
            causes.required("spec.selector")
        else:
            wanted = selector.get("matchLabels") or {}
            have = meta.get("labels") or {}
            if any(have.get(k) != v for k, v in wanted.items()):
                causes.invalid(
                    f"{path}.metadata.labels", have, "`selector` does not match template `labels`"
                )


IMMUTABLE = {
    ("apps", "daemonsets"): ("selector",),
    ("apps", "deployments"): ("selector",),
    ("apps", "replicasets"): ("selector",),
    ("batch", "jobs"): (
        "selector",
        "template",
        "completions",
        "completionMode",
        "podFailurePolicy",
    ),
}


def immutable(resource: Resource, old: dict[str, Any], new: dict[str, Any], causes: Causes) -> None:
    """Fields of controllers that stay as they were created."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in IMMUTABLE.get(resource.key, ()):
        if before.get(field) != after.get(field):
            causes.invalid(f"spec.{field}", after.get(field), "field is immutable")
    if resource.plural in ("rolebindings", "clusterrolebindings") and old.get("roleRef") != new.get(
        "roleRef"
    ):
        causes.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def no_update_of_identity(
    resource: Resource, name: str, namespace: str | None, body: dict[str, Any]
) -> None:
    """The name in the body must be the one of the path."""
    meta = body.get("metadata") or {}
    if meta.get("name") and meta["name"] != name:
        raise ApiError(
            400,
            "BadRequest",
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})",
        )
    if namespace and meta.get("namespace") and meta["namespace"] != namespace:
        raise ApiError(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        )
