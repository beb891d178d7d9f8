"""Commands in pods over the official client, with exactly the documented permissions."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios

import pytest

from cloudgan.cli.main import main
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.launch.backends.remote_command import CommandStreams
from launch.backends.kubernetes.lab import ON_DOUBLE, plan_of

ROLES = ("role", "clusterrole", "debug-role")


def start(lab):
    plan = plan_of()
    for step in lab.backend.steps(plan):
        lab.backend.ensure(step, plan)
    for index in range(2):
        lab.pod("gan", index)
    return plan


def run(lab, *command, worker=0):
    kept = {False: b"", True: b""}

    def output(content, is_error):
        kept[is_error] += content

    code = lab.backend.execute("gan", worker, command, CommandStreams(output))
    return code, kept[False], kept[True]


@pytest.fixture
def running(make_lab):
    pytest.importorskip("websocket")
    lab = make_lab(ROLES)
    start(lab)
    return lab


def test_a_command_runs_in_the_container_of_the_worker(running):
    script = "printf \"$JOB_COMPLETION_INDEX\"; printf 'an error' >&2; exit 3"
    assert run(running, "sh", "-c", script, worker=1) == (3, b"1", b"an error")
    code, binary, _ = run(running, "head", "-c", "300000", "/dev/zero")
    assert (code, len(binary), set(binary)) == (0, 300_000, {0})
    assert run(running, "echo", "a b", "$HOME", "c&d=e") == (0, b"a b $HOME c&d=e\n", b"")
    assert run(running, "cat") == (0, b"", b""), "it has no standard input"
    with pytest.raises(ConfigError, match="no program 'kubectl-missing'"):
        run(running, "kubectl-missing")


def test_a_connection_that_ends_before_the_command_is_an_error(running):
    def output(content, is_error):
        running.cluster.away(0.1)

    with pytest.raises(LaunchError, match="connection ended before the command"):
        running.backend.execute("gan", 0, ["sh", "-c", "echo x; sleep 30"], CommandStreams(output))


def test_the_launcher_needs_no_permission_for_commands(make_lab):
    pytest.importorskip("websocket")
    lab = make_lab()
    start(lab)
    lab.backend.check(plan_of())
    with pytest.raises(CredentialsError, match=r"debug-role\.yaml"):
        run(lab, "true")


@pytest.mark.parametrize("verb", ["get", "create"])
def test_both_verbs_are_required(make_lab, verb):
    pytest.importorskip("websocket")
    lab = make_lab(ROLES)
    start(lab)
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": [verb]}
    one = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    token = lab.cluster.token(rules=[rule, one])
    lab.cluster.kubeconfig(lab.kubeconfig, token)
    from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect

    with connect(None) as client:
        backend = KubernetesBackend(ClusterApi(client), "cloudgan")
        with pytest.raises(CredentialsError, match="may not run commands in pods"):
            backend.execute("gan", 0, ["true"], CommandStreams(lambda *_: None))


def test_the_command_line_returns_output_and_exit_code(running, capfdbinary):
    def exec_(*words):
        with pytest.raises(SystemExit) as ended:
            main(["exec", "gan", "--provider=kubernetes", *words])
        return ended.value.code, *capfdbinary.readouterr()

    assert exec_("--worker=1", "--", "sh", "-c", "echo --json --help; exit 7")[:2] == (
        7,
        b"--json --help\n",
    )
    code, text, _ = exec_("--json", "--", "sh", "-c", "printf '\\377'; exit 1")
    assert code == 1
    assert json.loads(text) == {
        "schema_version": 1,
        "run": "gan",
        "worker": 0,
        "exit_code": 1,
        "stdout": "\ufffd",
        "stderr": "",
    }
    for words, message in (
        (("--worker=2", "--", "true"), b"run gan has the workers 0 to 1"),
        (("true",), b"write -- before the command"),
        (("--",), b"needs -- COMMAND"),
    ):
        code, _, error = exec_(*words)
        assert (code, message in error) == (2, True), error
    for index in range(2):
        running.end_worker("gan", index, "0")
    running.cluster.wait_for(lambda: running.backend.state("gan").is_over)
    code, _, error = exec_("--", "true")
    assert code == 2
    assert b"worker 0 of run gan does not run: finished" in error


@ON_DOUBLE
def test_a_shell_passes_keys_size_and_exit_code(running):
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "cloudgan", "shell", "gan", "--provider=kubernetes"]
    termios.tcsetwinsize(slave, (24, 91))
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""

    def read_until(wanted):
        nonlocal text
        while wanted not in text:
            ready, _, _ = select.select([master], [], [], 20)
            assert ready, text
            text += os.read(master, 4096)

    read_until(b"# ")
    os.write(master, b"stty size; cat\n")
    read_until(b" 91")
    os.write(master, b"typed\n")
    read_until(b"typed\r\ntyped")  # the echo, and what cat prints
    os.write(master, b"\x03")  # Ctrl-C goes to the remote shell
    read_until(b"^C")
    text = text.partition(b"^C")[2]
    read_until(b"# ")  # a signal discards what was typed before the prompt
    os.write(master, b"echo got $((40 + 2))\n")
    read_until(b"got 42")
    os.write(master, b"exit 5\n")
    try:
        assert process.wait(20) == 5
    finally:
        process.send_signal(signal.SIGKILL)
        os.close(master)


def test_a_shell_without_a_terminal_is_refused(running, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["shell", "gan", "--provider=kubernetes"])
    assert ended.value.code == 2
    assert "cloudgan exec gan -- COMMAND" in capsys.readouterr().err
