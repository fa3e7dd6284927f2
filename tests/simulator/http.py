"""The HTTP side of the API server: authentication, routes, permissions, and the few requests that are no objects."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from . import discovery, exec_ws, tables
from .api import WriteOptions
from .cluster import Cluster
from .errors import ApiError, bad_request, conflict, no_such_path
from .rbac import Attributes, User
from .resources import Resource
from .watching import watch

WATCH_SECONDS = 1800.0
_METHODS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Target:
    """A path, taken apart."""

    resource: Resource
    namespace: str | None
    name: str | None
    subresource: str


class ApiServer:
    """Handles requests."""

    def __init__(self, cluster: Cluster, tokens: dict[str, User]) -> None:
        self._cluster = cluster
        self._tokens = tokens
        self._flaky = random.Random(cluster.config.seed + 2)

    # ---- entry
    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a request; refusals become Status objects."""
        try:
            return await self._route(request)
        except ApiError as error:
            return web.json_response(error.status(), status=error.code, headers=error.headers)

    def _authenticate(self, request: web.Request) -> User:
        scheme, _unused, token = request.headers.get("Authorization", "").partition(" ")
        user = self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def _flake(self) -> None:
        fault = self._cluster.faults.hit("api_flaky")
        if fault is None or self._flaky.random() >= fault["rate"]:
            return
        if self._flaky.random() < 0.5:
            raise ApiError(
                429,
                "TooManyRequests",
                "The server has received too many requests and has asked us to try again later",
                {"retryAfterSeconds": fault["retry_after"]},
                {"Retry-After": str(fault["retry_after"])},
            )
        raise ApiError(
            503, "ServiceUnavailable", "the server is currently unable to handle the request"
        )

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        user = self._authenticate(request)
        self._flake()
        parts = path.strip("/").split("/")
        document = self._discovery(request, parts)
        if document is not None:
            return web.json_response(document)
        target = self._target(parts)
        return await self._serve(request, user, target)

    def _discovery(self, request: web.Request, parts: list[str]) -> dict[str, Any] | None:
        registry = self._cluster.registry
        if request.method != "GET":
            return None
        if parts == ["version"]:
            return discovery.version()
        if parts == ["api"]:
            return discovery.versions(request.host)
        if parts == ["apis"]:
            return discovery.groups(registry)
        if parts[0] == "api" and len(parts) == 2:
            return discovery.resources(registry, "", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            return {"kind": "APIGroup", "apiVersion": "v1", **discovery.group(registry, parts[1])}
        if parts[0] == "apis" and len(parts) == 3:
            return discovery.resources(registry, parts[1], parts[2])
        if parts == ["openapi", "v3"]:
            return discovery.openapi_index(registry)
        if parts[:2] == ["openapi", "v3"]:
            return discovery.openapi(registry, parts[2:])
        return None

    def _target(self, parts: list[str]) -> Target:
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise no_such_path()
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self._cluster.registry.find(group, version, rest[0])
        if namespace is not None and not resource.namespaced:
            raise no_such_path()
        name = rest[1] if len(rest) > 1 else None
        subresource = "/".join(rest[2:])
        if subresource and subresource not in resource.subresources:
            raise no_such_path()
        if name and resource.namespaced and namespace is None:
            raise no_such_path()
        return Target(resource, namespace, name, subresource)

    # ---- permission
    def _permit(self, user: User, verb: str, target: Target) -> None:
        resource = target.resource
        namespace = target.namespace or (
            target.name if resource.key == ("", "namespaces") and target.name else ""
        )
        what = Attributes(
            verb,
            resource.group,
            resource.plural,
            target.subresource,
            namespace or "",
            target.name or "",
        )
        label = f"{verb} {what.full_resource}" + (f".{resource.group}" if resource.group else "")
        self._cluster.requests[label] += 1
        self._cluster.authorizer.check(user, what)

    # ---- objects
    async def _serve(self, request: web.Request, user: User, target: Target) -> web.StreamResponse:
        method, query = request.method, request.query
        if method not in _METHODS:
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        if target.subresource == "exec":
            return await self._exec(request, user, target)
        watching = method == "GET" and query.get("watch") in ("1", "true")
        verb = _METHODS[method]
        if method == "GET" and watching:
            verb = "watch"
        elif method == "GET" and not target.name:
            verb = "list"
        elif method == "DELETE" and not target.name:
            verb = "deletecollection"
        self._permit(user, verb, target)
        if verb not in target.resource.verbs and not target.subresource:
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        if verb == "watch":
            return await self._watch(request, target)
        if verb == "list":
            return self._list(request, target)
        if target.subresource == "log":
            return await self._log(request, target)
        api = self._cluster.api
        if verb == "get":
            entry = api.get(target.resource, target.namespace, target.name or "")
            if tables.wanted(request.headers.get("Accept", "")):
                return web.json_response(tables.table(target.resource, [entry], {}))
            return web.Response(body=entry.raw, content_type="application/json")
        body = await self._body(request)
        if verb in ("delete", "deletecollection"):
            return self._delete(request, target, body)
        return self._write(request, user, target, verb, body)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        try:
            seconds = float(request.query.get("timeoutSeconds") or WATCH_SECONDS)
        except ValueError as error:
            raise bad_request("timeoutSeconds must be a number") from error
        if target.name:
            raise no_such_path()
        return await watch(self._cluster.api, target.resource, target.namespace, request, seconds)

    def _list(self, request: web.Request, target: Target) -> web.Response:
        found = self._cluster.api.list(target.resource, target.namespace, request.query)
        meta: dict[str, Any] = {"resourceVersion": str(found.version)}
        if found.next:
            meta["continue"] = found.next
            if found.remaining is not None:
                meta["remainingItemCount"] = found.remaining
        resource = target.resource
        if tables.wanted(request.headers.get("Accept", "")):
            return web.json_response(tables.table(resource, found.entries, meta))
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": meta,
        }
        body = (
            json.dumps(head)[:-1].encode()
            + b',"items":['
            + b",".join(e.raw for e in found.entries)
            + b"]}"
        )
        return web.Response(body=body, content_type="application/json")

    async def _body(self, request: web.Request) -> Any:
        raw = await request.read()
        if not raw:
            return {}
        kind = request.headers.get("Content-Type", "").split(";")[0].strip()
        if "protobuf" in kind:
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json,"
                " application/yaml",
            )
        try:
            return (
                yaml.safe_load(raw)
                if "yaml" in kind and not raw.lstrip().startswith(b"{")
                else json.loads(raw)
            )
        except (ValueError, yaml.YAMLError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error

    def _options(self, request: web.Request) -> WriteOptions:
        query = request.query
        validation = query.get("fieldValidation") or "Warn"
        if validation not in ("Strict", "Warn", "Ignore"):
            raise ApiError(
                422,
                "Invalid",
                f'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "{validation}": supported'
                ' values: "Ignore", "Strict", "Warn"',
            )
        dry_run = query.getall("dryRun", [])
        if any(d != "All" for d in dry_run):
            raise ApiError(
                422,
                "Invalid",
                'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: supported values: "All"',
            )
        agent = request.headers.get("User-Agent", "unknown").split("/")[0]
        manager = query.get("fieldManager", "")
        patch = request.method == "PATCH" and "apply" in request.headers.get("Content-Type", "")
        return WriteOptions(
            validation,
            bool(dry_run),
            manager or ("" if patch else agent),
            query.get("force") in ("true", "1"),
        )

    def _write(
        self, request: web.Request, user: User, target: Target, verb: str, body: Any
    ) -> web.Response:
        api, resource = self._cluster.api, target.resource
        options = self._options(request)
        status = 200
        if verb == "create" and target.subresource == "binding":
            return self._bind(target, body)
        if verb == "create" and resource.group in ("authorization.k8s.io", "authentication.k8s.io"):
            return web.json_response(self._review(user, resource, body), status=201)
        if verb == "create":
            if target.name:
                raise ApiError(
                    405,
                    "MethodNotAllowed",
                    "the server does not allow this method on the requested resource",
                )
            obj = api.create(resource, target.namespace, body, options)
            status = 201
        elif not target.name:
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        elif verb == "update":
            obj = api.update(
                resource, target.namespace, target.name, body, target.subresource, options
            )
        else:
            kind = request.headers.get("Content-Type", "").split(";")[0].strip()
            exists = (
                self._cluster.store.find(resource.key, target.namespace, target.name) is not None
            )
            if kind == "application/apply-patch+yaml" and not exists:
                self._permit(user, "create", Target(resource, target.namespace, None, ""))
            status, obj = api.patch(
                resource, target.namespace, target.name, kind, body, target.subresource, options
            )
        headers = [
            ("Warning", f'299 - "{w.replace(chr(34), chr(92) + chr(34))}"')
            for w in options.warnings
        ]
        response = web.json_response(obj, status=status)
        for name, value in headers:
            response.headers.add(name, value)
        return response

    def _bind(self, target: Target, body: Any) -> web.Response:
        pod = self._cluster.api.get(target.resource, target.namespace, target.name or "").obj
        if pod["spec"].get("nodeName"):
            raise conflict(
                "pods/binding",
                "",
                target.name or "",
                f"pod {target.name} is already assigned to node \"{pod['spec']['nodeName']}\"",
            )
        self._cluster.scheduler.bind(pod, body["target"]["name"])
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }
        return web.json_response(status, status=201)

    def _review(self, user: User, resource: Resource, body: Any) -> dict[str, Any]:
        out = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {},
            "spec": body.get("spec") or {},
        }
        authorizer = self._cluster.authorizer
        if resource.plural == "selfsubjectreviews":
            out["status"] = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
        elif resource.plural == "selfsubjectaccessreviews":
            wanted = out["spec"].get("resourceAttributes")
            if wanted is None:
                out["status"] = {"allowed": True}
                return out
            what = Attributes(
                wanted.get("verb", ""),
                wanted.get("group", ""),
                wanted.get("resource", ""),
                wanted.get("subresource", ""),
                wanted.get("namespace", ""),
                wanted.get("name", ""),
            )
            out["status"] = {"allowed": authorizer.allowed(user, what)}
        else:
            namespace = out["spec"].get("namespace", "")
            rules = (
                [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
                if user.admin
                else [r for n, r in authorizer.rules(user) if n in ("", namespace)]
            )
            out["status"] = {"resourceRules": rules, "nonResourceRules": [], "incomplete": False}
        return out

    def _delete(self, request: web.Request, target: Target, body: Any) -> web.Response:
        api = self._cluster.api
        options = dict(body) if isinstance(body, dict) else {}
        query = request.query
        if query.get("gracePeriodSeconds"):
            options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
        for name in ("propagationPolicy", "orphanDependents"):
            if query.get(name):
                options[name] = query[name]
        if query.get("dryRun"):
            options["dryRun"] = ["All"]
        policy = options.get("propagationPolicy")
        if policy not in (None, "Foreground", "Background", "Orphan"):
            raise ApiError(
                422,
                "Invalid",
                f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "{policy}": supported'
                ' values: "Foreground", "Background", "Orphan", "nil"',
            )
        if target.name:
            response = web.json_response(
                api.delete(target.resource, target.namespace, target.name, options)
            )
            if target.resource.key == ("batch", "jobs") and policy is None:
                response.headers.add(
                    "Warning",
                    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background'
                    ' to remove them or set propagationPolicy=Orphan to suppress this warning"',
                )
            return response
        if target.resource.key == ("", "namespaces"):
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        found = api.list(target.resource, target.namespace, query)
        items = []
        for entry in found.entries:
            meta = entry.obj["metadata"]
            items.append(entry.obj)
            api.delete(target.resource, meta.get("namespace"), meta["name"], options)
        resource = target.resource
        return web.json_response(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": {"resourceVersion": str(self._cluster.store.version)},
                "items": items,
            }
        )

    # ---- pods
    async def _exec(self, request: web.Request, user: User, target: Target) -> web.StreamResponse:
        # A GET needs the verb get, and from 1.35 on create as well: both are asked for, so that neither is forgotten.
        verbs = ("get", "create") if request.method == "GET" else ("create",)
        for verb in verbs:
            self._permit(user, verb, target)
        pod = self._cluster.api.get(target.resource, target.namespace, target.name or "").obj
        return await exec_ws.serve(self._cluster, request, pod)

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        pod = self._cluster.api.get(target.resource, target.namespace, target.name or "").obj
        exec_ws.container_of(pod, request.query)
        exec_ws.reach_kubelet(self._cluster, pod)
        data = self._cluster.kubelet.log_of(pod["metadata"]["uid"])
        if lines := int(request.query.get("tailLines") or 0):
            data = b"".join(data.splitlines(True)[-lines:])
        return web.Response(body=data, content_type="text/plain")
