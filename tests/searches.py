"""A search in a folder, with finished trials and no training."""

import records
from cloudgan.schema.config import parse_config
from cloudgan.schema.search import Dimension, SearchConfig, with_folds
from cloudgan.search.folder import SearchFolder
from cloudgan.search.study import open_study

RATE = {"model.learning_rate": Dimension(low=1e-4, high=1e-2, log=True)}


def write_search(path, *results, folds=None, space=RATE, **given):
    """Writes a search whose trials ended with these results: numbers of its objectives, or why it failed."""
    base = parse_config({"model": {"preset": "smoke"}}, "a test")
    if folds:
        base, given = with_folds(base, folds), given | {"folds": folds}
    config = SearchConfig(**{"base": base, "space": space, "sampler": "random"} | given)
    folder = SearchFolder(path)
    folder.write_config(config)
    study = open_study(folder, config)
    for result in results:
        number = study.ask().number
        if isinstance(result, str):
            study.fail(number, result)
        else:
            study.complete(number, result if isinstance(result, tuple) else [result])
    return folder, study, config


def write_time(path, seconds):
    """Writes a record of a run that took as long."""
    records.write_run(path, records.stopped(9, seconds))
