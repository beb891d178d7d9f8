"""Each cloud's metadata service, played by a real HTTP server."""

from __future__ import annotations

import pytest

from cloudgan.worker.metadata import GoogleMetadata, Notice, open_metadata
from worker.metadata_double import MetadataDouble

CLOUDS = ("aws", "azure", "gcp")


@pytest.fixture
def metadata():
    made = []

    def make(cloud):
        made.append(MetadataDouble(cloud))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize(("cloud", "seconds"), [("aws", 120), ("azure", 30), ("gcp", 30)])
def test_a_notice_is_read_with_the_seconds_it_leaves(metadata, cloud, seconds):
    double = metadata(cloud)
    service = open_metadata(cloud, double.url)
    assert service.look() is None
    double.take_away(seconds)
    notice = service.look()
    assert notice.cloud == cloud
    assert notice.seconds == pytest.approx(seconds, abs=2)


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(
    "odd", [(200, "<html>a captive portal</html>"), (200, "[]"), (500, ""), (403, "no"), (200, "")]
)
def test_what_is_no_such_service_gives_no_notice(metadata, cloud, odd):
    double = metadata(cloud)
    double.odd = odd
    with pytest.raises(ValueError, match=r"answered|expected|Expecting"):
        open_metadata(cloud, double.url).look()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nobody_there_is_an_error_of_the_network(metadata, cloud):
    double = metadata(cloud)
    double.close()
    with pytest.raises(OSError, match="refused"):
        open_metadata(cloud, double.url).look()


def test_google_keeps_the_second_question_open_until_something_changes(metadata):
    double = metadata("gcp")
    service = GoogleMetadata(double.url, wait_seconds=5)
    assert service.look() is None
    double.take_away(30)
    assert service.look() == Notice("gcp", 30.0)
    assert len(double.asked) == 2


def test_a_token_of_ec2_is_kept_and_replaced_when_it_is_too_old(metadata):
    double = metadata("aws")
    service = open_metadata("aws", double.url)
    service.look()
    service.look()
    tokens = [one for one in double.asked if one.startswith("PUT")]
    assert len(tokens) == 1
    double.tokens.clear()
    assert service.look() is None
    assert len([one for one in double.asked if one.startswith("PUT")]) == 2


def test_azure_tells_all_machines_of_a_scale_set_and_only_its_own_counts(metadata):
    double = metadata("azure")
    service = open_metadata("azure", double.url)
    double.resources = ["aks-gpu-123-vmss_4"]
    double.take_away(30)
    assert service.look() is None
    double.resources = ["AKS-GPU-123-VMSS_3"]
    notice = service.look()
    assert notice.event == "P1"
    service.acknowledge(notice)
    assert double.posted == [{"StartRequests": [{"EventId": "P1"}]}]


def test_a_moment_that_nobody_can_read_leaves_the_time_unknown(metadata):
    double = metadata("aws")
    service = open_metadata("aws", double.url)
    service.look()
    double.odd = (200, '{"action": "terminate", "time": "soon"}')
    assert service.look() == Notice("aws", None)
