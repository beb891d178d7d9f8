"""Showers in a bucket, for `convert` and `train`; the server is moto, at the endpoint of boto3's settings."""

from __future__ import annotations

import contextlib
import json

import h5py
import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytest.importorskip("tensorflow")
boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
pytestmark = [pytest.mark.tf, pytest.mark.slow]


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket that this process and those it starts reach as s3://showers."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="showers")
        yield client
        client.close()
    server.stop()


@pytest.fixture(scope="module")
def showers(tmp_path_factory):
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    path = tmp_path_factory.mktemp("showers") / "showers.h5"
    write_hdf5(path, simulate(60, seed=3, cells=(9, 9), block=50))
    return path


@pytest.fixture(scope="module")
def uploaded(bucket, showers, run_cloudgan):
    url = "s3://showers/set"
    done = run_cloudgan("convert", showers, url, "--json")
    assert json.loads(done.stdout)["path"] == url
    return url


def names(bucket):
    return [entry["Key"] for entry in bucket.list_objects_v2(Bucket="showers").get("Contents", [])]


def test_a_round_trip_through_a_bucket_keeps_every_bit(
    bucket, showers, uploaded, tmp_path, cloudgan_here
):
    assert "set/manifest.json" in names(bucket)
    assert "set/part-00000-values.npy" in names(bucket)
    done = cloudgan_here("convert", uploaded, tmp_path / "back.h5")
    assert "downloading s3://showers/set" in done.stderr
    with h5py.File(showers) as one, h5py.File(tmp_path / "back.h5") as other:
        for name in one:
            np.testing.assert_array_equal(one[name][:], other[name][:], err_msg=name)


def test_a_run_downloads_its_showers_once(bucket, uploaded, tmp_path, plain_model, run_cloudgan):
    run, config = tmp_path / "run", tmp_path / "plain.yaml"
    config.write_text(json.dumps({"model": plain_model}))
    flags = (f"--run={run}", f"--config={config}", f"--data={uploaded}", "--batch=8")
    first = run_cloudgan("train", *flags, "--max-steps=2")
    assert "downloading s3://showers/set" in first.stderr
    nowhere = "http://127.0.0.1:9"
    second = run_cloudgan("train", *flags, "--max-steps=3", AWS_ENDPOINT_URL=nowhere)
    assert "downloading" not in second.stderr
    assert record.read(RunFolder(run).record_file).epochs()[-1].step == 3


def test_an_existing_set_in_a_bucket_is_replaced_only_with_overwrite(
    showers, uploaded, cloudgan_here
):
    done = cloudgan_here("convert", showers, uploaded, exits=2)
    assert "--overwrite" in done.stderr


def test_a_file_that_differs_from_the_manifest_is_named(bucket, showers, tmp_path, cloudgan_here):
    url = "s3://showers/damaged"
    cloudgan_here("convert", showers, url)
    bucket.put_object(Bucket="showers", Key="damaged/part-00000-cells.npy", Body=b"nonsense")
    done = cloudgan_here("convert", url, tmp_path / "back.h5", exits=2)
    assert "damaged/part-00000-cells.npy is truncated: 8 bytes" in done.stderr
    assert not (tmp_path / "back.h5").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("train", "--data=s3://showers/none", "--preset=smoke"),
            "holds no complete store",
        ),
        (("train", "--data=s3://no-such-bucket/x", "--preset=smoke"), "no bucket"),
        (("train", "--data=s4://showers/set", "--preset=smoke"), "unknown store type 's4'"),
        (("convert", "nowhere.h5", "s3://showers/new"), "nowhere.h5"),
        (("convert", "s3://showers/none", "back.h5"), "holds no complete store"),
    ],
)
def test_invalid_input_is_refused_and_creates_nothing(bucket, tmp_path, cloudgan_here, words, said):
    before = names(bucket)
    with contextlib.chdir(tmp_path):
        done = cloudgan_here(*words, exits=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert names(bucket) == before


def test_hdf5_is_not_written_to_a_bucket(bucket, showers, cloudgan_here):
    done = cloudgan_here("convert", showers, "s3://showers/back.h5", exits=2)
    assert "a bucket holds a store" in done.stderr


def test_a_bucket_is_refused_as_the_folder_of_a_run(showers, cloudgan_here):
    done = cloudgan_here("train", f"--data={showers}", "--run=s3://showers/run", exits=2)
    assert "s3://showers/run is a URL" in done.stderr
    assert "--checkpoints copies" in done.stderr
