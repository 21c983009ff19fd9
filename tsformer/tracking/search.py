"""Searches and cross-validations of scikit-learn: a run each, with a nested run per candidate.

The fits of folds have no runs: results are logged at the end, for any ``n_jobs``.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
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


@cache
def install() -> None:
    """Wrap searches and cross-validation, once."""
    BaseSearchCV.fit = _tracked(BaseSearchCV.fit)  # inside a replacement by MLflow's own flavour
    tracked: Any = _tracked(_validation.cross_validate)
    for module in list(sys.modules.values()):  # `from sklearn.model_selection import ...`
        if getattr(module, "__dict__", {}).get("cross_validate") is tracked.__wrapped__:
            vars(module)["cross_validate"] = tracked


def _tracked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fit` of searches, or `cross_validate`, in a run."""

    @wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        settings, work = to_track(), args[0] if args else kwargs.get("estimator")
        estimator, best = _find_estimator(work), partial(getattr, work, "best_params_", None)
        if settings is None or estimator is None:
            return original(*args, **kwargs)
        name, before = f"cross-validation of {name_of(estimator)}", best()
        if original.__name__ == "fit":
            grids = [v for k, v in args[0].get_params(False).items() if k.startswith("param_")]
            names = " or ".join(", ".join(_texts(grid)) for grid in np.ravel(grids))
            name = f"{type(work).__name__} over {names}"
        with speaking(settings):
            run = start_run(name, kind="search", tags=settings.extra_tags)
            refit = Enclosing(run, False, "refit", lambda: best() is before)  # set before the refit
            with activated(run), run, within(refit):
                result = original(*args, **kwargs)
                log = _log_folds if isinstance(result, dict) else _log_search
                run.attempt("the results", lambda: log(run, result, work, kwargs.get("scoring")))
        return result

    return function


def _find_estimator(work: Any) -> Any:
    """Return the first estimator of this package in an estimator, if any."""
    params = work.get_params().values() if hasattr(work, "get_params") else ()
    kinds = (SeriesEstimator, FrameworkClassifier)
    return next((value for value in (work, *params) if isinstance(value, kinds)), None)


def _log_folds(run: TrackedRun, results: Any, estimator: Any, scoring: Any) -> None:
    """Log means and deviations of the scores of `cross_validate`."""
    folds = pd.DataFrame({k: v for k, v in results.items() if isinstance(v, np.ndarray)})
    row = {**folds.mean().add_prefix("mean_"), **folds.std(ddof=0).add_prefix("std_")}
    run.metrics(_metrics(row, estimator, scoring))


def _log_search(run: TrackedRun, search: Any, *_: Any) -> None:
    """Log the results of a search and a run for each candidate."""
    table, default = pd.DataFrame(search.cv_results_), name_of(_find_estimator(search))
    best = {f"best.{key}": v for key, v in _texts(getattr(search, "best_params_", {})).items()}
    run.params({"search": type(search).__name__, "n_splits": search.n_splits_, **best})
    run.metrics({"best_score": getattr(search, "best_score_", np.nan)})
    run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")
    main = next(name for name in map(str, table) if name.startswith("mean_test_"))
    # A halving search repeats its best candidates: the last round counts.
    last = table[~table["params"].map(str).duplicated(keep="last")]
    rows = last.sort_values(main, ascending=False).to_dict("records")
    candidates = [{"encoding": default, **_texts(row["params"])} for row in rows]
    study, colors = f"search-{run.run_id[:8]}", encoding_colors({p["encoding"] for p in candidates})
    for rank, (row, params) in enumerate(zip(rows, candidates, strict=True), start=1):
        label = ", ".join(v if k == "encoding" else f"{k}={v}" for k, v in params.items())
        color = {"mlflow.runColor": colors[params["encoding"]]}
        tags = {"tsformer.study": study, PLACE_TAG: f"{rank:03d}", **color}
        with run.store.start(label, kind="encoding", parent=run, tags=tags) as candidate:
            candidate.params(params | ({"candidate": label} if len(params) > 1 else {}))
            candidate.metrics(_metrics(row, search.estimator, search.scoring))
            if np.isnan(row[main]):
                candidate.end("FAILED")
    make_views(run.store, study)


def _texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as text, under the last part of their names if it tells them apart."""
    short = {k.rpartition("__")[2]: getattr(v, "__name__", str(v)) for k, v in parameters.items()}
    return short if len(short) == len(parameters) else {k: str(v) for k, v in parameters.items()}


def _metrics(row: Mapping[Any, Any], estimator: Any, scoring: Any) -> dict[str, float]:
    """Return metrics of columns of scikit-learn's, such as ``mean_test_score``."""
    metrics = {"fit_seconds": row["mean_fit_time"]}
    scorer = scoring.get("score") if isinstance(scoring, Mapping) else scoring  # cross_val_score's
    if scorer is None or hasattr(scorer, "_estimator"):  # the score of the estimator
        scorer = "accuracy" if is_classifier(estimator) else "r2"
    for column, value in row.items():
        if match := re.fullmatch("(mean|std|rank)_(test|train)_(.+)", str(column)):
            score = scorer if match[3] == "score" and isinstance(scorer, str) else match[3]
            suffix = {"mean": "", "std": "_spread", "rank": "_rank"}[match[1]]
            metrics[f"{match[2]}/{score}{suffix}"] = value
    return metrics
