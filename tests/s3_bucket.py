"""A bucket of a real S3 server on loopback, at the endpoint of boto3's settings."""

import contextlib

import pytest


@contextlib.contextmanager
def s3_bucket(name, key="test"):
    """Yields the client of an empty bucket, which this process and those it starts reach as s3://NAME."""
    boto3, server = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    here = "http://{}:{}".format(*running.get_host_and_port())
    # Its objects are those of the process: a bucket of an earlier test would be full.
    pytest.importorskip("urllib3").request("POST", f"{here}/moto-api/reset")
    settings = {
        "AWS_ENDPOINT_URL": here,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": key,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in settings.items():
            patch.setenv(variable, value)
        with contextlib.closing(boto3.client("s3")) as client:
            client.create_bucket(Bucket=name)
            yield client
    running.stop()
