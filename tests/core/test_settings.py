from __future__ import annotations

import pytest

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("true", True), ("", False), ("0", False), ("False", False), (" no ", False)],
)
def test_a_switch_is_off_when_it_says_so(monkeypatch, text, expected):
    monkeypatch.setenv("CLOUDGAN_SUPERVISED", text)
    assert settings.is_supervised() is expected


def test_a_profile_of_aws_goes_before_keys_in_the_environment(monkeypatch, tmp_path):
    boto3 = pytest.importorskip("boto3", reason="needs pip install '.[aws]'")
    (tmp_path / "credentials").write_text(
        "[lab]\naws_access_key_id = of-the-lab\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-another-account")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "z")
    monkeypatch.setenv("AWS_PROFILE", "")
    settings.use_aws_profile("lab")
    assert boto3.Session().get_credentials().access_key == "of-the-lab"


def test_a_child_gets_this_environment_with_the_changes_and_this_one_stays(monkeypatch):
    monkeypatch.setenv("CLOUDGAN_A", "a")
    monkeypatch.setenv("CLOUDGAN_B", "b")
    child = settings.child_environment(CLOUDGAN_A=None, CLOUDGAN_C="c")
    assert "CLOUDGAN_A" not in child
    assert (child["CLOUDGAN_B"], child["CLOUDGAN_C"]) == ("b", "c")
    assert settings.variable("CLOUDGAN_A") == "a"
    assert settings.variable("CLOUDGAN_C") is None


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("TF_CPP_MIN_LOG_LEVEL", "0", "0"),
        ("GRPC_VERBOSITY", None, "ERROR"),
        ("TF_ENABLE_ONEDNN_OPTS", None, "1"),
        ("TF_ENABLE_ONEDNN_OPTS", "", "1"),
        ("TF_ENABLE_ONEDNN_OPTS", "0", "0"),
        ("ORT_DISABLE_TELEMETRY", None, "1"),
    ],
)
def test_a_library_is_quiet_fast_and_reports_to_no_one_unless_the_user_set_it(
    monkeypatch, name, given, expected
):
    monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(name, given)
    settings.quiet_tensorflow()
    assert settings.variable(name) == expected


@pytest.mark.parametrize(
    ("own", "desktop", "expected"),
    [
        ("/a", "/b", "/a"),
        (None, "/b", "/b/cloudgan"),
        (None, None, "/c/.local/share/cloudgan"),
        (None, "relative", "/c/.local/share/cloudgan"),
    ],
)
def test_the_users_own_data_have_one_place(monkeypatch, own, desktop, expected):
    monkeypatch.setenv("HOME", "/c")
    for name, value in (("CLOUDGAN_DATA", own), ("XDG_DATA_HOME", desktop)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert str(settings.data_folder()) == expected


def test_a_limit_of_instructions_has_an_old_and_a_new_name(monkeypatch):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    assert settings.onednn_instructions() is None
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX")
    assert settings.onednn_instructions() == "AVX"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert settings.onednn_instructions() == "AVX2"


@pytest.mark.parametrize("text", ["-1", "1.5", "eight", "\u0662"])
def test_the_planned_accelerators_are_a_number(monkeypatch, text):
    assert settings.planned_accelerators() == 0
    monkeypatch.setenv("CLOUDGAN_ACCELERATORS", "8")
    assert settings.planned_accelerators() == 8
    monkeypatch.setenv("CLOUDGAN_ACCELERATORS", text)
    with pytest.raises(ConfigError, match=r"CLOUDGAN_ACCELERATORS is .*must be the number"):
        settings.planned_accelerators()


@pytest.mark.parametrize("home", ["relative", '{"cluster": {}}', "~", "./x"])
def test_a_relative_home_is_refused_before_a_library_creates_it(monkeypatch, tmp_path, home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(ConfigError, match=r"HOME is .*; set it to the absolute path"):
        settings.home_folder()


def test_an_empty_home_is_that_of_the_user_and_not_the_root(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    unset = settings.home_folder()
    monkeypatch.setenv("HOME", "")
    assert settings.home_folder() == unset
    assert settings.variable("HOME") is None
