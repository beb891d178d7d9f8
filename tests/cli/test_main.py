"""The process of the program: standard streams that are closed, full or ASCII, and Ctrl-C."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.cli import main as process
from cloudgan.core.errors import OutputError
from terminal import Program

VERSION = "-m cloudgan --version"
MISSPELT = "-m cloudgan pla --json"


def run(arguments, redirections="", **environment):
    """Runs Python in a shell that redirects its standard streams."""
    return subprocess.run(
        ["sh", "-c", f'"$0" {arguments} {redirections}', sys.executable],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "redirections", "code", "said"),
    [
        (VERSION, ">/dev/full", 1, "standard output cannot be written: No space left on device"),
        (VERSION, "<&- >&-", 1, "standard output cannot be written: it is closed"),
        (MISSPELT, "<&- >&-", 2, "Did you mean 'plan'?"),
        (MISSPELT, ">/dev/full", 2, "Did you mean 'plan'?"),
    ],
)
def test_output_that_cannot_be_written_ends_with_one_line_and_a_documented_code(
    arguments, redirections, code, said
):
    done = run(arguments, redirections)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("cloudgan: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reader_that_closes_the_pipe_gets_no_message():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, *VERSION.split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("redirections", ["2>&-", "2>/dev/full"])
def test_messages_that_cannot_be_written_change_neither_output_nor_code(redirections):
    done = run(MISSPELT, redirections)
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout)["exit_code"] == 2


INTERRUPTED_IMPORT = """
import os, signal, sys
from cloudgan.cli.main import main

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "fire":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["cloudgan", "plan", "--json"]
main()
"""


def test_ctrl_c_while_the_program_is_imported_ends_with_130(tmp_path):
    (tmp_path / "program.py").write_text(INTERRUPTED_IMPORT)
    done = run(tmp_path / "program.py")
    assert (done.returncode, done.stderr) == (130, "cloudgan: stopped by Ctrl-C\n")
    assert json.loads(done.stdout) == {"error": "stopped by Ctrl-C", "exit_code": 130}


FAILS_AT_THE_END = """
import atexit, os, signal, sys, threading
from cloudgan.cli.main import main

class Resource:
    def __del__(self):
        raise ValueError("destructor")

class StartsThread:
    def find_spec(self, name, path, target=None):
        if name == "fire":
            thread = threading.Thread(target=lambda: [][0], name="reader")
            thread.start()
            thread.join()

kept = Resource()
sys.meta_path.insert(0, StartsThread())
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["cloudgan", "--version"]
main()
"""


def test_a_destructor_a_thread_and_ctrl_c_at_the_end_print_no_traceback(tmp_path):
    (tmp_path / "program.py").write_text(FAILS_AT_THE_END)
    done = run(tmp_path / "program.py")
    assert done.stderr.splitlines() == [
        "cloudgan: WARNING thread reader ended: IndexError: list index out of range",
        "cloudgan: stopped by Ctrl-C",
    ]
    assert done.returncode == 130
    assert done.stdout.startswith("cloudgan ")


def test_an_ascii_terminal_shows_question_marks(tmp_path):
    terminal = io.TextIOWrapper(io.BytesIO(), "ascii")
    with (tmp_path / "shown").open("wb") as file:
        raw = process._Output(file.fileno(), "wb", closefd=False)
        stream = process._text(raw, terminal, "replace")
        print("±2 ✓ \udcff", file=stream, flush=True)
    assert (tmp_path / "shown").read_text() == "?2 ? ?\n"


def test_a_full_disk_under_standard_output_is_named():
    with Path("/dev/full").open("wb") as full:
        raw = process._Output(full.fileno(), "wb", closefd=False)
        with pytest.raises(OutputError, match="No space left on device; write it to a file"):
            raw.write(b"x")


def test_a_full_pipe_that_does_not_block_is_waited_for():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    raw = process._Output(writer, "wb")
    sent = 0
    with raw, os.fdopen(reader, "rb") as source:
        while sent < 200_000:
            sent += raw.write(bytes(50_000))
            source.read(40_000)
    assert sent >= 200_000


def test_an_error_on_a_terminal_is_broken_at_spaces_and_elsewhere_it_is_one_line(cloudgan_here):
    program = Program("cost", NO_COLOR="1")
    assert program.end(60) == 2
    rows = [row.rstrip() for row in program.screen.shown if row.strip()]
    assert (program.screen.wrapped, len(rows) > 1) == ([], True)
    line = cloudgan_here("cost", exits=2).stderr
    assert " ".join(row.strip() for row in rows) + "\n" == line
