"""`cloudgan evolve`: a grid of cells whose generators and discriminators compete."""

from __future__ import annotations

from typing import Literal

from cloudgan.api.evolve import evolve as run_evolution
from cloudgan.cli.views.output import print_json, print_table, progress_bars

_COLUMNS = 120


def evolve(
    *,
    run: str | None = None,
    grid: str | None = None,
    task: Literal["showers", "digits", "ring"] | None = None,
    data: str | None = None,
    preset: str | None = None,
    engine: Literal["one", "ranks"] | None = None,
    asynchronous: bool = False,
    iterations: int | None = None,
    batches: int | None = None,
    batch: int | None = None,
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
    threads: int | None = None,
    seed: int | None = None,
    ensemble: Literal["greedy", "genetic"] | None = None,
    size: int | None = None,
    json: bool = False,
) -> None:
    """Trains a grid of cells: generators and discriminators compete, mutate and form mixtures.

    Args:
        run: Folder of the run; a run in it continues. Default: runs/grid.
        grid: Rows and columns, such as 2x3. Default: 2x2.
        task: showers, digits, or ring (eight Gaussians). Default: digits.
        data: Showers, or the folder of the MNIST files. Default: the digits of scikit-learn.
        preset: Task showers: networks, as in `train`. Default: mini.
        engine: one (all cells in one process) or ranks (one MPI rank per cell). Default: one.
        asynchronous: Engine ranks: a cell never waits for its neighbours.
        iterations: Of each cell. Default: 20.
        batches: Of a cell per iteration. Default: 50.
        batch: Samples per batch. Default: 100.
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
        silence_seconds: Engine ranks: a rank without a sign of life counts as lost. Default: 30.
        threads: Of TensorFlow, per process. Default: the cores.
        seed: Of all random numbers. Default: 1.
        ensemble: After the run, choose among the generators of all cells: greedy or genetic.
        size: Generators of the ensemble; of greedy at most. Default: as many as are best.
        json: Print the result as JSON.
    """
    with progress_bars(as_json=json) as progress:
        found = run_evolution(
            run=run,
            preset=preset,
            ensemble=ensemble,
            size=size,
            progress=progress,
            grid=grid,
            task=task,
            data=data,
            engine=engine,
            asynchronous=asynchronous or None,
            iterations=iterations,
            batches=batches,
            batch=batch,
            neighbourhood=neighbourhood,
            neighbourhood_schedule=neighbourhood_schedule,
            population=population,
            tournament=tournament,
            replacements=replacements,
            fitness=fitness,
            fitness_samples=fitness_samples,
            discriminator_every=discriminator_every,
            losses=losses,
            learning_rate=learning_rate,
            rate_sigma=rate_sigma,
            rate_probability=rate_probability,
            mixture_sigma=mixture_sigma,
            score_samples=score_samples,
            data_share=data_share,
            save_every=save_every,
            silence_seconds=silence_seconds,
            threads=threads,
            seed=seed,
        )
    if json:
        print_json(found.as_json())
    else:
        from cloudgan.api.evolution_page import comparison_table

        print_table(found.table(), width=_COLUMNS)
        compared = comparison_table(found)
        if compared:
            print_table(compared, width=_COLUMNS)
