"""Execs over WebSocket: streams, the real status messages, signals, and what becomes of the process."""

from __future__ import annotations

import time

import pytest
from simulated_support import PODS, pod
from simulator import wrapper


@pytest.fixture
def running(cluster):
    cluster.run(pod("a", "gpu-node-1"))
    return cluster


def start(*argv):
    return ["sh", "-c", wrapper.START, "sh", *argv]


def kill(name, pid):
    return ["sh", "-c", wrapper.KILL, "sh", name, str(pid)]


def pid_of(connection):
    connection.update(timeout=2)
    mark = connection.read_stderr(timeout=2)
    return int(mark.split("pid:")[1].split("\x01")[0])


def said(error):
    """What the client's exception says, without the backslashes that it puts before quotes."""
    return str(error.value).replace("\\", "")


def processes(cluster):
    return [p["argv"] for item in cluster.state()["pods"] for p in item["processes"]]


def test_both_streams_and_success(running):
    out, err, code, status = running.output("a", ["sh", "-c", "echo out; echo err >&2"])
    assert (out, err, code) == ("out\n", "err\n", 0)
    assert '"status": "Success"' in status


def test_exit_code(running):
    _unused, _unused, code, status = running.output("a", ["sh", "-c", "exit 7"])
    assert code == 7
    assert "command terminated with non-zero exit code" in status
    assert '"reason": "NonZeroExitCode"' in status


def test_command_not_found_is_the_runtimes_error(running):
    _unused, _unused, code, status = running.output("a", ["no-such-tool"])
    assert code == -1
    assert (
        'OCI runtime exec failed: exec failed: unable to start container process: exec: \\"no-such-tool\\": '
        "executable file not found in $PATH: unknown" in status
    )


@pytest.mark.parametrize(
    ("name", "options", "code", "text"),
    [
        ("none", {}, 404, 'pods "none" not found'),
        ("a", {"container": "other"}, 400, "container other is not valid for pod a"),
    ],
)
def test_what_is_not_there(running, name, options, code, text):
    from kubernetes.client import ApiException

    with pytest.raises(ApiException) as error:
        running.exec(name, ["true"], **options)
    assert f"Handshake status {code}" in said(error)
    assert text in said(error)


def test_pod_that_does_not_run(cluster):
    from kubernetes.client import ApiException

    cluster.faults("image_pull:node=gpu-node-1")
    cluster.post(PODS, pod("a", "gpu-node-1"))
    cluster.until(lambda: cluster.events("a"))
    with pytest.raises(ApiException) as error:
        cluster.exec("a", ["true"])
    assert 'container not found ("rdma-test-ctr")' in said(error)


def test_refused_by_rbac(running):
    from kubernetes.client import ApiException

    running.faults("no_permission")
    with pytest.raises(ApiException) as error:
        running.exec("a", ["true"])
    assert "Handshake status 403" in said(error)
    assert 'cannot get resource "pods/exec" in API group "" in the namespace "default"' in said(
        error
    )


def test_stdin(running):
    connection = running.exec("a", ["sh", "-c", "read x; echo got $x"], stdin="word\n")
    assert running.result(connection)[0] == "got word\n"


def test_much_output_in_frames_that_split_characters(running):
    script = "i=0; while [ $i -lt 3000 ]; do echo äöü€äöü€äöü€äöü€$i; i=$((i+1)); done"
    connection = running.exec("a", ["sh", "-c", script], binary=True)
    connection.run_forever(timeout=10)
    data = connection.read_stdout(timeout=0)
    assert data.decode().count("\n") == 3000


class TestWrapper:
    def test_copies_are_those_of_the_collection(self):
        if not wrapper._HOME.exists():
            pytest.skip("plugins/module_utils/exec_batch.py is not here")
        found = wrapper.constants(wrapper._HOME.read_text())
        assert found == (wrapper.START, wrapper.KILL)

    def test_constants_are_read_without_running_the_module(self):
        assert wrapper.constants("import nothing_real\nSTART = 'a' 'b'\nKILL: str = 'c'\n") == (
            "ab",
            "c",
        )
        assert wrapper.constants("START = 1 + x\nKILL = 'c'") is None

    def test_mark_then_command(self, running):
        out, err, code, _unused = running.output("a", start("echo", "x"))
        assert (out, code) == ("x\n", 0)
        assert err.startswith("\x01pid:")
        assert err.endswith("\x01")

    def test_missing_command(self, running):
        _unused, err, code, _unused = running.output("a", start("nope"))
        assert (err, code) == ("\x01nofile\x01", 127)

    def test_the_same_as_a_real_shell(self):
        import subprocess

        done = subprocess.run(start("nope"), capture_output=True, text=True, check=False)
        assert (done.stderr, done.returncode) == ("\x01nofile\x01", 127)
        done = subprocess.run(start("echo", "x"), capture_output=True, text=True, check=False)
        assert done.stdout == "x\n"
        assert done.stderr.startswith("\x01pid:")

    @pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("INT", 130)])
    def test_signals(self, running, name, code):
        connection = running.exec("a", start("sleep", "600"))
        pid = pid_of(connection)
        assert running.output("a", kill(name, pid))[2] == 0
        assert running.result(connection)[2] == code
        _unused, err, status, _unused = running.output("a", kill(name, pid))
        assert status == 1
        assert "No such process" in err

    def test_signals_reach_real_shells(self, running):
        connection = running.exec("a", start("sh", "-c", "sleep 600; echo never"))
        pid = pid_of(connection)
        time.sleep(0.2)
        running.output("a", kill("TERM", pid))
        assert running.result(connection)[2] == 143


def test_process_outlives_its_client(running):
    connection = running.exec("a", start("sleep", "600"))
    pid_of(connection)
    connection.close()
    time.sleep(0.1)
    assert processes(running) == [["sleep", "600"]]


def test_dropped_connection_has_no_status(running):
    running.faults("exec_dropped:node=gpu-node-1,command=any,after=0.1")
    connection = running.exec("a", ["sleep", "600"])
    began = time.monotonic()
    try:
        connection.run_forever(timeout=5)
        status = connection.read_channel(3)
    except Exception:
        status = ""
    assert status == ""
    assert time.monotonic() - began < 3
    assert processes(running) == [["sleep", "600"]]


def test_deleting_the_pod_ends_its_processes_and_execs(running):
    connection = running.exec("a", ["sleep", "600"])
    running.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert running.result(connection)[2] in (137, None)


@pytest.mark.parametrize(
    ("command", "out", "code"),
    [
        (["true"], "", 0),
        (["false"], "", 1),
        (["echo", "-n", "a", "b"], "a b", 0),
        (["timeout", "0.1", "sleep", "600"], "", 124),
        (["stdbuf", "-oL", "echo", "x"], "x\n", 0),
        (["env", "A=1", "sh", "-c", "echo $A"], "1\n", 0),
        (["cat", "/nope"], "", 1),
        (["ib_write_bw", "--version"], "Version: 6.29\n", 1),
        (["sh", "-c", "ib_write_bw --version"], "Version: 6.29\n", 1),
    ],
)
def test_plain_tools(running, command, out, code):
    assert running.output("a", command)[::2] == (out, code)


def test_module_k8s_exec(running):
    """kubernetes.core.k8s_exec, as a user would call it."""
    import json
    import os
    import subprocess

    done = subprocess.run(
        [
            "ansible",
            "localhost",
            "-m",
            "kubernetes.core.k8s_exec",
            "-a",
            json.dumps(
                {"namespace": "default", "pod": "a", "command": "sh -c 'echo hello; exit 3'"}
            ),
        ],
        env={
            **os.environ,
            "K8S_AUTH_KUBECONFIG": running.kubeconfig,
            "ANSIBLE_STDOUT_CALLBACK": "json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if "couldn't resolve module" in done.stdout + done.stderr:
        pytest.skip("kubernetes.core is not installed")
    assert "hello" in done.stdout, done.stdout + done.stderr
    assert "return_code: 3" in done.stdout or '"return_code": 3' in done.stdout
