"""Who may do what: bearer tokens and the RBAC objects of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import ApiError, qualified
from .store import Store

GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class User:
    """A caller."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def admin(self) -> bool:
        """Whether everything is allowed."""
        return "system:masters" in self.groups


def service_account_user(namespace: str, name: str) -> User:
    """A service account as a caller."""
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ),
    )


@dataclass(frozen=True)
class Attributes:
    """One request, as authorisation sees it."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """resource/subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Evaluates Role, ClusterRole and their bindings; the rules of a user are put together once a change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rules: dict[User, list[tuple[str, dict[str, Any]]]] = {}
        self.denied: set[tuple[str, str]] = (
            set()
        )  # (verb or *, resource): refused to everybody, a fault
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            store.listen((GROUP, plural), lambda _event: self._rules.clear())

    def allowed(self, user: User, what: Attributes) -> bool:
        """Whether some rule of the user covers the request."""
        if any(v in ("*", what.verb) and r == what.full_resource for v, r in self.denied):
            return False
        if user.admin:
            return True
        return any(
            namespace in ("", what.namespace) and _covers(rule, what)
            for namespace, rule in self.rules(user)
        )

    def check(self, user: User, what: Attributes) -> None:
        """Raises 403 in the server's wording."""
        if self.allowed(user, what):
            return
        name = f' "{what.name}"' if what.name else ""
        scope = f'in the namespace "{what.namespace}"' if what.namespace else "at the cluster scope"
        details: dict[str, Any] = {"kind": what.resource}
        if what.name:
            details["name"] = what.name
        if what.group:
            details["group"] = what.group
        raise ApiError(
            403,
            "Forbidden",
            f'{qualified(what.resource, what.group)}{name} is forbidden: User "{user.name}" cannot {what.verb} '
            f'resource "{what.full_resource}" in API group "{what.group}" {scope}',
            details,
        )

    def rules(self, user: User) -> list[tuple[str, dict[str, Any]]]:
        """Pairs of namespace ("" is everywhere) and rule."""
        if user not in self._rules:
            self._rules[user] = self._collect(user)
        return self._rules[user]

    def _collect(self, user: User) -> list[tuple[str, dict[str, Any]]]:
        out = []
        for plural in ("clusterrolebindings", "rolebindings"):
            for binding in self._store.all((GROUP, plural)):
                if not any(_is_subject(user, s, binding) for s in binding.get("subjects") or []):
                    continue
                namespace = binding["metadata"].get("namespace", "")
                ref = binding["roleRef"]
                where = namespace if ref["kind"] == "Role" else None
                role = self._store.find((GROUP, ref["kind"].lower() + "s"), where, ref["name"])
                out += [(namespace, rule) for rule in (role or {}).get("rules") or []]
        return out


def _is_subject(user: User, subject: dict[str, Any], binding: dict[str, Any]) -> bool:
    if subject["kind"] == "ServiceAccount":
        namespace = subject.get("namespace") or binding["metadata"].get("namespace", "")
        return user.name == f"system:serviceaccount:{namespace}:{subject['name']}"
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    return subject["name"] == user.name


def _covers(rule: dict[str, Any], what: Attributes) -> bool:
    def has(field: str, value: str) -> bool:
        values = rule.get(field) or []
        return "*" in values or value in values

    if not (has("verbs", what.verb) and has("apiGroups", what.group)):
        return False
    resources = rule.get("resources") or []
    fits = (
        "*" in resources
        or what.full_resource in resources
        or (what.subresource and f"*/{what.subresource}" in resources)
    )
    names = rule.get("resourceNames") or []
    return bool(fits) and (not names or what.name in names)
