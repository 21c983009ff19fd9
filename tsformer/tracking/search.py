"""Searches and cross-validations of scikit-learn: a run each, with a nested run per candidate.

They are logged at their end from ``cv_results_``, as MLflow's own flavour does. The refit has a
run. Fits of folds have no runs: any ``n_jobs`` gives the same runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
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
from tsformer.tracking.tracked_run import TrackedRun, storable_name
from tsformer.tracking.tracker import name_of
from tsformer.tracking.views import PLACE_TAG, make_views

_WRAPPED = "_tsformer_tracks"
_NOTE = (
    "Means over {n} folds. Metrics ending in `_spread` are standard deviations over folds; "
    "`test/mean_rank` is 1 for the best candidate in every fold."
)


def install() -> None:
    """Wrap searches and cross-validation, once."""
    kinds: list[Any] = [BaseSearchCV]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "fit" in vars(kind):  # its own, or MLflow's replacement
            kind.fit = _wrapped(kind.fit, _fit)
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


def _fit(original: Callable[..., Any], search: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `fit` of a search in a run."""
    found = getattr(search, "param_grid", None) or getattr(search, "param_distributions", None)
    grids = found if isinstance(found, list) else [found or {}]
    over = ", ".join(_short(dict.fromkeys(name for grid in grids for name in grid)))
    name = " over ".join(filter(None, (type(search).__name__, over)))
    # Grids may hold estimators.
    with _tracked(name, search.get_params(deep=False), search) as run:
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
            scores = {key: found[key] for key in found if key.startswith(("test_", "train_"))}
            row = {f"split{i}_{key}": x for key in scores for i, x in enumerate(scores[key])}
            row["mean_fit_time"] = np.mean(found["fit_time"])
            run.attempt(
                "the results of the search",
                lambda: _log_candidates(run, estimator, kwargs.get("scoring"), [({}, row)]),
            )
    return found


@contextmanager
def _tracked(name: str, estimator: Any, search: Any = None) -> Iterator[TrackedRun | None]:
    """Give a search of our estimators its run, and update the views at its end."""
    settings, ours = current_settings(), _ours(estimator)
    untracked = settings is None or hides_fits() or not ours
    if settings is None or untracked or (settings.exclusive and user_run_is_active()):
        yield None
        return
    outermost = current() is None
    before = None if search is None else vars(search).get("best_params_")

    def in_folds() -> bool:  # `best_params_` is set before the refit
        return search is None or vars(search).get("best_params_") is before

    with speaking(settings):
        name = name or f"cross-validation of {name_of(ours[0])}"
        run = start_run(name, kind="search", tags=settings.extra_tags)
        refit = Enclosing(run, kind="refit", label="refit of", hides_fits=in_folds)
        with activated(run), run, within(refit):
            yield run
            if outermost and not run.lost:
                make_views(run.store, "" if search is None else _study(run))


def _ours(value: Any) -> list[Any]:
    """Return the estimators of this package in an estimator or a collection."""
    if isinstance(value, (SeriesEstimator, FrameworkClassifier)):
        return [value]
    if isinstance(value, BaseEstimator) and not isinstance(value, type):
        value = value.get_params(deep=False)
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    return [each for part in value for each in _ours(part)]


def _log_search(run: TrackedRun, search: Any) -> None:
    """Log the results of a search and a run for each candidate."""
    best = _short(getattr(search, "best_params_", {}))
    own = {"search": type(search).__name__, "n_splits": search.n_splits_}
    run.params({**own, **{f"best.{name}": text for name, text in best.items()}})
    if hasattr(search, "best_score_"):
        run.metrics({"best_score": float(search.best_score_)})
    table = pd.DataFrame(search.cv_results_)
    run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")
    resource = getattr(search, "resource", None)  # a halving search repeats its best candidates
    rows: dict[Any, tuple[Any, Any]] = {}
    for row in table.to_dict("records"):
        params = {name: value for name, value in row["params"].items() if name != resource}
        rows[str(_short(params)) if resource else len(rows)] = params, row
    _log_candidates(run, search.estimator, search.scoring, [*rows.values()], ranked=not resource)


def _log_candidates(
    parent: TrackedRun,
    estimator: Any,
    scoring: Any,
    rows: Sequence[tuple[Mapping[str, Any], Mapping[Any, Any]]],
    ranked: bool = True,
) -> None:
    """Log a run for each candidate, the best first; a single one in the parent's run too."""
    folds = []  # of each candidate: a column for each metric, a row for each fold
    for _, row in rows:
        scores: dict[str, list[float]] = {}
        for column, value in row.items():
            split, _, key = str(column).partition("_")
            if split.startswith("split"):
                name = _metric_name(key, scoring, estimator)
                scores.setdefault(name, []).append(float(value))
        folds.append(pd.DataFrame(scores))
    main = next(name for name in map(str, folds[0]) if name.startswith("test/"))
    table = pd.DataFrame({i: scores[main] for i, scores in enumerate(folds)})
    ranks = table.rank(axis=1, ascending=False).mean()
    study = {"tsformer.study": _study(parent)}
    parent.tags({**study, PLACE_TAG: "000"})
    parent.metrics({"fits/finished": int(table.notna().sum().sum())})
    for place, i in enumerate(table.mean().sort_values(ascending=False).index, start=1):
        params, row = rows[i]
        searched, name = _short(params), name_of((_ours(params) or _ours(estimator))[0])
        name = searched.get("encoding", name)
        others = [f"{key}={text}" for key, text in searched.items() if key != "encoding"]
        label = ", ".join([name] * ("encoding" in searched) + others) or name
        spread = folds[i].std().add_suffix("_spread")
        summary = {"fit_seconds": row["mean_fit_time"], **folds[i].mean(), **spread}
        summary["fits/finished"] = int(table[i].notna().sum())
        if not searched:
            parent.metrics(summary)
        tags = {**study, "mlflow.runColor": encoding_color(name), PLACE_TAG: f"{place:03d}"}
        tags["mlflow.note.content"] = _NOTE.format(n=len(table))
        with parent.store.start(label, kind="encoding", parent=parent, tags=tags) as run:
            named = {} if label == name else {"candidate": label}
            run.params({"encoding": name, **named, **searched})
            run.metrics(summary | ({"test/mean_rank": ranks[i]} if ranked and rows[1:] else {}))
            for fold, score in enumerate(table[i], start=1):
                run.metrics({f"fold/{main.removeprefix('test/')}": score}, step=fold)
            if table[i].isna().all():
                run.end("FAILED")


def _study(run: TrackedRun) -> str:
    return f"search-{run.run_id[:8]}"


def _short(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as text under short, unambiguous names."""
    last = [name.rpartition("__")[2] for name in parameters]
    return {
        storable_name(end if last.count(end) == 1 else name): (
            getattr(value, "__name__", None) or " ".join(str(value).split())
        )
        for (name, value), end in zip(parameters.items(), last, strict=True)
    }


def _metric_name(key: str, scoring: Any, estimator: Any) -> str:
    """Return the metric of scikit-learn's ``test_score``, such as "test/accuracy"."""
    part, _, name = key.partition("_")
    if name != "score":
        return f"{part}/{name}"
    scorer = scoring.get(name) if isinstance(scoring, Mapping) else scoring
    if scorer is None or hasattr(scorer, "_estimator"):  # the estimator's own
        return f"{part}/{main_score(estimator)}"
    function, sign = getattr(scorer, "_score_func", None), getattr(scorer, "_sign", 1)
    if function is not None:
        scorer = f"{'neg_' * (sign < 0)}{function.__name__.removesuffix('_score')}"
    return f"{part}/{scorer if isinstance(scorer, str) else name}"
