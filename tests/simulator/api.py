"""The verbs of the API on objects: create, get, list, update, patch, delete. No HTTP here, and no permissions."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from . import admission, patches, validation
from .clock import timestamp
from .errors import (
    ApiError,
    Causes,
    already_exists,
    bad_request,
    conflict,
    expired,
    forbidden,
    modified_meanwhile,
    not_found,
)
from .resources import Registry, Resource, resources_of_crd
from .schema import CustomDecoder, Decoder
from .selectors import field_selector, label_selector
from .store import Entry, Obj, Store, thaw

# Types whose metadata has a generation that counts changes of the spec.
_GENERATIONS = {
    "pods",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "jobs",
    "cronjobs",
}
_TEMPLATES = {"daemonsets", "deployments", "replicasets", "statefulsets", "jobs", "cronjobs"}
_READ_ONLY_META = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


@dataclass
class WriteOptions:
    """The query parameters of a write."""

    validation: str = "Warn"  # fieldValidation: Strict, Warn, Ignore
    dry_run: bool = False
    manager: str = ""
    force: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass
class ListResult:
    """A page of a list: objects, resource version, the token for the next page and how many are left."""

    entries: list[Entry]
    version: int
    next: str = ""
    remaining: int | None = None


class Api:
    """Acts on the store as an API server would."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.store = store
        self.registry = registry
        self._applied: dict[tuple[str, str], patches.Paths] = {}

    # ---- reading
    def get(self, resource: Resource, namespace: str | None, name: str) -> Entry:
        """One object; raises 404."""
        entry = self.store.entry(resource.key, namespace, name)
        if entry is None:
            raise not_found(resource.plural, resource.group, name)
        return entry

    def list(self, resource: Resource, namespace: str | None, query: Any) -> ListResult:
        """A page of the objects that fit the selectors; continues from a token over a snapshot's key."""
        labels = label_selector(query.get("labelSelector"))
        fields = field_selector(query.get("fieldSelector"), resource.key, resource.kind)
        limit = _number(query.get("limit"), "limit")
        token = query.get("continue")
        version = self.store.version
        start: tuple[str, str] = ("", "")
        if token:
            version, start = self._continue(token)
        entries = self.store.entries(resource.key, namespace)
        if token:
            entries = [e for e in entries if _place(e) > start]
        if labels or fields:
            entries = [
                e
                for e in entries
                if (not labels or labels(e.obj)) and (not fields or fields(e.obj))
            ]
        if not limit or len(entries) <= limit:
            return ListResult(entries, version)
        page = entries[:limit]
        remaining = None if labels or fields else len(entries) - limit
        mark = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": _place(page[-1])})
        return ListResult(
            page, version, base64.urlsafe_b64encode(mark.encode()).decode(), remaining
        )

    def _continue(self, token: str) -> tuple[int, tuple[str, str]]:
        try:
            mark = json.loads(base64.urlsafe_b64decode(token.encode()))
            version, start = int(mark["rv"]), (mark["start"][0], mark["start"][1])
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request("continue key is not valid: illegal base64 data") from error
        if version < self.store.oldest:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new"
                " list without the continue parameter."
            )
        return version, start

    # ---- creating
    def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Any,
        options: WriteOptions | None = None,
    ) -> Obj:
        """Stores a new object and returns it; raises ApiError."""
        options = options or WriteOptions()
        obj = self._decode(resource, body, options)
        meta = obj.setdefault("metadata", {})
        self._place_in_namespace(resource, namespace, meta)
        if not meta.get("name"):
            if not meta.get("generateName"):
                causes = Causes()
                causes.required("metadata.name", "name or generateName is required")
                causes.raise_if_any(resource.kind, "", resource.group)
            meta["name"] = meta["generateName"] + admission.suffix()
        for name in (*_READ_ONLY_META, "resourceVersion", "selfLink", "managedFields"):
            if name == "resourceVersion" and meta.get(name):
                raise ApiError(
                    400, "BadRequest", "resourceVersion should not be set on objects to be created"
                )
            meta.pop(name, None)
        self._default(resource, obj)
        causes = Causes()
        validation.metadata(resource, meta, causes)
        self._validate(resource, obj, causes)
        causes.raise_if_any(resource.kind, meta["name"], resource.group)
        if resource.namespaced:
            self._namespace_accepts(resource, meta)
        if self.store.find(resource.key, meta.get("namespace"), meta["name"]) is not None:
            raise already_exists(resource.plural, resource.group, meta["name"])
        if resource.key == ("", "pods"):
            options.warnings += admission.admit_pod(self.store, obj)
            obj["status"] = {"phase": "Pending", "qosClass": _qos(obj["spec"])}
        elif resource.key == ("", "namespaces"):
            obj["spec"] = {"finalizers": ["kubernetes"]}
            obj["status"] = {"phase": "Active"}
            meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
        elif "status" in resource.subresources and resource.key != ("", "nodes"):
            obj.pop("status", None)
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = timestamp()
        if resource.custom or resource.plural in _GENERATIONS:
            meta["generation"] = 1
        if resource.key == ("batch", "jobs"):
            _job_identity(obj)
        elif resource.key == ("apiextensions.k8s.io", "customresourcedefinitions"):
            obj["status"] = crd_status(obj)
        if options.dry_run:
            return obj
        if options.manager:
            self._remember(meta["uid"], options.manager, body)
        self.put(resource, obj)
        return obj

    def put(self, resource: Resource, obj: Obj) -> Obj:
        """Stores an object as it is, for controllers and for the content of a new cluster."""
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        meta = obj["metadata"]
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", timestamp())
        if (
            meta.get("deletionTimestamp")
            and not meta.get("finalizers")
            and resource.key != ("", "pods")
        ):
            known = self.store.find(resource.key, meta.get("namespace"), meta["name"])
            if known is not None and resource.key != ("", "namespaces"):
                self.remove(resource, meta.get("namespace"), meta["name"])
                return obj
        self.store.put(resource.key, obj)
        if resource.key == ("apiextensions.k8s.io", "customresourcedefinitions"):
            for custom in resources_of_crd(obj):
                self.registry.add(custom)
        return obj

    def _decode(self, resource: Resource, body: Any, options: WriteOptions) -> Obj:
        if not isinstance(body, dict):
            raise bad_request("the object provided is unrecognized: expected a JSON object")
        kind, version = body.get("kind"), body.get("apiVersion")
        if not kind and not version and resource.custom:
            raise bad_request("Object 'Kind' is missing in '{}'")
        if (kind and kind != resource.kind) or (version and version != resource.api_version):
            raise bad_request(
                f"the API version in the data ({version}, Kind={kind}) does not match the expected API version "
                f"({resource.api_version}, Kind={resource.kind})"
            )
        if resource.custom:
            decoder = CustomDecoder(resource.schema)
            obj = decoder.decode(body)
            unknown, causes = decoder.unknown, decoder.causes
        else:
            plain = Decoder(resource.kind)
            obj, unknown, causes = plain.decode(body), plain.unknown, Causes()
        if unknown and options.validation == "Strict":
            fields = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: strict '
                f"decoding error: {fields}"
            )
        if unknown and options.validation == "Warn":
            options.warnings += [f'unknown field "{path}"' for path in unknown]
        name = str((obj.get("metadata") or {}).get("name", ""))
        causes.raise_if_any(resource.kind, name, resource.group)
        return obj

    def _place_in_namespace(self, resource: Resource, namespace: str | None, meta: Obj) -> None:
        if not resource.namespaced:
            meta.pop("namespace", None)
            return
        if meta.get("namespace") and namespace and meta["namespace"] != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not namespace:
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
                {},
            )
        meta["namespace"] = namespace

    def _namespace_accepts(self, resource: Resource, meta: Obj) -> None:
        namespace = self.store.find(("", "namespaces"), None, meta["namespace"])
        if namespace is None:
            raise not_found("namespaces", "", meta["namespace"])
        if namespace["metadata"].get("deletionTimestamp"):
            raise forbidden(
                resource.plural,
                resource.group,
                meta["name"],
                f"unable to create new content in namespace {meta['namespace']} because it is being terminated",
            )

    def _default(self, resource: Resource, obj: Obj) -> None:
        if resource.key == ("", "pods"):
            admission.default_pod_spec(obj.setdefault("spec", {}))
        elif resource.plural in _TEMPLATES and not resource.custom:
            spec = obj.setdefault("spec", {})
            job = spec
            if resource.plural == "cronjobs":
                job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
            template = job.setdefault("template", {})
            policy = (template.get("spec") or {}).get("restartPolicy")
            admission.default_pod_spec(template.setdefault("spec", {}))
            if resource.group == "batch" and policy is None:
                del template["spec"]["restartPolicy"]
            if resource.plural == "jobs":
                for name, value in (
                    ("parallelism", 1),
                    ("backoffLimit", 6),
                    ("completionMode", "NonIndexed"),
                    ("suspend", False),
                ):
                    spec.setdefault(name, value)
                if "completions" not in spec and spec["parallelism"] == 1:
                    spec["completions"] = 1
            if resource.plural == "daemonsets":
                spec.setdefault(
                    "updateStrategy",
                    {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                    },
                )
                spec.setdefault("revisionHistoryLimit", 10)
            if resource.plural in ("deployments", "replicasets", "statefulsets"):
                spec.setdefault("replicas", 1)
        elif resource.key == ("apiextensions.k8s.io", "customresourcedefinitions"):
            names = (obj.get("spec") or {}).get("names") or {}
            if "kind" in names:
                names.setdefault("singular", names["kind"].lower())
                names.setdefault("listKind", names["kind"] + "List")

    def _validate(self, resource: Resource, obj: Obj, causes: Causes) -> None:
        if resource.key == ("", "pods"):
            validation.pod_spec(obj.get("spec") or {}, "spec", causes)
        elif resource.plural in _TEMPLATES and not resource.custom:
            validation.template(resource, obj, causes)

    # ---- changing
    def update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Obj:
        """Replaces an object (or its status) with the one given."""
        options = options or WriteOptions()
        old = self.get(resource, namespace, name).obj
        new = self._decode(resource, body, options)
        validation.no_update_of_identity(resource, name, namespace, new)
        return self._replace(resource, old, new, subresource, options)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        kind: str,
        patch: Any,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> tuple[int, Obj]:
        """Patches an object; returns the HTTP code (201 when apply created it) and the object."""
        options = options or WriteOptions()
        if kind == "application/apply-patch+yaml":
            return self._apply(resource, namespace, name, patch, subresource, options)
        old = self.get(resource, namespace, name).obj
        if kind == "application/json-patch+json":
            new = patches.json_patch(old, patch)
        elif kind == "application/merge-patch+json":
            new = patches.merge(old, patch)
        elif kind == "application/strategic-merge-patch+json" and not resource.custom:
            new = patches.strategic(old, patch)
        else:
            accepted = ["application/json-patch+json", "application/merge-patch+json"]
            accepted += [] if resource.custom else ["application/strategic-merge-patch+json"]
            accepted += ["application/apply-patch+yaml"]
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(accepted),
            )
        new = self._decode(resource, thaw(new), options)
        validation.no_update_of_identity(resource, name, namespace, new)
        return 200, self._replace(resource, old, new, subresource, options)

    def _apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        config: Any,
        subresource: str,
        options: WriteOptions,
    ) -> tuple[int, Obj]:
        if not options.manager:
            raise ApiError(
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
            )
        if not isinstance(config, dict) or (config.get("metadata") or {}).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        entry = self.store.entry(resource.key, namespace, name)
        if entry is None:
            config = {**config, "metadata": {**(config.get("metadata") or {}), "name": name}}
            return 201, self.create(resource, namespace, config, options)
        old = entry.obj
        paths = patches.owned_paths(config)
        before = self._applied.get((old["metadata"]["uid"], options.manager), set())
        new = patches.apply(old, config)
        for path in before - paths:
            if path[:1] not in (("apiVersion",), ("kind",)) and path[:2] != ("metadata", "name"):
                new = patches.drop(new, path)
        if not (config.get("metadata") or {}).get("resourceVersion"):
            new = {
                **new,
                "metadata": {
                    **new["metadata"],
                    "resourceVersion": old["metadata"]["resourceVersion"],
                },
            }
        new = self._decode(resource, thaw(new), options)
        out = self._replace(resource, old, new, subresource, options)
        if not options.dry_run:
            self._remember(old["metadata"]["uid"], options.manager, config)
        return 200, out

    def _remember(self, uid: str, manager: str, config: Any) -> None:
        self._applied[(uid, manager)] = patches.owned_paths(config)

    def _replace(
        self, resource: Resource, old: Obj, new: Obj, subresource: str, options: WriteOptions
    ) -> Obj:
        meta = dict(new.get("metadata") or {})
        before = old["metadata"]
        name = before["name"]
        version = meta.get("resourceVersion")
        if version and version != before["resourceVersion"]:
            raise modified_meanwhile(resource.plural, resource.group, name)
        if meta.get("uid") and meta["uid"] != before["uid"]:
            raise conflict(
                resource.plural,
                resource.group,
                name,
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}",
            )
        if subresource == "status":
            new = {**old, "status": new.get("status") or {}}
            meta = dict(before)
        else:
            if "status" in resource.subresources:
                new = {k: v for k, v in new.items() if k != "status"}
                if "status" in old:
                    new["status"] = old["status"]
            meta.pop("managedFields", None)
            for field_name in _READ_ONLY_META:
                meta.pop(field_name, None)
                if field_name in before:
                    meta[field_name] = before[field_name]
            meta["name"] = name
            if "namespace" in before:
                meta["namespace"] = before["namespace"]
        new = {**new, "metadata": meta, "apiVersion": resource.api_version, "kind": resource.kind}
        if not subresource:
            new = thaw(new)
            meta = new["metadata"]
            self._default(resource, new)
            self._check_update(resource, old, new)
        meta["resourceVersion"] = before["resourceVersion"]
        if new == old:
            return old
        changed_spec = {k: v for k, v in new.items() if k not in ("metadata", "status")} != {
            k: v for k, v in old.items() if k not in ("metadata", "status")
        }
        if "generation" in before:
            meta["generation"] = before["generation"] + changed_spec
        if options.dry_run:
            return new
        return self.put(resource, new)

    def _check_update(self, resource: Resource, old: Obj, new: Obj) -> None:
        meta = new["metadata"]
        causes = Causes()
        validation.metadata(resource, meta, causes)
        if resource.key == ("", "pods"):
            validation.pod_update(old["spec"], new.get("spec") or {}, causes)
            causes.raise_if_any(resource.kind, meta["name"], resource.group)
        self._validate(resource, new, causes)
        validation.immutable(resource, old, new, causes)
        causes.raise_if_any(resource.kind, meta["name"], resource.group)

    # ---- deleting
    def delete(
        self, resource: Resource, namespace: str | None, name: str, options: Obj | None = None
    ) -> Obj:
        """Deletes an object, gracefully where it runs somewhere; returns it, or a Status when it is gone."""
        options = options or {}
        old = self.get(resource, namespace, name).obj
        meta = old["metadata"]
        self._preconditions(resource, meta, options.get("preconditions") or {})
        dry_run = bool(options.get("dryRun"))
        policy = options.get("propagationPolicy")
        finalizers = list(meta.get("finalizers") or [])
        if policy == "Foreground" and self._dependents(meta["uid"]):
            finalizers.append("foregroundDeletion")
        orphans = policy == "Orphan" or (policy is None and resource.key == ("batch", "jobs"))
        if orphans and not dry_run:
            self._orphan(meta["uid"])
        grace = self._grace(resource, old, options)
        if resource.key == ("", "namespaces"):
            finalizers = finalizers or ["kubernetes"]
        if grace or finalizers:
            stays = resource.key == ("", "namespaces") or finalizers
            if "deletionTimestamp" in meta and grace >= (
                meta.get("deletionGracePeriodSeconds") or 0
            ):
                return old
            new = {**old, "metadata": {**meta}}
            new["metadata"]["deletionTimestamp"] = timestamp(grace)
            new["metadata"]["deletionGracePeriodSeconds"] = grace
            if stays and resource.key != ("", "namespaces"):
                new["metadata"]["finalizers"] = finalizers
            if resource.key == ("", "namespaces"):
                new["status"] = {"phase": "Terminating"}
            if not dry_run:
                self.store.put(resource.key, new)
            return new
        if not dry_run:
            self.remove(resource, namespace, name)
        if resource.key == ("", "pods"):
            return old
        details = {"name": name, "kind": resource.plural, "uid": meta["uid"]}
        if resource.group:
            details["group"] = resource.group
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Takes an object out at once."""
        gone = self.store.remove(resource.key, namespace, name)
        if gone and resource.key == ("apiextensions.k8s.io", "customresourcedefinitions"):
            spec = gone["spec"]
            key = (spec["group"], spec["names"]["plural"])
            for obj in list(self.store.all(key)):
                self.store.remove(key, obj["metadata"].get("namespace"), obj["metadata"]["name"])
            self.registry.remove(*key)

    def _preconditions(self, resource: Resource, meta: Obj, wanted: Obj) -> None:
        for text, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
            if wanted.get(key) and wanted[key] != meta[key]:
                raise conflict(
                    resource.plural,
                    resource.group,
                    meta["name"],
                    f"Precondition failed: {text} in precondition: {wanted[key]}, {text} in object meta: {meta[key]}",
                )

    def _grace(self, resource: Resource, old: Obj, options: Obj) -> int:
        if resource.key != ("", "pods"):
            return 0
        grace = options.get("gracePeriodSeconds")
        if grace is None:
            grace = old["spec"].get("terminationGracePeriodSeconds", 30)
        done = old["status"].get("phase") in ("Succeeded", "Failed")
        return 0 if done or not old["spec"].get("nodeName") else int(grace)

    def _dependents(self, uid: str) -> list[tuple[Resource, Obj]]:
        return [
            (self.registry.of_key(key), entry.obj)
            for key, entry in self.store.everything()
            if any(o.get("uid") == uid for o in entry.obj["metadata"].get("ownerReferences") or ())
        ]

    def dependents(self, uid: str) -> list[tuple[Resource, Obj]]:
        """Objects that name the one with this uid as an owner."""
        return self._dependents(uid)

    def _orphan(self, uid: str) -> None:
        for resource, obj in self._dependents(uid):
            refs = [o for o in obj["metadata"]["ownerReferences"] if o.get("uid") != uid]
            self.put(resource, {**obj, "metadata": {**obj["metadata"], "ownerReferences": refs}})


def _place(entry: Entry) -> tuple[str, str]:
    meta = entry.obj["metadata"]
    return (meta.get("namespace") or "", meta["name"])


def _number(text: str | None, name: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})') from error


def _qos(spec: Obj) -> str:
    resources = [c.get("resources") or {} for c in spec["containers"]]
    basic = [
        {
            k: v
            for part in r.values()
            if isinstance(part, dict)
            for k, v in part.items()
            if k in ("cpu", "memory")
        }
        for r in resources
    ]
    if not any(basic):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(r.get("limits") or {})
        and all((r.get("requests") or {}).get(k) == r["limits"][k] for k in ("cpu", "memory"))
        for r in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _job_identity(job: Obj) -> None:
    meta, spec = job["metadata"], job["spec"]
    labels = {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    spec.setdefault(
        "selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}
    )
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}


def crd_status(crd: Obj) -> Obj:
    """The status of a CustomResourceDefinition that has been accepted."""
    spec = crd["spec"]
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(),
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [v["name"] for v in spec["versions"] if v.get("storage")]
    return {"acceptedNames": spec["names"], "conditions": conditions, "storedVersions": stored}
