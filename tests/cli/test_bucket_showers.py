"""Showers in a bucket, for `convert` and `train`."""

import json

import h5py
import numpy as np
import pytest

import cloudgan as cg
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from s3_bucket import s3_bucket


@pytest.fixture(scope="module")
def bucket():
    with s3_bucket("showers") as client:
        yield client


@pytest.fixture(scope="module")
def showers(tmp_path_factory):
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    path = tmp_path_factory.mktemp("showers") / "showers.h5"
    write_hdf5(path, simulate(60, seed=3, cells=(9, 9), block=50))
    return path


@pytest.fixture(scope="module")
def uploaded(bucket, showers):
    assert cg.convert(str(showers), "s3://showers/set").path == "s3://showers/set"
    return "s3://showers/set"


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


@pytest.mark.tf
def test_a_run_downloads_its_showers_once(bucket, uploaded, tmp_path, plain_model, run_cloudgan):
    pytest.importorskip("tensorflow")
    run, config = tmp_path / "run", tmp_path / "plain.yaml"
    config.write_text(json.dumps({"model": plain_model}))
    flags = (f"--run={run}", f"--config={config}", f"--data={uploaded}", "--batch=8")
    first = run_cloudgan("train", *flags, "--max-steps=2")
    assert "downloading s3://showers/set" in first.stderr
    nowhere = "http://127.0.0.1:9"
    second = run_cloudgan("train", *flags, "--max-steps=3", AWS_ENDPOINT_URL=nowhere)
    assert "downloading" not in second.stderr
    assert record.read(RunFolder(run).record_file).epochs()[-1].step == 3


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
        ("train --preset=smoke --data=s3://showers/none", "holds no complete store"),
        ("train --preset=smoke --data=s3://no-such-bucket/x", "no bucket"),
        ("train --preset=smoke --data=s4://showers/set", "unknown store type 's4'"),
        ("convert nowhere.h5 s3://showers/new", "nowhere.h5"),
        ("convert s3://showers/none back.h5", "holds no complete store"),
        ("convert {showers} s3://showers/set", "--overwrite"),
        ("convert {showers} s3://showers/back.h5", "a bucket holds a store"),
        ("train --data={showers} --run=s3://showers/run", "s3://showers/run is a URL"),
        ("train --data={showers} --run=s3://showers/run", "--checkpoints copies"),
    ],
)
@pytest.mark.usefixtures("uploaded")
def test_invalid_input_is_refused_and_creates_nothing(bucket, showers, refused, words, said):
    before = names(bucket)
    assert said in refused(*words.format(showers=showers).split())
    assert names(bucket) == before
