"""Searches and cross-validations of scikit-learn: a run each, with a nested run per candidate.

They are logged at their end from ``cv_results_``, as MLflow's own flavour does. The refit has a
run. Fits of folds have no runs: any ``n_jobs`` gives the same runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import _validation
from sklearn.model_selection._search import BaseSearchCV

from tsformer.estimators.frameworks.base import FrameworkClassifier
from tsformer.estimators.series import SeriesEstimator
from tsformer.plots import encoding_color
from tsformer.tracking.context import (
    Enclosing,
    activated,
    current,
    hides_fits,
    start_run,
    user_run_is_active,
    within,
)
from tsformer.tracking.scores import main_score
from tsformer.tracking.settings import current_settings, speaking
from tsformer.tracking.tracked_run import TrackedRun
from tsformer.tracking.tracker import name_of
from tsformer.tracking.views import PLACE_TAG, make_views

_WRAPPED = "_tsformer_tracks"
_NOTE = "Means over folds. Metrics ending in `_spread` are standard deviations over folds."
_SUFFIXES = {"mean": "", "std": "_spread", "rank": "_rank"}


def install() -> None:
    """Wrap searches and cross-validation, once."""
    kinds: list[Any] = [BaseSearchCV]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "fit" in vars(kind):  # its own, or MLflow's replacement
            kind.fit = _wrapped(kind.fit, _search)
    original = _validation.cross_validate
    tracked = _wrapped(original, _cross_validate)
    for module in list(sys.modules.values()):  # `from sklearn.model_selection import ...`
        if getattr(module, "__dict__", {}).get("cross_validate") is original:
            vars(module)["cross_validate"] = tracked


def _wrapped(original: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(original, _WRAPPED):
        return original

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(function, _WRAPPED, True)
    return function


def _search(original: Callable[..., Any], search: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `fit` of a search in a run."""
    grid = getattr(search, "param_grid", None) or getattr(search, "param_distributions", {})
    grids = grid if isinstance(grid, list) else [grid]
    names = _short({name: "" for each in grids for name in each})
    with _tracked(f"{type(search).__name__} over {', '.join(names)}", search) as run:
        result = original(search, *args, **kwargs)
        if run is not None:
            run.attempt("the results of the search", lambda: _log_search(run, search))
    return result


def _cross_validate(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `cross_validate`, and `cross_val_score`, which calls it, in a run."""
    estimator = args[0] if args else kwargs.get("estimator")
    with _tracked("", estimator) as run:
        found = original(*args, **kwargs)
        if run is not None:
            parts = ("test_", "train_", "fit_time")
            folds = pd.DataFrame({key: found[key] for key in found if key.startswith(parts)})
            row = {**folds.mean().add_prefix("mean_"), **folds.std(ddof=0).add_prefix("std_")}
            scoring = kwargs.get("scoring")
            run.attempt("the scores", lambda: run.metrics(_metrics(row, estimator, scoring)))
    return found


@contextmanager
def _tracked(name: str, estimator: Any) -> Iterator[TrackedRun | None]:
    """Give a search of our estimators its run, and update the views at its end."""
    settings, ours = current_settings(), _ours(estimator)
    untracked = settings is None or ours is None or hides_fits()
    if settings is None or untracked or (settings.exclusive and user_run_is_active()):
        yield None
        return
    outermost, before = current() is None, getattr(estimator, "best_params_", None)

    def in_folds() -> bool:  # a search sets `best_params_` before the refit
        return getattr(estimator, "best_params_", None) is before

    with speaking(settings):
        name = name or f"cross-validation of {name_of(ours)}"
        run = start_run(name, kind="search", tags=settings.extra_tags)
        refit = Enclosing(run, kind="refit", hides_fits=in_folds)
        with activated(run), run, within(refit):
            yield run
            if outermost and not run.lost:
                make_views(run.store, f"search-{run.run_id[:8]}")


def _ours(estimator: Any) -> Any:
    """Return the first estimator of this package in an estimator, if any."""
    parts = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    kinds = (SeriesEstimator, FrameworkClassifier)
    return next((part for part in (estimator, *parts) if isinstance(part, kinds)), None)


def _log_search(run: TrackedRun, search: Any) -> None:
    """Log the results of a search and a run for each candidate."""
    best = _short(getattr(search, "best_params_", {}))
    own = {"search": type(search).__name__, "n_splits": search.n_splits_}
    run.params({**own, **{f"best.{name}": text for name, text in best.items()}})
    if hasattr(search, "best_score_"):
        run.metrics({"best_score": float(search.best_score_)})
    table = pd.DataFrame(search.cv_results_)
    run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")
    study = {"tsformer.study": f"search-{run.run_id[:8]}"}
    run.tags({**study, PLACE_TAG: "000"})
    main = next(name for name in map(str, table) if name.startswith("mean_test_"))
    # A halving search repeats its best candidates: the last round counts.
    last = table[~table["params"].map(str).duplicated(keep="last")]
    rows = last.sort_values(main, ascending=False).to_dict("records")
    for place, row in enumerate(rows, start=1):
        searched = _short(row["params"])
        name = searched.get("encoding", name_of(_ours(search)))
        others = [f"{key}={text}" for key, text in searched.items() if key != "encoding"]
        label = ", ".join([name] * ("encoding" in searched) + others)
        tags = {**study, "mlflow.runColor": encoding_color(name), PLACE_TAG: f"{place:03d}"}
        tags["mlflow.note.content"] = _NOTE
        with run.store.start(label, kind="encoding", parent=run, tags=tags) as candidate:
            named = {"encoding": name} | ({"candidate": label} if others else {})
            candidate.params(named | searched)
            candidate.metrics(_metrics(row, search.estimator, search.scoring))
            if np.isnan(row[main]):
                candidate.end("FAILED")


def _short(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as text under short, unambiguous names."""
    last = [name.rpartition("__")[2] for name in parameters]
    return {
        (end if last.count(end) == 1 else name): (
            getattr(value, "__name__", None) or " ".join(str(value).split())
        )
        for (name, value), end in zip(parameters.items(), last, strict=True)
    }


def _metrics(row: Mapping[Any, Any], estimator: Any, scoring: Any) -> dict[str, float]:
    """Return metrics of columns of scikit-learn's, such as ``mean_test_score``."""
    metrics = {"fit_seconds": row["mean_fit_time"]}
    scorer = scoring.get("score") if isinstance(scoring, Mapping) else scoring  # cross_val_score's
    own = scorer is None or hasattr(scorer, "_estimator")  # the score of the estimator
    only = main_score(estimator) if own else scorer
    for column, value in row.items():
        kind, part, name = [*str(column).split("_", 2), "", ""][:3]
        if kind in _SUFFIXES and part in ("test", "train"):
            name = name if name != "score" else only if isinstance(only, str) else "score"
            metrics[f"{part}/{name}{_SUFFIXES[kind]}"] = value
    return metrics
