"""The module as a task of a real playbook, and by itself as Ansible starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.k8si.fabric.plugins.modules import k8s_exec_batch
from ansible_collections.k8si.fabric.tests.unit.plugins.module_utils.exec_server import (
    ExecServer,
    alive,
    really,
    refuses,
    runs,
    sleeps,
    wait_until,
)

kubernetes = pytest.importorskip("kubernetes")

# where this copy of the collection is found: in ansible_collections/k8si/fabric, or by the link in a clone
_HERE = Path(__file__).resolve().parents[4]
_ROOT = (
    _HERE.parents[1].parent
    if _HERE.parts[-3] == "ansible_collections"
    else _HERE / ".build/collections"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    """kubernetes.core keeps what a host and port serve in the folder of temporary files: a port used again would find it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


def environment(**more: str) -> dict:
    paths = [Path(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    # ansible-test shows unit tests of modules an `ansible` that holds nothing but module_utils
    cut = [
        path
        for path in paths
        if (path / "ansible").is_dir() and not (path / "ansible/cli").is_dir()
    ]
    made = {name: value for name, value in os.environ.items() if not name.startswith("K8S_AUTH_")}
    made.update(
        ANSIBLE_COLLECTIONS_PATH=str(_ROOT),
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
        ANSIBLE_LOCALHOST_WARNING="false",
        ANSIBLE_NOCOLOR="1",
        KUBECONFIG="/nonexistent",
        PYTHONPATH=os.pathsep.join(str(path) for path in paths if path not in cut),
        **more,
    )
    return made


def playbook(tmp_path: Path, *tasks: dict, defaults: dict | None = None) -> list:
    """The command that runs a playbook of `tasks`; results registered as r land in r.json."""
    keep = {
        "ansible.builtin.copy": {
            "dest": str(tmp_path / "r.json"),
            "content": "{{ r | to_json }}",
            "mode": "0600",
        }
    }
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "module_defaults": {"group/k8si.fabric.k8s": defaults or {}},
        "tasks": [*tasks, {**keep, "check_mode": False}],
    }
    (tmp_path / "ansible.cfg").write_text("")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    run = [sys.executable, "-c", "from ansible.cli.playbook import main; main()"]
    return [*run, "-i", "localhost,", str(tmp_path / "play.yml")]


def run_task(tmp_path: Path, arguments: dict, defaults: dict, *options: str) -> dict:
    task = {"k8si.fabric.k8s_exec_batch": arguments, "register": "r", "ignore_errors": True}
    done = subprocess.run(
        [*playbook(tmp_path, task, defaults=defaults), *options],
        env=environment(ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg")),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "r.json").read_text())


def item(name: str, *command: str, **more) -> dict:
    return {"id": name, "pod": name, "command": list(command or ("x",)), **more}


def test_the_client_is_the_one_that_is_meant() -> None:
    wanted = os.environ.get("FABRIC_CLIENT")
    if not wanted:
        pytest.skip("no version asked for (FABRIC_CLIENT)")
    assert kubernetes.__version__ == wanted


def test_a_task_with_credentials_from_the_action_group(tmp_path) -> None:
    items = [
        item("a"),
        item("b", "sh", "-c", "printf 'µs\\377'; echo e >&2; exit 3"),
        item("c", end_with="b"),
    ]
    with ExecServer({"a": runs(0, b"out"), "b": really, "c": sleeps()}) as server:
        defaults = {"host": server.url, "api_key": "tok-en", "impersonate_user": "joe"}
        result = run_task(tmp_path, {"items": items, "namespace": "ns"}, defaults)
        call = next(call for call in server.execs if call.pod == "a")
    assert (result["changed"], result["failed"]) == (True, False)
    assert result["outcomes"] == {
        "completed": 2, "ended": 1, "lost": 0, "not_started": 0, "refused": 0, "timeout": 0,
    }  # fmt: skip
    assert result["failed_count"] == 2
    first, second, third = result["results"]
    assert (first["id"], first["rc"], first["stdout"]) == ("a", 0, "out")
    assert (second["rc"], second["stderr"], second["stdout_base64"]) == (3, "e\n", "wrVz/w==")
    assert (third["outcome"], third["reason"]) == ("ended", "ended_with")
    assert call.namespace == "ns"
    assert call.header("authorization") == ["Bearer tok-en"]
    assert call.header("impersonate-user") == ["joe"]


def kubeconfig(url: str, authority: str, user: dict) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }


def test_a_kubeconfig_with_tls_and_a_credential_plugin(tmp_path) -> None:
    trustme = pytest.importorskip("trustme")
    import ssl

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo",
        "args": [json.dumps(credential)],
        "interactiveMode": "Never",
    }
    with ExecServer({"a": runs()}, context) as server:
        config = kubeconfig(server.url, str(tmp_path / "ca.pem"), {"exec": plugin})
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        defaults = {"kubeconfig": str(tmp_path / "kubeconfig"), "context": "one"}
        result = run_task(tmp_path, {"items": [item("a")]}, defaults)
        assert result["results"][0]["rc"] == 0, result
        assert server.execs[0].header("authorization") == ["Bearer from-plugin"]


def test_check_mode_runs_nothing(tmp_path) -> None:
    with ExecServer({"a": runs()}) as server:
        arguments = {"items": [item("a", "echo", "a b")]}
        result = run_task(tmp_path, arguments, {"host": server.url, "api_key": "tok-en"}, "--check")
        assert server.requests == []
    assert result["changed"] is False
    (only,) = result["results"]
    assert (only["outcome"], only["reason"]) == ("not_started", "check_mode")
    assert only["message"] == "pod default/a: would run echo 'a b'"


# ---- by itself: faster than a playbook


STARTER = """
import json, os, sys
from ansible.module_utils import basic
from ansible_collections.k8si.fabric.plugins.modules import k8s_exec_batch

calls = json.load(sys.stdin)
basic._ANSIBLE_PROFILE = "legacy"
for number, call in enumerate(calls, 1):
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": call}).encode()
    if number == len(calls) or not os.fork():
        k8s_exec_batch.main()
    os.wait()
"""


def module(*calls: dict, url: str | None = None) -> subprocess.Popen:
    """Start the module as a process of its own; with several calls one after the other in forks, which saves its slow imports."""
    import ansible

    env = environment()
    where = [str(_ROOT), str(Path(ansible.__file__).parents[1])]
    env["PYTHONPATH"] = os.pathsep.join([*env["PYTHONPATH"].split(os.pathsep), *where]).strip(":")
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    given = {"_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False}
    if url:
        given |= {"host": url, "api_key": "tok-en"}
    process.stdin.write(json.dumps([{**given, **call} for call in calls]).encode())
    process.stdin.close()
    process.stdin = None
    return process


def answers(process: subprocess.Popen) -> list:
    out, error = process.communicate(timeout=180)
    assert out.strip(), error.decode()
    return [json.loads(line) for line in out.splitlines() if line.strip()]


def test_wrong_arguments() -> None:
    cases = {
        "missing required arguments: items": {},
        "which is not an item of this task": {"items": [item("a", start_after={"item": "b"})]},
        "two items have the id 'a'": {"items": [item("a"), item("a")]},
        "value of event must be": {"items": [item("a", start_after={"item": "b", "event": "x"})]},
        "timeout is 0": {"items": [item("a")], "timeout": 0},
        "kill_after is -1": {"items": [item("a")], "kill_after": -1},
        "connections is 0": {"items": [item("a")], "connections": 0},
        "Could not create API client": {"items": [item("a")], "kubeconfig": "/nonexistent"},
    }
    results = answers(module(*cases.values()))
    assert len(results) == len(cases)
    for words, result in zip(cases, results, strict=True):
        assert result["failed"] is True
        assert words in result["msg"]


def test_no_items_and_nothing_that_may_be_run() -> None:
    with ExecServer({"a": refuses(403, "Forbidden", "no")}) as server:
        empty, refused = answers(module({"items": []}, {"items": [item("a")]}, url=server.url))
    assert (empty["changed"], empty["results"], empty["failed_count"]) == (False, [], 0)
    assert (refused["changed"], refused["results"][0]["outcome"]) == (False, "refused")
    assert not refused.get("failed")


@pytest.mark.parametrize(("code", "reason"), [(401, "unauthorized"), (403, "forbidden")])
def test_credentials_that_are_good_for_nothing_are_data_too(code: int, reason: str) -> None:
    with ExecServer({"a": runs()}) as server:
        server.discovery_code = code
        (result,) = answers(module({"items": [item("a"), item("b")]}, url=server.url))
    ends = {(one["id"], one["outcome"], one["reason"]) for one in result["results"]}
    assert ends == {("a", "refused", reason), ("b", "refused", reason)}
    assert not result.get("failed")


class Failed(Exception):
    """fail_json was called."""


def test_an_api_server_that_is_not_there(monkeypatch) -> None:
    with ExecServer() as server:
        url = server.url

    def fail(msg: str) -> None:
        raise Failed(msg)

    params = dict.fromkeys(k8s_exec_batch.argument_spec()) | {"host": url, "api_key": "tok-en"}
    stand_in = SimpleNamespace(params=params, server_side_dry_run=False, fail_json=fail)
    monkeypatch.setattr(k8s_exec_batch, "REACH_PAUSE_S", 0.05)
    with pytest.raises(Failed, match="The Kubernetes API cannot be reached"):
        k8s_exec_batch.connect(stand_in, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_what_runs_in_the_pods(tmp_path, number: int) -> None:
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 60 & wait"]
    waiting = item("b", start_after={"item": "a"})
    with ExecServer({"a": really, "b": runs()}) as server:
        process = module({"items": [item("a", *command), waiting]}, url=server.url)
        assert wait_until((tmp_path / "pid").exists, 30)
        time.sleep(0.2)
        pid = int((tmp_path / "pid").read_text())
        process.send_signal(number)
        began = time.monotonic()
        (result,) = answers(process)
        assert time.monotonic() - began < 5
        assert wait_until(lambda: not alive(pid))
    assert result["failed"] is True
    assert "Interrupted by " + signal.Signals(number).name in result["msg"]
    assert [one["reason"] for one in result["results"]] == ["interrupted", "interrupted"]
    assert [call.pod for call in server.execs if not call.is_kill] == ["a"]


def test_many_files_may_be_open() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    k8s_exec_batch.allow_open_files(10)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
