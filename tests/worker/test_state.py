"""What the chief reports of a grid of cells."""

from types import SimpleNamespace

from cloudgan.schema.config import RunConfig
from cloudgan.schema.heartbeat import Liveness
from cloudgan.worker.rendezvous import AgentState, AgentStatus, read_heartbeat


def test_the_heartbeat_of_a_grid_counts_iterations():
    config = RunConfig.model_validate({"grid": {"iterations": 40}})
    pod = SimpleNamespace(config=config, config_hash="0" * 16)
    state = AgentState(0, 2, AgentStatus(incarnation="first"))
    found = read_heartbeat(pod, state, {})
    assert (found.epoch, found.epochs, found.step) == (None, 40, None)
    state.liveness = Liveness(7, 7, 0.5)
    assert read_heartbeat(pod, state, {}).epoch == 7
    state.change(phase="ended")
    state.exit_code = 0
    assert read_heartbeat(pod, state, {}).epoch == 40
