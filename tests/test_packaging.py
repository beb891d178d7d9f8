"""What a user installs: the wheel, and the locks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from cloudgan.core import assets
from cloudgan.core.lock import locked
from cloudgan.launch.lifecycle.wheels import without_markers

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ \\;]+)", re.MULTILINE)


def pins(text):
    return dict(PIN.findall(text))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    done = subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_the_version_is_that_of_the_tag(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def version(*git):
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        for words in git:
            subprocess.run(["git", *name, *words.split()], cwd=tmp_path, check=True)
        command = [sys.executable, "-m", "hatchling", "version"]
        return subprocess.check_output(command, cwd=tmp_path, text=True).strip()

    assert version() == "0.1.0.dev0"  # no history, such as in a downloaded archive
    assert version("init -q", "add .", "commit -qm one") == "0.1.0.dev1"
    assert version("tag v0.3.0") == "0.3.0"
    (tmp_path / "prices.csv").write_text("the prices of the day")
    assert version() == "0.3.0"
    assert version("add .", "commit -qm two") == "0.3.1.dev1"


def test_the_conda_recipe_requires_what_the_wheel_requires():
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text("utf-8"))
    built, run = (
        {each.replace(" ", "").replace("matplotlib-base", "matplotlib") for each in found}
        for found in (recipe["requirements"]["host"], recipe["requirements"]["run"])
    )
    python = {f"python{PROJECT['requires-python']}"}
    assert run == {*PROJECT["dependencies"], *python}
    assert built == {*PYPROJECT["build-system"]["requires"], *python, "pip"}
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"]


def test_man_and_the_shells_find_their_files_below_the_prefix(wheel):
    data = {name.partition(".data/data/")[2] for name in wheel.namelist() if ".data/" in name}
    assert data == {
        "share/bash-completion/completions/cloudgan",
        "share/fish/vendor_completions.d/cloudgan.fish",
        "share/man/man1/cloudgan.1",
        "share/zsh/site-functions/_cloudgan",
    }


def test_the_wheel_holds_every_file_of_the_package_that_is_no_cache(wheel):
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "cloudgan").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    data = {name for name in there if not name.endswith(".py")}
    assert "cloudgan/py.typed" in data
    assert there <= set(wheel.namelist())


def test_an_installed_wheel_finds_what_people_find_at_the_top_of_the_checkout(wheel, tmp_path):
    assert assets.folder() == ROOT
    assert {"deploy/README.md", "k8s/README.md", "requirements/lock.txt"} <= set(assets.names())
    assert not [name for name in wheel.namelist() if name.startswith(("tests/", "requirements/"))]
    wheel.extractall(tmp_path / "site")
    code = "from cloudgan.core import assets as a; print(a.folder(), *a.names(), sep='\\n')"
    where, *names = subprocess.check_output(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        text=True,
    ).splitlines()
    assert where == str(tmp_path / "site" / "cloudgan" / "_assets")
    assert tuple(names) == assets.names()


def test_the_wheel_says_what_it_is(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "cloudgan"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    entry = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert "cloudgan = cloudgan.cli.main:main" in entry


@pytest.mark.parametrize("name", ["gpu", "jax-tpu", "lock", "manifests"])
def test_a_lock_has_versions_and_hashes_and_no_address(name):
    text = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    line = re.compile(
        r"#.*|[a-z0-9][a-z0-9._-]*(\[[a-z-]+\])?==[^ \\;]+( ; [^\\]+)? \\"
        r"|    --hash=sha256:[0-9a-f]{64}( \\)?|    # via [\w., ():-]+"
    )
    assert not [found for found in text.splitlines() if not line.fullmatch(found)]
    assert "://" not in text


WHEELS = {
    "a-1-py3-none-any": True,
    "a-1-py2.py3-none-any": True,
    "a-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64": True,
    "a-1-cp313-cp313-manylinux_2_28_aarch64": True,
    "a-1-cp311-cp311-macosx_11_0_arm64": True,
    "a-1-cp39-abi3-macosx_10_9_universal2": True,
    "a-1-cp310-cp310-manylinux_2_17_x86_64": False,
    "a-1-cp313-cp313t-manylinux_2_17_x86_64": False,
    "a-1-cp314-abi3-manylinux_2_17_x86_64": False,
    "a-1-pp311-pypy311_pp73-manylinux_2_17_x86_64": False,
    "a-1-cp312-cp312-musllinux_1_2_x86_64": False,
    "a-1-cp312-cp312-manylinux_2_17_ppc64le": False,
    "a-1-cp312-cp312-win_amd64": False,
}


def test_a_lock_keeps_the_hashes_of_what_a_supported_system_installs(tmp_path):
    def lock(hashes):
        return "".join(
            f"{name}==1 \\\n" + " \\\n".join(f"    --hash=sha256:{each}" for each in files) + "\n"
            for name, files in hashes.items()
        )

    files = {f"{each}.whl": f"{n:064x}" for n, each in enumerate(WHEELS)}
    found = "".join(
        f'wheels = [{{ url = "https://host/{name}", hashes = {{ sha256 = "{each}" }} }}]\n'.join(
            ("[[packages]]\n", "")
        )
        for name, each in files.items()
    )
    only_source = {"b": ["f" * 64]}
    (tmp_path / "lock.txt").write_text("# made\n" + lock({"a": files.values()} | only_source))
    (tmp_path / "found.toml").write_text(found + '[[packages]]\nname = "b"\n')
    narrow = [sys.executable, LOCKS / "narrow.py", "lock.txt", "found.toml"]
    subprocess.run(narrow, cwd=tmp_path, check=True)
    kept = [each for each, is_kept in zip(files.values(), WHEELS.values(), strict=True) if is_kept]
    assert (tmp_path / "lock.txt").read_text() == "# made\n" + lock({"a": kept} | only_source)


@pytest.mark.parametrize("extra", ["", *PROJECT["optional-dependencies"], "build"])
def test_the_lock_has_what_an_extra_asks_for(extra):
    found = pins(locked(extra))
    extras = PROJECT["optional-dependencies"] | GROUPS | {"": []}
    asked = extras[extra] + (PROJECT["dependencies"] if extra not in GROUPS else [])
    names = {re.split(r"[\[<>=]", one)[0].lower() for one in asked} - {"cloudgan"}
    assert names <= set(found), "run `make locks`"


def test_a_pod_gets_nothing_for_another_system_and_no_marker():
    text = without_markers(locked("pod", "gpu", packages=["mpich"]))
    assert " ; " not in text, "a laptop of another kind evaluates markers for itself"
    assert {"cffi", "pycparser", "nvidia-cudnn-cu12"} <= set(pins(text))
    assert not {"colorama", "pywin32"} & set(pins(text))
    assert text.count("==") == len(pins(text))


def test_the_lock_of_azurite_has_versions_and_hashes_and_no_address():
    packages = json.loads((ROOT / "tests" / "azurite" / "package-lock.json").read_text())[
        "packages"
    ]
    there = {name: found for name, found in packages.items() if name}
    assert len(there) > 300
    lacking = [
        name for name, one in there.items() if not one.get("integrity", "").startswith("sha")
    ]
    assert not lacking
    assert not [name for name, one in there.items() if "resolved" in one]
