"""The flags that `evolve`, `plan` and `deploy` share: a grid of cells, and how it evolves."""

from __future__ import annotations

from typing import Any, Literal


def grid_flags(
    *,
    grid: str | None = None,
    asynchronous: bool = False,
    iterations: int | None = None,
    batches: int | None = None,
    neighbourhood: Literal["von_neumann", "moore", "ring", "all", "none"] | None = None,
    neighbourhood_schedule: str | None = None,
    population: int | None = None,
    tournament: int | None = None,
    replacements: int | None = None,
    fitness: Literal["worst", "mean", "best"] | None = None,
    fitness_samples: int | None = None,
    discriminator_every: int | None = None,
    losses: str | None = None,
    learning_rate: float | None = None,
    rate_sigma: float | None = None,
    rate_probability: float | None = None,
    mixture_sigma: float | None = None,
    score_samples: int | None = None,
    data_share: float | None = None,
    save_every: int | None = None,
    silence_seconds: float | None = None,
) -> dict[str, Any]:
    """Returns the given options by name; None is not set.

    Args:
        grid: Rows and columns of cells whose GANs compete, such as 2x3. Default of `evolve`: 2x2; of
            `plan` and `deploy`: none.
        asynchronous: Cells as ranks: a cell never waits for its neighbours.
        iterations: Of each cell. Default: 20.
        batches: Of a cell per iteration. Default: 50.
        neighbourhood: Cells that exchange individuals. Default: von_neumann.
        neighbourhood_schedule: Changes of it, such as 5:moore,12:all.
        population: Generators, and discriminators, of a cell. Default: 1.
        tournament: Individuals that compete to be trained. Default: 2.
        replacements: New individuals of a kind per iteration, at most. Default: 1.
        fitness: Loss over the adversaries of the neighbourhood. Default: worst.
        fitness_samples: Held-out samples of a fitness. Default: 200.
        discriminator_every: Batches between two updates of the discriminator. Default: 2.
        losses: From which a generator's loss is drawn: bce,least_squares,heuristic. Default: bce.
        learning_rate: Of both networks at the start. Default: 0.0002.
        rate_sigma: Standard deviation of a mutation of the learning rate. Default: 0.0001.
        rate_probability: Of such a mutation per iteration. Default: 0.5.
        mixture_sigma: Standard deviation of a mutation of the mixture weights. Default: 0.01.
        score_samples: Samples of which a mixture's quality is measured. Default: 1000.
        data_share: Share of the training data that a cell sees. Default: 1.
        save_every: Iterations between two saved states. Default: 5.
        silence_seconds: Cells as ranks: one without a sign of life counts as lost. Default: 30.
    """
    options = dict(locals())
    return options | {"asynchronous": asynchronous or None}
