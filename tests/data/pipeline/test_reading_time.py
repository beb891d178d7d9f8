"""Readers add up their time."""

from __future__ import annotations

import threading
import time

import pytest

from cloudgan.data.pipeline.image_buffers import ReadingTime


def test_the_time_of_all_threads_adds_up_also_where_one_fails():
    reading = ReadingTime()

    def read():
        with reading.measured():
            time.sleep(0.05)

    threads = [threading.Thread(target=read) for _ in range(4)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    assert 4 * 0.05 <= reading.seconds <= 4 * took
    before = reading.seconds
    with pytest.raises(OSError, match="gone"), reading.measured():
        raise OSError("gone")
    assert reading.seconds > before
