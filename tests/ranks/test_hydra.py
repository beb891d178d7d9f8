"""Commands of MPICH's process manager, and what its manual launcher prints."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CloudganError
from cloudgan.ranks.hydra import proxy_command, read_launch

OPTIONS = "--rmk user --launcher manual --demux poll --pgid 0 --retries 10 --usize -1 --pmi-port 0"
FIRST = f"--control-port run-0.run:40001 {OPTIONS} --proxy-id 0"
SECOND = f"--control-port run-0.run:40001 {OPTIONS} --proxy-id 1"
PRINTED = (
    "a warning\n",
    f"HYDRA_LAUNCH: /usr/bin/hydra_pmi_proxy {FIRST} \n",
    f"HYDRA_LAUNCH: /usr/bin/hydra_pmi_proxy {SECOND} \n",
)


def test_the_arguments_of_each_proxy_are_read_up_to_the_end_line():
    assert read_launch((*PRINTED, "HYDRA_LAUNCH_END\n", PRINTED[1])) == (FIRST, SECOND)
    assert read_launch(PRINTED) is None


def test_a_proxy_is_started_with_its_arguments_one_by_one():
    pytest.importorskip("mpi4py")
    assert proxy_command(SECOND)[-2:] == ["--proxy-id", "1"]


@pytest.mark.parametrize(
    "arguments",
    ["", "--help", f"{FIRST} --x=$(id)", f"/bin/sh {FIRST}", f"{FIRST}\n--x", "a " * 999],
)
def test_anything_else_than_arguments_of_a_proxy_is_refused(arguments):
    with pytest.raises(CloudganError, match="no arguments of Hydra's proxy"):
        proxy_command(arguments)
