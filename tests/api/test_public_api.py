"""`import cloudgan as cg`: what it offers, and what it does not import."""

import inspect

import pytest

import cloudgan as cg
from cloudgan.core.errors import ConfigError
from cloudgan.training.cluster import run_workers

FUNCTIONS = [name for name in cg.__all__ if inspect.isfunction(getattr(cg, name))]


def test_every_name_is_listed():
    assert set(cg.__all__) <= set(dir(cg))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_typed_and_documents_arguments_and_errors(name):
    function = getattr(cg, name)
    parameters = inspect.signature(function).parameters
    text = inspect.getdoc(function) or ""
    assert function.__annotations__.keys() == parameters.keys() | {"return"}
    for parameter in parameters:
        assert f"{parameter}:" in text, parameter
    assert "Raises:" in text or name == "open_run"


def test_cost_is_the_function_even_after_its_package_is_imported():
    from cloudgan.money.catalog import load_catalog

    assert load_catalog().rows
    assert cg.cost is __import__("cloudgan.api.cost", fromlist=["cost"]).cost


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'cloudgan' has no attribute 'trian'"):
        cg.trian  # noqa: B018


def test_errors_are_raised_not_printed(tmp_path, capsys):
    with pytest.raises(ConfigError, match="--showers=0"):
        cg.simulate(tmp_path / "a.h5", showers=0)
    with pytest.raises(ConfigError, match=r"record\.jsonl"):
        cg.cost(tmp_path)
    with pytest.raises(ConfigError, match="--data is missing"):
        cg.train(run=tmp_path / "run", preset="smoke")
    with pytest.raises(ConfigError, match="only valid with a run"):
        cg.validate(generated="a.h5", reference="b.h5", step=3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        (10**400, r"--epochs=10,000,.*: expected at most 1,000,000"),
        (-(10**400), r"--epochs=-10,000,.*: expected at least 1"),
        (2.5, r"--epochs must be a whole number, got 2\.5"),
        (float("inf"), r"--epochs must be a whole number, got inf"),
    ],
    ids=["too large for a float", "too small for a float", "a fraction", "infinity"],
)
def test_a_number_that_is_none_of_an_option_is_refused_in_words(epochs, said):
    with pytest.raises(ConfigError, match=said):
        cg.plan(provider="local", epochs=epochs)


def test_showers_of_a_simulation_are_displayed(tmp_path):
    file = cg.simulate(tmp_path / "a.h5", showers=3, seed=1)
    assert file.showers == 3
    assert "3 showers written" in file._repr_html_()


@pytest.mark.parametrize("quiet", [True, False])
def test_only_quiet_workers_write_nothing_to_the_terminal(tmp_path, capfd, quiet):
    run_workers(("--version",), 2, tmp_path, quiet=quiet)
    logs = [(tmp_path / f"worker-{index}.log").read_text() for index in range(2)]
    assert [cg.__version__ in log for log in logs] == [quiet, True]
    assert (cg.__version__ in capfd.readouterr().out) is not quiet
