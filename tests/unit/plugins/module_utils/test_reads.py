from __future__ import annotations

import inspect

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils import reads
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import K8SClient


class ApiError(Exception):
    def __init__(self, status, body=b'{"message": "no"}'):
        super().__init__(status)
        self.status, self.reason, self.body = status, "Reason", body


class ResourceNotFoundError(Exception):
    pass


class Answer:
    def __init__(self, content):
        self.content = content

    def to_dict(self):
        return self.content


class Client:
    """Hands out prepared answers and keeps what was asked; takes no call that kubernetes.core's client would not take."""

    def __init__(self, *answers, unknown=False):
        self.answers, self.unknown, self.asked = list(answers), unknown, []

    def resource(self, kind, api_version):
        if self.unknown:
            raise ResourceNotFoundError(kind)
        return f"{api_version}/{kind}"

    def create(self, *args, **params):
        return self._answer(K8SClient.create, *args, **params)

    def get(self, *args, **params):
        return self._answer(K8SClient.get, *args, **params)

    def _answer(self, method, resource, **params):
        inspect.signature(method).bind(self, resource, **params)
        self.asked.append((resource, params))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer)


def wanted(**changes):
    return {"api_version": "v1", "kind": "Node", "hidden_fields": ["status"], **changes}


def hide(found, fields):
    return {k: v for k, v in found.items() if k not in fields}


def page(*names, token=None):
    items = [{"metadata": {"name": n}, "status": {"images": []}} for n in names]
    return {"kind": "NodeList", "metadata": {"continue": token}, "items": items}


def names(result):
    return [found["metadata"]["name"] for found in result["resources"]]


def test_a_list_is_read_in_pages_and_fields_are_hidden():
    client = Client(page("a", "b", token="t1"), page("c", token="t2"), page("d"))
    result = reads.read(client, wanted(label_selectors=["x=1", "!y"]), 2, hide)
    assert names(result) == ["a", "b", "c", "d"] and "failed" not in result
    assert not any("status" in found for found in result["resources"])
    first, second, third = (params for _resource, params in client.asked)
    assert first == {"namespace": None, "label_selector": "x=1,!y", "limit": 2}
    assert second["_continue"] == "t1" and third["_continue"] == "t2"
    assert second["label_selector"] == "x=1,!y"


def test_one_object():
    client = Client({"metadata": {"name": "a"}, "status": {}})
    result = reads.read(client, wanted(name="a", namespace="n"), 500, hide)
    assert result == {"resources": [{"metadata": {"name": "a"}}], "api_found": True}
    assert client.asked == [("v1/Node", {"name": "a", "namespace": "n"})]


def test_an_object_that_is_not_there_is_no_failure():
    result = reads.read(Client(ApiError(404)), wanted(name="a"), 500, hide)
    assert result == {"resources": [], "api_found": True}


def test_a_kind_that_is_not_known_is_no_failure():
    result = reads.read(Client(unknown=True), wanted(), 500, hide)
    assert result["api_found"] is False and "failed" not in result and "Node" in result["msg"]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_keeps_the_servers_words(status):
    error = ApiError(status, b'{"message": "nodes is forbidden: User \\"x\\" cannot list"}')
    result = reads.read(Client(error), wanted(), 500, hide)
    assert result["failed"] and "resources" not in result
    assert str(status) in result["msg"] and "nodes is forbidden" in result["msg"]


def test_a_failure_in_a_later_page_is_no_shorter_list():
    result = reads.read(Client(page("a", token="t"), ApiError(410)), wanted(), 1, hide)
    assert result["failed"] and "resources" not in result


REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}


def test_a_review_is_posted_as_it_is():
    client = Client({**REVIEW, "status": {"allowed": True}})
    answer = reads.ask(client, {**REVIEW, "metadata": {"namespace": "n"}})
    assert answer["resource"]["status"] == {"allowed": True} and answer["api_found"] is True
    resource, params = client.asked[0]
    assert resource == "authorization.k8s.io/v1/SelfSubjectAccessReview"
    assert params["namespace"] == "n" and params["definition"]["spec"] == {}


def test_a_review_that_the_server_does_not_know():
    answer = reads.ask(Client(unknown=True), REVIEW)
    assert answer["api_found"] is False and "resource" not in answer and "failed" not in answer


def test_a_review_that_is_refused():
    answer = reads.ask(Client(ApiError(403)), REVIEW)
    assert answer["failed"] and "403" in answer["msg"] and "resource" not in answer
