# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads objects of many kinds, and asks what is allowed, with one client: the engine of the module k8s_read."""

from __future__ import annotations

PAGES_AT_MOST = (
    10000  # a server that hands out continue tokens for ever must not hold the task for ever
)


def read(client, wanted, page_size, hide):
    """Reads what one entry of `reads` asks for.

    Args:
        client: kubernetes.core's K8SClient. wanted: {api_version, kind, namespace, name, label_selectors, field_selectors,
        hidden_fields}. page_size: objects of a list request. hide: kubernetes.core's hide_fields.

    Returns:
        {resources, api_found}; {api_found, failed, msg} where the server refused or did not answer. A kind that the server
        does not know is not a failure: api_found is false. An object that is not there is an empty list.
    """
    try:
        resource = _resource(client, wanted["kind"], wanted["api_version"])
        if resource is None:
            return {"resources": [], **_unknown(wanted["kind"], wanted["api_version"])}
        return {
            "resources": [
                hide(found, wanted.get("hidden_fields"))
                for found in _objects(client, resource, wanted, page_size)
            ],
            "api_found": True,
        }
    except Exception as error:
        if getattr(error, "status", None) == 404:
            return {"resources": [], "api_found": True}
        return _failed(error)


def ask(client, review):
    """Posts one review: an object that the server answers and does not store.

    Args:
        client: kubernetes.core's K8SClient. review: the object, with apiVersion and kind.

    Returns:
        {resource, api_found} with the server's answer; {api_found, msg} where it does not know the kind; {api_found, failed,
        msg} where it refused or did not answer.
    """
    kind, api_version = review["kind"], review["apiVersion"]
    namespace = (review.get("metadata") or {}).get("namespace")
    try:
        resource = _resource(client, kind, api_version)
        if resource is None:
            return _unknown(kind, api_version)
        answer = client.create(resource, definition=review, namespace=namespace)
        return {"resource": answer.to_dict(), "api_found": True}
    except Exception as error:
        return _failed(error)


def _resource(client, kind, api_version):
    """What the client knows of the kind; None where the server does not serve it."""
    try:
        return client.resource(kind, api_version)
    except Exception as error:
        if type(error).__name__ in ("ResourceNotFoundError", "ResourceNotUniqueError"):
            return None
        raise


def _unknown(kind, api_version):
    return {"api_found": False, "msg": f"the API server knows no {kind} of {api_version}"}


def _failed(error):
    # no `resources`: nothing is known of them, and an empty list would say that there are none
    return {"api_found": True, "failed": True, "msg": _words(error)}


def _words(error):
    """The server's own words, which say verb, resource and user where RBAC refused."""
    body = getattr(error, "body", None)
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    status = getattr(error, "status", None)
    return f"{status} {getattr(error, 'reason', '')}: {body}" if body else str(error)


def _objects(client, resource, wanted, page_size):
    where = {"namespace": wanted.get("namespace") or None}
    if wanted.get("name"):
        yield client.get(resource, name=wanted["name"], **where).to_dict()
        return
    selectors = {
        "label_selector": ",".join(wanted.get("label_selectors") or []),
        "field_selector": ",".join(wanted.get("field_selectors") or []),
    }
    where.update({key: value for key, value in selectors.items() if value})
    token = None
    for _page in range(PAGES_AT_MOST):
        page = {"_continue": token} if token else {}
        found = client.get(resource, limit=page_size, **where, **page).to_dict()
        yield from found.get("items") or []
        token = (found.get("metadata") or {}).get("continue")
        if not token:
            return
