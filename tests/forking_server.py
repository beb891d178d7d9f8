"""Runs `python -m cloudgan`, or a program of the tests, in processes forked from one that has imported TensorFlow already.

The import takes half of the processor time of a short training run. A forked process has its own
arguments, environment, folder, files, TensorFlow runtime and exit; only the imported modules are shared.
Processes that cloudgan starts itself import TensorFlow as a user's do.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ADDRESS = "TESTS_FORKING_SERVER"
"""Environment variable with the socket of the server; all processes of a test run use the same."""


@contextlib.contextmanager
def forking_server():
    """Starts the server, which imports TensorFlow at the first request, and ends it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = str(Path(folder) / "socket")
        listener.bind(address)
        listener.listen()
        server = subprocess.Popen([sys.executable, __file__], stdin=listener)
        os.environ[ADDRESS] = address
        try:
            yield
        finally:
            del os.environ[ADDRESS]
            server.terminate()
            server.wait()


class ForkedProgram:
    """A process of the server, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, arguments, environment, *, merged=False, program=None):
        """Starts `python -m cloudgan`, or the file `program`, in this environment and folder.

        It writes all to one file if `merged`.
        """
        self.returncode = None
        with contextlib.ExitStack() as files:
            self._output = files.enter_context(tempfile.TemporaryFile())
            self._errors = self._output if merged else files.enter_context(tempfile.TemporaryFile())
            self._files = files.pop_all()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(os.environ[ADDRESS])
        files = [self._output.fileno(), self._errors.fileno()]
        socket.send_fds(self._server, [b"!"], files)
        request = {"arguments": arguments, "environment": environment, "folder": str(Path.cwd())}
        request["program"] = program
        self._server.sendall(json.dumps(request).encode() + b"\n")
        self._replies = self._server.makefile()
        self.pid = json.loads(self._replies.readline())

    def poll(self):
        """Returns the exit code; None while the process runs."""
        return None if self._is_running(0) else self.returncode

    def communicate(self, timeout=None):
        """Waits for the end; returns standard output and standard error, or all of both twice."""
        if self._is_running(timeout):
            raise subprocess.TimeoutExpired("cloudgan", timeout)
        said = []
        for file in (self._output, self._errors):
            file.seek(0)
            said.append(file.read().decode())
        return tuple(said)

    def close(self):
        """Ends the process, if it still runs, and closes its files."""
        self.kill()
        self._is_running(None)
        self._files.close()

    def send_signal(self, number):
        """Sends a signal, unless the process has ended."""
        if self._is_running(0):
            os.kill(self.pid, number)

    def kill(self):
        """Ends the process at once."""
        self.send_signal(signal.SIGKILL)

    def _is_running(self, seconds):
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._server, selectors.EVENT_READ)
                if not selector.select(seconds):
                    return True
            self.returncode = json.loads(self._replies.readline())
            self._replies.close()
            self._server.close()
        return False


def _serve():
    """Forks a process per request until the tests end."""
    tests, listener = os.getppid(), socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, which end this server
    signal.signal(signal.SIGCHLD, _reap)
    listener.settimeout(5)
    while os.getppid() == tests:
        try:
            request, _ = listener.accept()
        except TimeoutError:
            continue
        _import()
        if os.fork() == 0:
            listener.close()
            _answer(request)
            return
        request.close()


def _reap(*_):
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import():
    """Imports what a training run imports; creates no TensorFlow runtime and no thread of one."""
    from importlib import import_module

    from cloudgan.training.tensorflow_import import import_tensorflow

    sys.argv = ["cloudgan"]
    import_tensorflow()
    for name in ("cloudgan.cli.program", "cloudgan.api.train", "cloudgan.training.run"):
        import_module(name)


def _answer(request):
    """Runs the program in a process of its own; replies with its id, and at its end the exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(request, 1, 2)
    with request.makefile() as lines:
        asked = json.loads(lines.readline())
    process = os.fork()
    if process == 0:
        request.close()
        _become(asked, files)
        return
    request.sendall(b"%d\n" % process)
    _, status = os.waitpid(process, 0)
    request.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(asked, files):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, file in enumerate(files, start=1):
        os.dup2(file, target)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["folder"]
    sys.argv = ["cloudgan", *asked["arguments"]]
    if asked["program"]:
        runpy.run_path(asked["program"], run_name="__main__")
    else:
        runpy.run_module("cloudgan", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
