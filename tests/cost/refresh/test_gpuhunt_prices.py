"""gpuhunt itself, reading a catalogue that a test wrote."""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.cost.catalog import shipped_catalog
from cloudgan.cost.refresh.gpuhunt_prices import gpuhunt_prices
from cloudgan.cost.verify import Second, verify

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cost.refresh.conftest import Answer, Asked, Lists

HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size"
# gpuhunt leaves the files of its folder to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
needs_gpuhunt = pytest.mark.skipif(find_spec("gpuhunt") is None, reason="gpuhunt is not installed")


@needs_gpuhunt
def test_its_names_are_made_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    gcp = (
        "n1-standard-8,us-central1-a,2.86,8,30,1,V100,16,False,",
        "v3-8,us-central1-b,8.0,96,334,1,v3-8,128,False,",
    )
    (tmp_path / "gcp.csv").write_text("\n".join((HEAD, *gcp)))
    (tmp_path / "aws.csv").write_text(f"{HEAD}\np3.2xlarge,us-east-1,0.5,8,61,1,V100,16,True,")
    found = set(gpuhunt_prices(["gcp", "aws"]))
    assert found == {
        Second("gcp", "n1-standard-8+1xV100", "us-central1", "on_demand", 2.86),
        Second("gcp", "v3-8", "us-central1", "on_demand", 8.0),
        Second("aws", "p3.2xlarge", "us-east-1", "spot", 0.5),
    }
    verified = verify(shipped_catalog().rows, found)
    assert verified.agreed == 2
    assert [one.row.node_type for one in verified.disagreements] == ["p3.2xlarge"]


@needs_gpuhunt
def test_without_its_catalogue_there_is_no_second_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    with pytest.raises(CloudganError, match="gpuhunt has no prices"):
        gpuhunt_prices(["aws"])


@needs_gpuhunt
def test_its_catalogues_are_downloaded(
    lists: Lists, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("aws.csv", f"{HEAD}\np3.2xlarge,us-east-1,3.06,8,61,1,V100,16,False,")
    pages = {"/aws/version": b"20261121", "/aws/20261121/catalog.zip": packed.getvalue()}

    def answer(asked: Asked) -> Answer:
        body = pages.get(asked.path)
        return lists.says(body) if body else lists.says(status=404)

    lists.answer = answer
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", lists.url)
    (one,) = gpuhunt_prices(["aws"])
    assert one == Second("aws", "p3.2xlarge", "us-east-1", "on_demand", 3.06)
    lists.answer = lambda _: lists.says(status=503)
    with pytest.raises(CloudganError, match="gpuhunt has no prices"):
        gpuhunt_prices(["aws"])


@pytest.mark.skipif(find_spec("gpuhunt") is not None, reason="gpuhunt is installed")
def test_without_gpuhunt_it_is_told_what_to_type() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'cloudgan\[verify\]'"):
        gpuhunt_prices(["aws"])
