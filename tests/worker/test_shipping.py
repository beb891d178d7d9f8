from __future__ import annotations

import gzip
import time

import pytest

from cloudgan.stores import StoreError, open_store
from cloudgan.worker.shipping import Shipment, Shipper, file_shipment


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def test_a_file_is_shipped_when_it_changed_and_its_time_has_come(store, tmp_path):
    path = tmp_path / "record.jsonl"
    shipment = file_shipment(store, "record.jsonl", path, every_seconds=10)
    assert not shipment.is_due(0.0)  # there is none
    path.write_text("a")
    assert shipment.is_due(0.0)
    shipment.ship(0.0)
    assert store.read("record.jsonl") == b"a"
    assert not shipment.is_due(20.0)  # nothing new
    path.write_text("ab")
    assert not shipment.is_due(5.0)
    assert shipment.is_due(10.0)


def test_a_log_is_packed(store, tmp_path):
    path = tmp_path / "log"
    path.write_text("line\n")
    file_shipment(store, "logs/0/x.log.gz", path, every_seconds=0, packed=True).ship(0.0)
    assert gzip.decompress(store.read("logs/0/x.log.gz")) == b"line\n"


def test_what_beats_is_shipped_now_and_then_and_at_once_when_it_changed():
    key, shipped = ["waiting"], []
    beat = Shipment("beat", lambda: key[0], lambda: shipped.append(1), every_seconds=15, beats=True)
    beat.ship(0.0)
    assert not beat.is_due(14.0)
    assert beat.is_due(15.0)
    key[0] = "training"
    assert beat.is_due(1.0)


def test_a_change_while_it_is_put_is_not_lost():
    key = [1]
    shipment = Shipment("x", lambda: key[0], lambda: key.__setitem__(0, 2), every_seconds=0)
    shipment.ship(0.0)
    assert shipment.is_pending()


class Failing:
    """Puts that fail until somebody repairs the store."""

    def __init__(self):
        self.broken, self.tries = True, 0

    def __call__(self):
        self.tries += 1
        if self.broken:
            raise StoreError("the store is away")


def test_a_store_that_fails_is_told_once_and_tried_again(wait_until):
    put, said = Failing(), []
    shipper = Shipper([Shipment("x", lambda: 1, put, every_seconds=0.0)], said.append)
    wait_until(lambda: put.tries >= 3, "three tries")
    put.broken = False
    assert shipper.close([], patience_seconds=5) == ()
    assert len(said) == 1
    assert "x is not in the store: the store is away" in said[0]


def test_at_the_end_what_is_not_there_is_named_in_time():
    put = Failing()
    shipper = Shipper([Shipment("x", lambda: 1, put, every_seconds=1e9)], lambda _: None)
    assert shipper.close([], patience_seconds=0.5) == ("x (the store is away)",)


def test_a_store_that_never_answers_keeps_nobody():
    slow = Shipment("x", lambda: 1, lambda: time.sleep(60), every_seconds=0.0)
    shipper = Shipper([slow], lambda _: None)
    began = time.monotonic()
    assert shipper.close([], patience_seconds=0.3) == ("x",)
    assert time.monotonic() - began < 30


def test_the_last_shipments_go_with_the_end():
    shipped = []
    last = Shipment("checkpoints", lambda: True, lambda: shipped.append(1), every_seconds=0.0)
    assert Shipper([], lambda _: None).close([last], patience_seconds=5) == ()
    assert shipped == [1]
