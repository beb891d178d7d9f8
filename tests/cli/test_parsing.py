import json
from typing import Literal

import pytest

import cloudgan
from cloudgan.cli.help import screen
from cloudgan.cli.program import PROGRAM, Program, functions
from cloudgan.core.command import command, model_of
from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.core.flags import Options, argument, flag


@pytest.fixture
def ran():
    return []


class DeployFlags(Options):
    """Rents machines, and trains on them.

    Every request is a value
    before it is sent.

    Examples:
        cloudgan deploy gcp --nodes=2
    """

    provider: str = argument("gcp, aws or azure")
    region: str | None = argument("where; the cloud's own word, such as europe-west4", None)
    image: str = flag("cloudgan:latest", "container image")
    nodes: int = flag(1, "number of nodes", ge=1, le=10_000)
    budget_usd: float | None = flag(None, "stop before it costs more", gt=0, le=1e9)
    market: Literal["on_demand", "spot"] = flag("spot", "on_demand is never taken away")
    dry_run: bool = flag(False, "print the plan and stop")
    wait: bool = flag(True, "follow the run to its end")
    label: tuple[str, ...] = flag((), "of the run", is_repeated=True)


class TrainFlags(Options):
    """Trains here."""

    seed: int = flag(0, "of every random number", is_required=True, ge=0, le=9)


@pytest.fixture
def program(ran):
    @command
    def deploy(options: DeployFlags) -> None:
        """Rents."""
        ran.append(dict(options))

    @command
    def train(options: TrainFlags) -> None:
        """Trains."""
        ran.append(options.seed)

    return Program("cloudgan", "the page", {"deploy": deploy, "train": train}, {"launch": "deploy"})


def end_of(program, line):
    """Runs a command line and returns its exit code."""
    words = line.split() if isinstance(line, str) else line
    with pytest.raises(SystemExit) as ended:
        program.run(words)
    return ended.value.code


REFUSED = {
    "a misspelt flag": ("deploy gcp --noodes=4", "Did you mean '--nodes'?"),
    "a misspelt flag with its value apart": ("deploy gcp --noodes 4", "Known: --budget-usd, "),
    "one dash": ("deploy gcp -nodes=4", "Did you mean '--nodes'?"),
    "a short flag": ("deploy gcp -n 4", "unknown flag of `cloudgan deploy` '-n'"),
    "a flag of another alias": ("launch gcp --noodes=4", "Did you mean '--nodes'?"),
    "a misspelt switch": ("deploy gcp --dry_runn", "Did you mean '--dry-run'?"),
    "a misspelt command": ("depoly gcp", "Did you mean 'deploy'?"),
    "no command": ("--nodes=4 deploy gcp", "before any command"),
    "text for a whole number": ("deploy gcp --nodes=four", "--nodes must be a whole number"),
    "a fraction for a whole number": ("deploy gcp --nodes=1.5", "whole number, got '1.5'"),
    "text for a number": ("deploy gcp --budget_usd=lots", "--budget-usd must be a number"),
    "a negative number": ("deploy gcp --nodes -4", "--nodes=-4: expected at least 1"),
    "a negative fraction": ("deploy gcp --budget_usd -.5", "--budget-usd=-0.5 must be above zero"),
    "too many digits": (f"deploy gcp --nodes={'9' * 5000}", "--nodes has 5000 digits: expected at"),
    "too many negative digits": (f"deploy gcp --nodes=-{'9' * 5000}", "expected at least 1"),
    "an exponent for a whole number": ("deploy gcp --nodes=1e3", "--nodes must be a whole number"),
    "a digit of another script": ("deploy gcp --nodes=\u0663", "--nodes must be a whole number"),
    "a superscript": ("deploy gcp --nodes=\u00b2", "--nodes must be a whole number"),
    "an infinite number": ("deploy gcp --budget_usd=inf", "--budget-usd must be a number"),
    "no number": ("deploy gcp --budget_usd=nan", "--budget-usd must be a number, got 'nan'"),
    "a misspelt choice": ("deploy gcp --market=sport", "Did you mean 'spot'?"),
    "a value for a switch": ("deploy gcp --dry_run=maybe", "--dry-run or --no-dry-run"),
    "a value for a negated switch": ("deploy gcp --no-wait=1", "unknown flag"),
    "a misspelt negated switch": ("deploy gcp --no-wiat", "Did you mean '--no-wait'?"),
    "a negated switch of another command": ("deploy gcp --no-open", "--market, --no-wait, --nodes"),
    "a negated number": ("deploy gcp --no-nodes", "unknown flag"),
    "a flag twice": ("deploy gcp --nodes=1 --nodes=2", "--nodes was given twice"),
    "a switch and its contrary": ("deploy gcp --wait --no-wait", "--wait was given twice"),
    "an argument twice": ("deploy gcp --provider=aws", "PROVIDER was given twice"),
    "no value": ("deploy gcp --image --nodes=2", "--image needs a value: --image=TEXT"),
    "no value at the end": ("deploy gcp --nodes", "--nodes needs a value: --nodes=N"),
    "too many arguments": ("deploy gcp eu 3", "takes PROVIDER REGION, and '3' is left over"),
    "an argument too few": ("deploy --nodes=2", "needs PROVIDER"),
    "a flag too few": ("train", "needs --seed"),
    "an argument for flags only": ("train 3", "takes flags only"),
    "a flag without dashes": ("train seed=3", "Did you mean '--seed=3'?"),
    "a flag for Fire": ("deploy gcp -- --interactive", "'--interactive' is left over"),
    "Fire's separator": ("deploy gcp eu - nodes", "'-' is left over"),
}


@pytest.mark.parametrize(("line", "said"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_command_line_is_refused_and_starts_nothing(program, ran, capsys, line, said):
    if line.startswith("deploy gcp -- "):
        line = line.replace("gcp", "gcp eu")
    assert end_of(program, line) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.startswith("cloudgan: ")
    assert "Traceback" not in err
    assert out == ""
    assert ran == []


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("deploy gcp", {}),
        ("deploy --provider=gcp", {}),
        ("deploy gcp europe-west4", {"region": "europe-west4"}),
        ("deploy gcp --image=2.10", {"image": "2.10"}),
        ("deploy gcp --image 2.10", {"image": "2.10"}),
        ("deploy gcp --image=0x10", {"image": "0x10"}),
        ("deploy gcp --image=us,eu", {"image": "us,eu"}),
        ("deploy gcp --image=a=b", {"image": "a=b"}),
        ("deploy gcp --image=-", {"image": "-"}),
        ("deploy gcp --image=--", {"image": "--"}),
        ("deploy gcp --image=None", {"image": "None"}),
        ("deploy gcp --image=--help", {"image": "--help"}),
        ("deploy gcp --nodes=1_000", {"nodes": 1000}),
        ("deploy gcp --nodes=+100", {"nodes": 100}),
        (f"deploy gcp --nodes={'0' * 99}7", {"nodes": 7}),
        ("deploy gcp --budget-usd=1e3", {"budget_usd": 1000.0}),
        ("deploy gcp --market=on_demand", {"market": "on_demand"}),
        ("deploy gcp --dry-run", {"dry_run": True}),
        ("deploy --dry_run gcp", {"dry_run": True}),
        ("deploy --dry_run false gcp", {}),
        ("deploy gcp --dry_run=yes", {"dry_run": True}),
        ("deploy gcp --no-wait", {"wait": False}),
        ("deploy gcp --no_wait", {"wait": False}),
        ("deploy gcp -- -odd", {"region": "-odd"}),
        ("deploy gcp --market=SPOT", {}),
        ("launch gcp --label=a --label=b,c", {"label": ("a", "b,c")}),
    ],
)
def test_values_are_converted_by_annotation_and_the_command_runs_once_and_prints_nothing(
    *, program, ran, capsys, line, changed
):
    usual = {
        "provider": "gcp",
        "region": None,
        "image": "cloudgan:latest",
        "nodes": 1,
        "budget_usd": None,
        "market": "spot",
        "dry_run": False,
        "wait": True,
        "label": (),
    }
    assert end_of(program, line) == 0
    assert ran == [usual | changed]
    assert capsys.readouterr() == ("", "")
    assert [type(value) for value in ran[0].values()] == [
        type(value) for value in (usual | changed).values()
    ]


def test_a_value_with_spaces_and_newlines_is_unchanged(program, ran):
    assert end_of(program, ["deploy", "gcp", "--image", "a b\n--nodes=3"]) == 0
    assert ran[0]["image"] == "a b\n--nodes=3"


def test_help_is_one_screen_and_help_all_has_everything_and_neither_starts_anything(
    program, ran, capsys
):
    assert end_of(program, "deploy gcp --nodes=4 --help") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Rents machines, and trains on them.",
        "Usage: cloudgan deploy PROVIDER [REGION] [FLAGS]",
        "  cloudgan deploy gcp --nodes=2",
        "PROVIDER gcp, aws or azure",
        "REGION   where",
        "         --image=TEXT           container image [cloudgan:latest]",
        "         --nodes=N              number of nodes [1]",
        "         --budget-usd=X         stop before it costs more",
        "         --market=M             on_demand is never taken away [spot]",
        "         --dry-run              print the plan and stop",
        "         --no-wait              do not follow the run to its end",
        "         --label=TEXT           of the run",
        "All      --json  --verbose, -v: the basis  --traceback  --help-all: details",
    ]
    assert end_of(program, "deploy --help-all") == 0
    assert capsys.readouterr().out.splitlines()[:14] == [
        "Rents machines, and trains on them.",
        "",
        "Every request is a value before it is sent.",
        "",
        "Usage: cloudgan deploy PROVIDER [REGION] [FLAGS]",
        "",
        "Arguments:",
        "  PROVIDER                gcp, aws or azure",
        "  REGION                  where; the cloud's own word, such as europe-west4",
        "",
        "Flags:",
        "  --image=TEXT            container image [default: cloudgan:latest]",
        "  --nodes=N               number of nodes [default: 1]",
        "  --budget-usd=X          stop before it costs more",
    ]
    assert ran == []


@pytest.mark.parametrize(
    "line", ["train --help", "help train", "train -h", "train --sede=1 --help"]
)
def test_help_is_accepted_at_every_position(program, ran, capsys, line):
    assert end_of(program, line) == 0
    assert "--seed=N               of every random number" in capsys.readouterr().out
    assert ran == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *[(line, "the page\n") for line in ("--help", "-h", "help", "")],
        ("--version", f"cloudgan {cloudgan.__version__}\n"),
    ],
)
def test_the_page_of_the_program_and_its_version_are_printed(program, capsys, line, said):
    assert end_of(program, line) == 0
    assert capsys.readouterr().out == said


def test_a_command_is_imported_when_it_is_called(capsys, tmp_path, monkeypatch):
    (tmp_path / "light_command.py").write_text(
        "from cloudgan.core.command import command\nfrom cloudgan.core.flags import Options, flag\n"
        "class Far(Options):\n    far: int = flag(1, 'how far', ge=0, le=9)\n"
        "@command\ndef go(options: Far) -> None:\n    print(options.far)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    program = Program("cloudgan", "", {"go": "light_command:go", "no": "missing_module:no"})
    assert end_of(program, "--help") == 0
    assert end_of(program, "go --far=7") == 0
    assert capsys.readouterr().out == "\n7\n"


class StepFlags(Options):
    """Measures a step."""

    batch: int = flag(1, "showers", ge=1, le=99)


@pytest.fixture
def nested(ran):
    @command
    def step(options: StepFlags) -> None:
        """Measures."""
        ran.append(options.batch)

    return Program("cloudgan", "top", {"bench": Program("cloudgan bench", "inner", {"step": step})})


def test_a_command_can_have_subcommands(nested, ran):
    assert end_of(nested, "bench step --batch=4") == 0
    assert ran == [4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bench stpe", "Did you mean 'step'?"),
        ("bench step --bach=4", "unknown flag of `cloudgan bench step` '--bach'"),
        ("bench --batch=4", "write `cloudgan bench COMMAND --batch=4`"),
    ],
)
def test_a_wrong_subcommand_line_starts_nothing(nested, ran, capsys, line, said):
    assert end_of(nested, line) == 2
    assert said in capsys.readouterr().err
    assert ran == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--help", "top"),
        ("bench", "inner"),
        ("bench --help", "inner"),
        ("help bench", "inner"),
        ("bench step --help", "--batch=N              showers"),
        ("help bench step", "--batch=N              showers"),
        ("bench help step", "--batch=N              showers"),
    ],
)
def test_subcommands_have_help_pages(nested, ran, capsys, line, said):
    assert end_of(nested, line) == 0
    assert said in capsys.readouterr().out
    assert ran == []


def failing(error):
    @command
    def go(options: Options) -> None:
        """Fails."""
        raise error

    return Program("cloudgan", "", {"go": go})


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BudgetError("12 USD, 10 allowed"), 6, "12 USD, 10 allowed"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C"),
        (MemoryError("9 GiB"), 1, "out of memory (9 GiB); request fewer showers"),
        (MemoryError(), 1, "out of memory; request"),
        (OSError(12, "Cannot allocate memory"), 1, "out of memory"),
        (ImportError("libtensorflow_cc.so.2: failed to map segment"), 1, "out of memory"),
        (ImportError("cannot allocate memory in static TLS block"), 1, "out of memory"),
        (RuntimeError("can't start new thread"), 1, "out of memory"),
        (OSError(28, "No space", "a.h5"), 1, "a.h5: the disk is full; free some"),
        (OSError(30, "Read-only file system", "a.h5"), 2, "a.h5: Read-only file system; correct"),
        (OSError(24, "Too many open files"), 1, "Too many open files; see `ulimit -a`"),
        (
            ModuleNotFoundError("no", name="tensorflow.python"),
            2,
            "`pip install '.[train]'`",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failure_is_one_sentence_and_an_exit_code_and_json_for_programs(
    capsys, error, code, said
):
    assert end_of(failing(error), "go") == code
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert out == ""
    assert end_of(failing(error), "go --json") == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["exit_code"] == code
    assert said in printed["error"]


def test_a_message_is_short_and_has_no_control_characters(capsys):
    for words, stream in (("go", "err"), ("go --json", "out")):
        assert end_of(failing(ConfigError("\x1b[2J\x07" + "long " * 10_000)), words) == 2
        said = getattr(capsys.readouterr(), stream)
        assert "long" in said
        assert len(said) < 2100
        assert not {"\x1b", "\x07"} & set(said)


def test_the_traceback_of_an_unexpected_error_is_kept_in_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert end_of(failing(ZeroDivisionError("by 0")), "go") == 1
    err = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert f"ZeroDivisionError: by 0). Its traceback is in {kept}" in err
    assert "in go" in kept.read_text()
    assert "Traceback" not in err


def test_traceback_shows_where_an_error_arose(capsys):
    assert end_of(failing(BudgetError("too much")), "--traceback go") == 6
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("cloudgan: too much\n")


class GateFlags(Options):
    """Judges."""

    run: str | None = argument("a run", None)
    gate: bool | str = flag(False, "end with 7")


@pytest.fixture
def judge(ran):
    @command
    def validate(options: GateFlags) -> None:
        """Judges."""
        ran.append((options.run, options.gate))

    return Program("cloudgan", "", {"validate": validate})


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("validate", (None, False)),
        ("validate --gate", (None, True)),
        ("validate --gate runs/mine", ("runs/mine", True)),
        ("validate runs/mine --gate", ("runs/mine", True)),
        ("validate --gate=mine.toml", (None, "mine.toml")),
        ("validate --gate=no --run=runs/mine", ("runs/mine", False)),
        ("validate --gate true runs/mine", ("runs/mine", True)),
        ("validate --no-gate", (None, False)),
    ],
)
def test_an_optional_value_of_a_switch_follows_an_equals_sign(judge, ran, line, meant):
    assert end_of(judge, line) == 0
    assert ran == [meant]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("validate --gate=", "--gate= is empty; give --gate=TEXT, or --gate without a value"),
        ("validate --gate --gate=mine.toml", "--gate was given twice"),
        ("validate --no-gate=mine.toml", "unknown flag"),
        ("validate --gte=mine.toml", "Did you mean '--gate'?"),
    ],
)
def test_an_ambiguous_optional_value_is_refused(judge, ran, capsys, line, said):
    assert end_of(judge, line) == 2
    assert said in capsys.readouterr().err
    assert ran == []


class ExecFlags(Options):
    """Runs a command."""

    run: str = argument("a run")
    command: tuple[str, ...] = flag((), "the command", takes_words=True, is_required=True)
    worker: int = flag(0, "which", ge=0, le=9)


def test_the_words_after_two_hyphens_are_those_of_another_program(capsys, ran):
    @command
    def exec_(options: ExecFlags, *, as_json: bool = False) -> None:
        """Runs."""
        ran.append((options.run, options.command, options.worker, as_json))

    made = Program("cloudgan", "x", {"exec": exec_})
    words = ["exec", "gan", "--worker=1", "--", "ls", "--json", "--help", "--traceback", "a b"]
    assert end_of(made, words) == 0, capsys.readouterr()
    assert ran == [("gan", ("ls", "--json", "--help", "--traceback", "a b"), 1, False)]
    for wrong, message in (
        (["exec", "gan", "ls"], "write -- before the command of `cloudgan exec`: -- ls"),
        (["exec", "gan"], "needs -- COMMAND"),
        (["exec", "gan", "--"], "needs -- COMMAND"),
    ):
        assert end_of(made, wrong) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", *functions()])
def test_the_help_of_the_program_and_of_each_command_fits_a_screen_of_80x24(name):
    page = screen(f"cloudgan {name}", model_of(functions()[name])) if name else PROGRAM.page
    lines = page.splitlines()
    assert len(lines) <= 24, "\n".join(lines)
    assert max(map(len, lines)) <= 80, "\n".join(line for line in lines if len(line) > 80)
