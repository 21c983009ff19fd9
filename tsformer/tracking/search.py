"""Searches and cross-validations of scikit-learn: a run each, with a nested run per candidate.

They are logged at their end from ``cv_results_``, as MLflow's own flavour does. The refit has a
run. Fits of folds have no runs: any ``n_jobs`` gives the same runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
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
from tsformer.tracking.run import TrackedRun, storable_name
from tsformer.tracking.scores import main_score
from tsformer.tracking.settings import Settings, current_settings, speaking
from tsformer.tracking.store import RunStore
from tsformer.tracking.tracker import name_of
from tsformer.tracking.views import PLACE_TAG, make_views

_WRAPPED = "_tsformer_tracks"
_RESULTS = "the results of the search"
_NOTE = (
    "Means over {n} folds. Metrics ending in `_spread` are standard deviations over folds; "
    "`test/mean_rank` is 1 for the best candidate in every fold."
)


@dataclass
class _Candidate:
    """The parameters of a candidate and its scores by fold."""

    label: str
    estimator: str
    searched: dict[str, str]
    scores: dict[str, list[float]]
    fit_seconds: float


def install() -> None:
    """Wrap searches and cross-validation, once."""
    for kind in [BaseSearchCV, *_subclasses(BaseSearchCV)]:
        original = vars(kind).get("fit")  # its own, or MLflow's replacement
        if original is not None and not hasattr(original, _WRAPPED):
            setattr(kind, "fit", _wrapped(original, _fit))  # noqa: B010
    original = _validation.cross_validate
    if not hasattr(original, _WRAPPED):
        wrapped = _wrapped(original, _cross_validate)
        for module in list(sys.modules.values()):  # `from sklearn.model_selection import ...`
            if getattr(module, "__dict__", {}).get("cross_validate") is original:
                setattr(module, "cross_validate", wrapped)  # noqa: B010  mypy knows no such name


def _wrapped(original: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(function, _WRAPPED, True)
    return function


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [each for sub in kind.__subclasses__() for each in (sub, *_subclasses(sub))]


def _fit(original: Callable[..., Any], search: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `fit` of a search in a run."""
    settings = _settings_for(search.get_params(deep=False))  # grids may hold estimators
    if settings is None:
        return original(search, *args, **kwargs)
    found = getattr(search, "param_grid", None) or getattr(search, "param_distributions", None)
    grids = found if isinstance(found, list) else [found or {}]
    over = ", ".join(_short(dict.fromkeys(name for grid in grids for name in grid)))
    name = " over ".join(filter(None, (type(search).__name__, over)))
    with _tracked(name, search, settings) as (store, run):
        result = original(search, *args, **kwargs)
        run.attempt(_RESULTS, lambda: _log_search(store, run, search))
    return result


def _cross_validate(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `cross_validate`, and `cross_val_score`, which calls it, in a run."""
    estimator = args[0] if args else kwargs.get("estimator")
    settings = _settings_for(estimator)
    if settings is None:
        return original(*args, **kwargs)
    name = name_of(_ours(estimator)[0])
    with _tracked(f"cross-validation of {name}", None, settings) as (store, run):
        found = original(*args, **kwargs)

        def log() -> None:
            scoring = kwargs.get("scoring")
            if isinstance(scoring, Mapping):  # `cross_val_score` passes {"score": scorer}
                scoring = scoring.get("score")
            scorer = check_scoring(estimator, scoring=scoring)
            scores = {
                _metric_name(key, scorer, estimator): [float(score) for score in values]
                for key, values in found.items()
                if key.startswith(("test_", "train_"))
            }
            only = _Candidate(name, name, {}, scores, float(np.mean(found["fit_time"])))
            _log_candidates(store, run, [only])
            run.metrics(_summary(only))

        run.attempt(_RESULTS, log)
    return found


@contextmanager
def _tracked(name: str, search: Any, settings: Settings) -> Iterator[tuple[RunStore, TrackedRun]]:
    """Give a search its run, and update the views at its end."""
    outermost = current() is None
    before = None if search is None else vars(search).get("best_params_")
    with speaking(settings), ExitStack() as stack:
        store, run = start_run(name, kind="search", tags=settings.extra_tags)
        store = store or RunStore("", "")  # never read: the run is lost
        stack.enter_context(activated(store, run))
        stack.enter_context(run)

        def in_folds() -> bool:  # `best_params_` is set before the refit
            return search is None or vars(search).get("best_params_") is before

        refit = Enclosing(store, run, False, "refit", label="refit of", hides_fits=in_folds)
        stack.enter_context(within(refit))
        yield store, run
        if outermost and not run.lost:
            make_views(store, "" if search is None else _study(run))


def _settings_for(estimator: Any) -> Settings | None:
    """Return the settings if a search of an estimator is tracked."""
    settings = current_settings()
    if settings is None or hides_fits() or (settings.exclusive and user_run_is_active()):
        return None
    return settings if _ours(estimator) else None


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


def _log_search(store: RunStore, run: TrackedRun, search: Any) -> None:
    """Log the results of a search and a run for each candidate."""
    best = _short(getattr(search, "best_params_", {}))
    own = {"search": type(search).__name__, "n_splits": search.n_splits_}
    run.params({**own, **{f"best.{name}": text for name, text in best.items()}})
    if hasattr(search, "best_score_"):
        run.metrics({"best_score": float(search.best_score_)})
    table = pd.DataFrame(search.cv_results_)
    run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")
    resource = getattr(search, "resource", None)
    candidates = [
        _candidate(search, row, {k: v for k, v in params.items() if k != resource})
        for (_, row), params in zip(table.iterrows(), search.cv_results_["params"], strict=True)
    ]
    if resource is not None:  # a halving search repeats its best candidates
        candidates = list({each.label: each for each in candidates}.values())
    _log_candidates(store, run, candidates, ranked=resource is None)


def _candidate(search: Any, row: pd.Series[Any], params: Mapping[str, Any]) -> _Candidate:
    """Return the candidate of a row of ``cv_results_``."""
    searched = _short(params)
    estimator = name_of((_ours(params) or _ours(search.estimator))[0])
    encoding = [searched["encoding"]] if "encoding" in searched else []
    others = [f"{name}={text}" for name, text in searched.items() if name != "encoding"]
    scores: dict[str, list[float]] = {}
    for column, value in row.items():
        split, _, key = str(column).partition("_")
        if split.startswith("split"):
            name = _metric_name(key, search.scorer_, search.estimator)
            scores.setdefault(name, []).append(float(value))
    return _Candidate(
        label=", ".join(encoding + others) or estimator,
        estimator=searched.get("encoding", estimator),
        searched=searched,
        scores=scores,
        fit_seconds=float(row["mean_fit_time"]),
    )


def _log_candidates(
    store: RunStore, parent: TrackedRun, candidates: list[_Candidate], ranked: bool = True
) -> None:
    """Log a run for each candidate, the best first."""
    main = next(name for name in candidates[0].scores if name.startswith("test/"))
    table = pd.DataFrame({i: each.scores[main] for i, each in enumerate(candidates)})
    ranks = table.rank(axis=1, ascending=False).mean()
    parent.tags({"tsformer.study": _study(parent), PLACE_TAG: "000"})
    parent.metrics({"fits/finished": int(table.notna().sum().sum())})
    order = table.mean().sort_values(ascending=False).index
    for place, i in enumerate(order, start=1):
        each = candidates[i]
        tags = {
            "mlflow.runColor": encoding_color(each.estimator),
            "tsformer.study": _study(parent),
            PLACE_TAG: f"{place:03d}",
            "mlflow.note.content": _NOTE.format(n=len(table)),
        }
        run = store.start(each.label, kind="encoding", parent=parent, tags=tags)
        with run:
            named = {} if each.label == each.estimator else {"candidate": each.label}
            run.params({"encoding": each.estimator, **named, **each.searched})
            run.metrics(_summary(each))
            if ranked and len(candidates) > 1:
                run.metrics({"test/mean_rank": ranks[i]})
            for fold, score in enumerate(each.scores[main], start=1):
                run.metrics({f"fold/{main.removeprefix('test/')}": score}, step=fold)
            if table[i].isna().all():
                run.end("FAILED")


def _summary(candidate: _Candidate) -> dict[str, float]:
    """Return means and standard deviations over folds."""
    values = {"fit_seconds": candidate.fit_seconds}
    for name, scores in candidate.scores.items():
        folds = pd.Series(scores)
        values |= {name: folds.mean(), f"{name}_spread": folds.std()}
        values["fits/finished"] = int(folds.notna().sum())
    return values


def _study(run: TrackedRun) -> str:
    return f"search-{run.run_id[:8]}"


def _short(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as text under short, unambiguous names."""
    last = [name.rpartition("__")[2] for name in parameters]
    return {
        storable_name(end if last.count(end) == 1 else name): _text(value)
        for (name, value), end in zip(parameters.items(), last, strict=True)
    }


def _text(value: Any) -> str:
    return getattr(value, "__name__", None) or " ".join(str(value).split())


def _metric_name(key: str, scorer: Any, estimator: Any) -> str:
    """Return the metric of scikit-learn's ``test_score``, such as "test/accuracy"."""
    part, _, name = key.partition("_")
    if name != "score" or isinstance(scorer, Mapping):
        return f"{part}/{name}"
    function = getattr(scorer, "_score_func", None)
    if function is None:  # the estimator's own score, or a function of the user
        own = main_score(estimator) if hasattr(scorer, "_estimator") else "score"
        return f"{part}/{own}"
    name = function.__name__.removesuffix("_score")
    options = getattr(scorer, "_kwargs", {})
    name += f"_{options['average']}" if options.get("average") else ""
    return f"{part}/neg_{name}" if getattr(scorer, "_sign", 1) < 0 else f"{part}/{name}"
