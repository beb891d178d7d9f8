"""Files of the AWS settings are checked before boto3 reads them."""

import os

import pytest

from cloudgan.core.errors import ConfigError

pytest.importorskip("botocore")


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_huge_file_and_a_pipe_are_refused_before_boto3_reads_them(
    tmp_path, monkeypatch, variable
):
    from cloudgan.storage.aws_configuration import checked_configuration

    huge, pipe = tmp_path / "huge", tmp_path / "pipe"
    huge.touch()
    os.truncate(huge, 1 << 40)
    os.mkfifo(pipe)
    for path in (huge, pipe):
        monkeypatch.setenv(variable, str(path))
        with pytest.raises(ConfigError, match=path.name), checked_configuration():
            pytest.fail("boto3 would read it")


def test_dev_null_and_a_missing_file_mean_no_settings(tmp_path, monkeypatch):
    from cloudgan.storage.aws_configuration import checked_configuration

    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with checked_configuration():
        pass
