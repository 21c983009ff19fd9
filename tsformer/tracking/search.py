"""Searches and cross-validations of scikit-learn: a run each, with a nested run per candidate.

They are logged at their end from ``cv_results_``, as MLflow's own flavour does. The refit has a
run. Fits of folds have no runs: any ``n_jobs`` gives the same runs.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.model_selection import _validation
from sklearn.model_selection._search import BaseSearchCV

from tsformer.estimators.frameworks.base import FrameworkClassifier
from tsformer.estimators.series_estimator import SeriesEstimator
from tsformer.plots import encoding_colors
from tsformer.tracking.context import Enclosing, activated, start_run, to_track, within
from tsformer.tracking.options import speaking
from tsformer.tracking.store import TrackedRun
from tsformer.tracking.tracker import name_of
from tsformer.tracking.views import PLACE_TAG, make_views

_SUFFIXES = {"mean": "", "std": "_spread", "rank": "_rank"}


def install() -> None:
    """Wrap searches and cross-validation, once."""
    kinds: list[Any] = [BaseSearchCV]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "fit" in vars(kind):  # its own, or MLflow's replacement
            kind.fit = _tracked(kind.fit)
    original: Any = _validation.cross_validate
    tracked = _tracked(original)
    for module in list(sys.modules.values()):  # `from sklearn.model_selection import ...`
        if getattr(module, "__dict__", {}).get("cross_validate") is original:
            vars(module)["cross_validate"] = tracked


def _tracked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fit` of searches, or `cross_validate`, in a run."""
    if hasattr(original, "_tsformer_tracks"):
        return original

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        settings, work = to_track(), args[0] if args else kwargs.get("estimator")
        ours, before = _ours(work), getattr(work, "best_params_", None)
        if settings is None or ours is None:
            return original(*args, **kwargs)
        name = f"cross-validation of {name_of(ours)}"
        if original.__name__ == "fit":
            grid = getattr(work, "param_grid", None) or getattr(work, "param_distributions", {})
            grids = grid if isinstance(grid, list) else [grid]
            names = _short({name: "" for each in grids for name in each})
            name = f"{type(work).__name__} over {', '.join(names)}"
        with speaking(settings):
            run = start_run(name, kind="search", tags=settings.extra_tags)
            inside = Enclosing(run, kind="refit")
            # A search sets `best_params_` before the refit.
            inside.hides_fits = lambda: getattr(work, "best_params_", None) is before
            with activated(run), run, within(inside):
                result = original(*args, **kwargs)
                log = _log_folds if isinstance(result, dict) else _log_search
                run.attempt("the results", lambda: log(run, result, work, kwargs.get("scoring")))
                if not run.lost:
                    make_views(run.store, f"search-{run.run_id[:8]}")
        return result

    vars(function)["_tsformer_tracks"] = True
    return function


def _ours(estimator: Any) -> Any:
    """Return the first estimator of this package in an estimator, if any."""
    parts = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    kinds = (SeriesEstimator, FrameworkClassifier)
    return next((part for part in (estimator, *parts) if isinstance(part, kinds)), None)


def _log_folds(run: TrackedRun, found: Any, estimator: Any, scoring: Any) -> None:
    """Log means and deviations of the scores of `cross_validate`."""
    parts = ("test_", "train_", "fit_time")
    folds = pd.DataFrame({key: found[key] for key in found if key.startswith(parts)})
    row = {**folds.mean().add_prefix("mean_"), **folds.std(ddof=0).add_prefix("std_")}
    run.metrics(_metrics(row, estimator, scoring))


def _log_search(run: TrackedRun, search: Any, *_: Any) -> None:
    """Log the results of a search and a run for each candidate."""
    best = {f"best.{key}": v for key, v in _short(getattr(search, "best_params_", {})).items()}
    run.params({"search": type(search).__name__, "n_splits": search.n_splits_, **best})
    run.metrics({"best_score": getattr(search, "best_score_", np.nan)})
    table = pd.DataFrame(search.cv_results_)
    run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")
    study = {"tsformer.study": f"search-{run.run_id[:8]}"}
    run.tags({**study, PLACE_TAG: "000"})
    main = next(name for name in map(str, table) if name.startswith("mean_test_"))
    # A halving search repeats its best candidates: the last round counts.
    last = table[~table["params"].map(str).duplicated(keep="last")]
    rows = last.sort_values(main, ascending=False).to_dict("records")
    of_all, own = [_short(row["params"]) for row in rows], name_of(_ours(search))
    colors = encoding_colors({searched.get("encoding", own) for searched in of_all})
    for place, (row, searched) in enumerate(zip(rows, of_all, strict=True), start=1):
        name = searched.get("encoding", own)
        others = [f"{key}={text}" for key, text in searched.items() if key != "encoding"]
        label = ", ".join([name] * ("encoding" in searched) + others)
        tags = {**study, "mlflow.runColor": colors[name], PLACE_TAG: f"{place:03d}"}
        tags["mlflow.note.content"] = "Means over folds, and `_spread`: standard deviations."
        with run.store.start(label, kind="encoding", parent=run, tags=tags) as candidate:
            named = {"encoding": name} | ({"candidate": label} if others else {})
            candidate.params(named | searched)
            candidate.metrics(_metrics(row, search.estimator, search.scoring))
            if np.isnan(row[main]):
                candidate.end("FAILED")


def _short(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as text under short, unambiguous names."""
    last = [name.rpartition("__")[2] for name in parameters]
    pairs = zip(parameters, last, strict=True)
    names = (end if last.count(end) == 1 else name for name, end in pairs)
    texts = (getattr(v, "__name__", None) or " ".join(str(v).split()) for v in parameters.values())
    return dict(zip(names, texts, strict=True))


def _metrics(row: Mapping[Any, Any], estimator: Any, scoring: Any) -> dict[str, float]:
    """Return metrics of columns of scikit-learn's, such as ``mean_test_score``."""
    metrics = {"fit_seconds": row["mean_fit_time"]}
    scorer = scoring.get("score") if isinstance(scoring, Mapping) else scoring  # cross_val_score's
    own = scorer is None or hasattr(scorer, "_estimator")  # the score of the estimator
    only = ("accuracy" if is_classifier(estimator) else "r2") if own else scorer
    for column, value in row.items():
        kind, part, name = [*str(column).split("_", 2), "", ""][:3]
        if kind in _SUFFIXES and part in ("test", "train"):
            name = name if name != "score" else only if isinstance(only, str) else "score"
            metrics[f"{part}/{name}{_SUFFIXES[kind]}"] = value
    return metrics
