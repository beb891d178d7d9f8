"""TensorBoard on the record of a run; the program is a stub that notes its arguments."""

import json
import os
import socket
import struct
from pathlib import Path

import pytest

import records
from cloudgan.cli.main import main
from cloudgan.core.errors import CloudganError
from cloudgan.launch.operations.tensorboard import EventFeed


def epoch(number):
    line = records.epoch(number, losses={"generator": {"total": 0.5}})
    return line.model_dump_json().encode() + b"\n"


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A run in runs/gan, and a `tensorboard` that keeps its arguments and event files."""
    monkeypatch.chdir(tmp_path)
    run, programs = tmp_path / "runs" / "gan", tmp_path / "programs"
    run.mkdir(parents=True)
    programs.mkdir()
    (run / "record.jsonl").write_bytes(epoch(0) + epoch(1))
    stub = programs / "tensorboard"
    stub.write_text(
        f'#!/bin/sh\necho "$@" >{tmp_path}/arguments\ncp "${{1#--logdir=}}"/events* {tmp_path}\nexit $CODE\n'
    )
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr("sys.executable", str(tmp_path / "no" / "python"))
    monkeypatch.setenv("CODE", "0")
    return tmp_path


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(["tensorboard", *words])
    return ended.value.code


def test_the_record_is_shown_on_loopback(board, capsys):
    port = free_port()
    assert run("gan", f"--port={port}", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["url"]) == ("gan", f"http://127.0.0.1:{port}/")
    logdir, *rest = (board / "arguments").read_text().split()
    assert rest == ["--host=127.0.0.1", f"--port={port}"]
    assert not Path(logdir.removeprefix("--logdir=")).exists()
    (events,) = board.glob("events.out.tfevents.*")
    content = events.read_bytes()
    value = struct.pack("<Bf", 0x15, 0.5)
    assert content.count(b"train/generator/total" + value) == 2
    assert b"samples_per_second" in content


def test_new_epochs_are_added_and_a_store_that_fails_is_asked_again(tmp_path):
    contents, said = [epoch(0), epoch(0), None, epoch(0) + epoch(1)], []

    def read():
        if (content := contents.pop(0)) is None:
            raise CloudganError("no answer")
        return content

    feed = EventFeed(tmp_path, read, said.append)
    assert [feed.refresh() for _ in range(4)] == [1, 0, 0, 1]
    assert said == ["the record was not read: no answer"]
    assert len(list(tmp_path.glob("events.*"))) == 2


def test_a_missing_program_is_named_with_the_command_that_installs_it(board, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(board))
    assert run("gan") == 2
    assert "pip install tensorboard" in capsys.readouterr().err


def test_a_program_that_fails_is_an_error(board, capsys, monkeypatch):
    monkeypatch.setenv("CODE", "3")
    assert run("gan", f"--port={free_port()}") == 1
    assert "tensorboard exited with code 3" in capsys.readouterr().err
