"""Two sources are compared offer by offer."""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.cost.prices.catalog import shipped_catalog
from cloudgan.cost.prices.refresh.verify import ReferencePrice, gpuhunt_prices, verify

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cost.refresh.conftest import Answer, Asked, Lists

ROW = shipped_catalog().row("aws/g5.xlarge/us-east-1/on_demand")  # 1.006 USD/h
SPOT = shipped_catalog().row("aws/g5.xlarge/us-east-1/spot")


def second(usd: float, market: str = "on_demand", **changes: str) -> ReferencePrice:
    base = ReferencePrice("aws", "g5.xlarge", "us-east-1", market, usd)  # type: ignore[arg-type]
    return base._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("usd", [1.006, 1.006 * 1.049, 1.006 * 0.951])
def test_within_five_per_cent_both_say_the_same(usd: float) -> None:
    found = verify([ROW], [second(usd)])
    assert (found.agreed, found.disagreements, found.missing) == (1, (), 0)


@pytest.mark.parametrize(("factor", "difference"), [(1.06, 0.06), (0.5, -0.5)])
def test_beyond_five_per_cent_they_disagree_by_a_part_of_our_price(
    factor: float, difference: float
) -> None:
    found = verify([ROW], [second(1.006 * factor)])
    (one,) = found.disagreements
    assert one.difference == pytest.approx(difference)
    assert (one.row, found.agreed, found.missing) == (ROW, 0, 0)


def test_the_widest_apart_comes_first() -> None:
    found = verify([ROW, SPOT], [second(4), second(10 * SPOT.usd_per_hour, "spot")])
    assert [one.row.market for one in found.disagreements] == ["spot", "on_demand"]


def test_the_cheapest_zone_counts() -> None:
    assert verify([ROW], [second(5), second(1.006), second(4)]).agreed == 1


@pytest.mark.parametrize(
    "other",
    [
        second(1.006, provider="gcp"),
        second(1.006, region="us-west-2"),
        second(1.006, node_type="g5.12xlarge"),
        second(1.006, "spot"),
    ],
)
def test_another_offer_is_not_compared(other: ReferencePrice) -> None:
    found = verify([ROW], [other])
    assert (found.agreed, found.disagreements, found.missing) == (0, (), 1)


def test_prices_of_2021_are_not_compared_with_today() -> None:
    old = [row for row in shipped_catalog().rows if row.snapshot == "2021"]
    found = verify(old, [])
    assert (found.agreed, found.missing) == (0, 0)


def test_a_known_fault_of_the_second_source_is_remarked() -> None:
    row = shipped_catalog().row("gcp/v3-8/europe-west4/spot")
    wrong = ReferencePrice("gcp", "v3-8", "europe-west4", "spot", 4 * row.usd_per_hour)
    (one,) = verify([row], [wrong]).disagreements
    assert "multiplies" in one.remark
    (other,) = verify([ROW], [second(9)]).disagreements
    assert other.remark == ""
    (far,) = verify([row], [wrong._replace(usd_per_hour=40 * row.usd_per_hour)]).disagreements
    assert far.remark == "", "the fault explains a factor of about the number of chips only"


@pytest.mark.parametrize(("factor", "is_explained"), [(1.055, True), (1.96, False), (0.94, False)])
def test_local_disks_explain_a_difference_of_their_size_only(
    factor: float, is_explained: bool
) -> None:
    row = shipped_catalog().row("gcp/a2-ultragpu-1g/us-central1/spot")
    row = row.model_copy(update={"usd_per_hour": 1.0})
    other = ReferencePrice("gcp", "a2-ultragpu-1g", "us-central1", "spot", factor)
    (one,) = verify([row], [other]).disagreements
    assert ("local disks" in one.remark) == is_explained


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
    (tmp_path / "aws.csv").write_text(f"{HEAD}\ng5.xlarge,us-east-1,0.5,8,61,1,V100,16,True,")
    found = set(gpuhunt_prices(["gcp", "aws"]))
    assert found == {
        ReferencePrice("gcp", "n1-standard-8+1xV100", "us-central1", "on_demand", 2.86),
        ReferencePrice("gcp", "v3-8", "us-central1", "on_demand", 8.0),
        ReferencePrice("aws", "g5.xlarge", "us-east-1", "spot", 0.5),
    }
    verified = verify(shipped_catalog().rows, found)
    assert verified.agreed == 2
    assert [one.row.node_type for one in verified.disagreements] == ["g5.xlarge"]


@needs_gpuhunt
def test_without_its_catalogue_there_is_no_second_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    with pytest.raises(CloudganError, match="gpuhunt returned no prices"):
        gpuhunt_prices(["aws"])


@needs_gpuhunt
def test_its_catalogues_are_downloaded(
    lists: Lists, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("aws.csv", f"{HEAD}\ng5.xlarge,us-east-1,1.006,8,61,1,V100,16,False,")
    pages = {"/aws/version": b"20261121", "/aws/20261121/catalog.zip": packed.getvalue()}

    def answer(asked: Asked) -> Answer:
        body = pages.get(asked.path)
        return lists.says(body) if body else lists.says(status=404)

    lists.answer = answer
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", lists.url)
    (one,) = gpuhunt_prices(["aws"])
    assert one == ReferencePrice("aws", "g5.xlarge", "us-east-1", "on_demand", 1.006)
    lists.answer = lambda _: lists.says(status=503)
    with pytest.raises(CloudganError, match=r"gpuhunt returned no prices \(HTTP Error 503[^\n]*$"):
        gpuhunt_prices(["aws"])
    assert capfd.readouterr().err == "", "no traceback of gpuhunt"


@pytest.mark.skipif(find_spec("gpuhunt") is not None, reason="gpuhunt is installed")
def test_without_gpuhunt_the_message_names_the_command() -> None:
    with pytest.raises(ConfigError, match=r"pip install '\.\[verify\]'"):
        gpuhunt_prices(["aws"])
