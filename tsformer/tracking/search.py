"""Searches and cross-validations of scikit-learn: a run for each, with a run for each of its fits.

scikit-learn passes every fit of a search and of a cross-validation, as a call of its function
``_fit_and_score``, to its `Parallel`. That is wrapped, whatever a script has imported before, and
hands each call to a `_Task`, which can be pickled: so fits in other processes know their run, and
their scores reach it. `BaseSearchCV.fit` is wrapped for what is around the fits: the refit, and the
rounds of a halving search. Where nothing is tracked, or no estimator of this package is fitted,
both do what they did before.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.parallel import Parallel

from tsformer.estimators.frameworks import FrameworkClassifier
from tsformer.estimators.series import SeriesReader
from tsformer.plots import encoding_color
from tsformer.tracking.context import (
    Enclosing,
    activated,
    current,
    start_run,
    user_run_is_active,
    within,
)
from tsformer.tracking.messages import reason, warn
from tsformer.tracking.names import storable_name
from tsformer.tracking.parameters import name_of
from tsformer.tracking.run import TrackedRun
from tsformer.tracking.scores import main_score
from tsformer.tracking.search_summary import summarise
from tsformer.tracking.settings import Settings, current_settings, speaking
from tsformer.tracking.store import RunStore
from tsformer.tracking.views import make_views
from tsformer.tracking.watchdog import Watchdog, kill_running

__all__ = ["install"]

#: Marks what is wrapped.
_WRAPPED = "_tsformer_tracks"


def install() -> None:
    """Wrap what runs searches, once."""
    _wrap(Parallel, "__call__", _parallel)
    for kind in [BaseSearchCV, *_subclasses(BaseSearchCV)]:
        if "fit" in vars(kind):  # of its own, or because MLflow's autologging has replaced it
            _wrap(kind, "fit", _fit)


def _wrap(kind: type[Any], name: str, wrapper: Callable[..., Any]) -> None:
    original = vars(kind)[name]
    if hasattr(original, _WRAPPED):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(functools.partial(original, self), self, *args, **kwargs)

    setattr(method, _WRAPPED, True)
    setattr(kind, name, method)


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [each for sub in kind.__subclasses__() for each in (sub, *_subclasses(sub))]


@dataclass
class _Search:
    """A search or cross-validation that is running in this thread."""

    store: RunStore
    run: TrackedRun
    estimator: Any  # the search itself; None for a cross-validation
    parallel: Any = None  # what runs its fits; another one is of a cross-validation within
    rounds: int = 0
    error: str = ""  # of a cross-validation whose fits all failed
    searched: set[str] = field(default_factory=set)


_running: ContextVar[_Search | None] = ContextVar("running search", default=None)


def _fit(original: Callable[..., Any], search: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Do what `fit` of a search does, in a run."""
    settings = _tracks(search)
    already = _running.get()
    if settings is None or (already is not None and already.estimator is search):
        return original(*args, **kwargs)
    over = ", ".join(_short(dict.fromkeys(_searched_by(search))))
    name = " over ".join(filter(None, (type(search).__name__, over)))
    with speaking(settings), _tracked(name, search, settings) as running:
        result = original(*args, **kwargs)
        _log_search(running, search)
        return result


def _parallel(original: Callable[..., Any], parallel: Any, iterable: Iterable[Any]) -> Any:
    """Do what `Parallel` does; each fit of a search or cross-validation in a run."""
    if current_settings() is None:
        return original(iterable)
    tasks = iter(iterable)
    first = list(itertools.islice(tasks, 1))
    tasks = itertools.chain(first, tasks)
    settings = _tracks_task(*first[0]) if first else None
    if settings is None:
        return original(tasks)
    running = _running.get()
    if running is not None and running.parallel in (None, parallel):
        running.parallel = parallel
        return original(_tasks(tasks, running, settings))
    (ours,) = _ours(first[0][1][0])[:1] or [None]
    name = f"cross-validation of {_name(ours)}"
    with speaking(settings), _tracked(name, None, settings) as running:
        results = original(_tasks(tasks, running, settings))
        errors = [result["fit_error"] for result in results]
        running.error = errors[0] if all(errors) else ""  # scikit-learn raises later
        return results


def _tracks(search: Any) -> Settings | None:
    """Return the settings if a search is to be tracked."""
    settings = current_settings()
    if settings is None or (settings.exclusive and user_run_is_active()):
        return None
    # Its own parameters, such as param_grid, may hold estimators as values.
    return settings if _ours(search.get_params(deep=False)) else None


def _tracks_task(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Settings | None:
    """Return the settings if a task is a fit of a search that is to be tracked."""
    inner = getattr(function, "function", None)
    settings = current_settings()
    if getattr(inner, "__name__", "") != "_fit_and_score" or not args or settings is None:
        return None
    if settings.exclusive and user_run_is_active():
        return None
    return settings if _ours(args[0]) or _ours(kwargs.get("parameters")) else None


def _ours(value: Any) -> list[Any]:
    """Return the estimators of this package in a value: an estimator, or what holds some."""
    if isinstance(value, (SeriesReader, FrameworkClassifier)):
        return [value]
    if isinstance(value, BaseEstimator) and not isinstance(value, type):
        value = value.get_params(deep=False)
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    return [each for part in value for each in _ours(part)]


def _searched_by(search: Any) -> list[str]:
    """Return the names of the parameters that a search varies, if it says so."""
    found = getattr(search, "param_grid", None) or getattr(search, "param_distributions", None)
    grids = found if isinstance(found, list) else [found or {}]
    return list(dict.fromkeys(name for grid in grids for name in grid))


def _name(estimator: Any) -> str:
    if estimator is None:
        return "estimators"
    return name_of(estimator)


@contextmanager
def _tracked(name: str, estimator: Any, settings: Settings) -> Iterator[_Search]:
    """Give a search its run, and end it as the block ends; with it whatever is still running."""
    outermost = current() is None
    store, run = start_run(name, kind="search", tags=settings.extra_tags)
    store = store or RunStore("", "")  # of a run that is lost, nothing is asked
    running = _Search(store, run, estimator)
    with ExitStack() as stack:
        if not run.lost:
            stack.enter_context(Watchdog(store, run))
            stack.callback(_kill_rest, running)
        stack.enter_context(activated(store, run))
        stack.enter_context(run)
        # Fits outside of tasks: the refit.
        refit = Enclosing(store, run, free=False, kind="refit", label="refit of")
        stack.enter_context(within(refit))
        token = _running.set(running)
        stack.callback(_running.reset, token)
        yield running
        if not run.lost:
            _summarise(running, views=outermost)
        if running.error:
            _end_failed(run, running.error)


def _end_failed(run: TrackedRun, trace: str) -> None:
    """End a run as FAILED with the traceback that scikit-learn has kept."""
    run.tags({"tsformer.error": trace.strip().rpartition("\n")[2]})
    run.text(trace, "error.txt")
    run.end("FAILED")


def _kill_rest(running: _Search) -> None:
    """Mark what is still running KILLED: the workers it ran in are gone."""
    run = running.run
    try:
        kill_running(running.store.uri, running.store.experiment_id, run.run_id)
    except Exception as error:  # tracking never fails what is tracked
        warn(f"fits of run {run.run_id} may be left running {reason(error)}")


def _summarise(running: _Search, *, views: bool) -> None:
    key = f"search-{running.run.run_id[:8]}"
    try:
        summarise(running.store, running.run, key)
    except Exception as error:  # tracking never fails what is tracked
        warn(f"the search has no summary {reason(error)}")
        return
    if views:
        varied = sorted(running.searched - {"encoding"})
        study = key if running.estimator is not None else ""
        make_views(running.store, study=study, varied=varied)


def _log_search(running: _Search, search: Any) -> None:
    """Log what a search has found."""
    own = {"search": type(search).__name__, "n_splits": search.n_splits_}
    best = _short(getattr(search, "best_params_", {}))
    running.run.params({**own, **{f"best.{name}": text for name, text in best.items()}})
    if hasattr(search, "best_score_"):
        running.run.metrics({"best_score": float(search.best_score_)})
    table = pd.DataFrame(search.cv_results_)
    running.run.text(table.to_csv(index=False, lineterminator="\n"), "cv_results.csv")


def _tasks(tasks: Iterable[Any], running: _Search, settings: Settings) -> Iterator[Any]:
    """Wrap the functions of tasks."""
    if running.run.lost:  # of which there was a warning
        yield from tasks
        return
    iteration = running.rounds
    running.rounds += 1
    resource = getattr(running.estimator, "resource", None)
    folds: dict[str, int] = {}
    for function, args, kwargs in tasks:
        parameters = dict(kwargs.get("parameters") or {})
        parameters.pop(resource, None)  # which differs by round, not by candidate
        searched = _short(parameters)
        running.searched |= set(searched)
        candidate = _label(searched)
        fold = folds[candidate] = folds.get(candidate, -1) + 1
        (ours,) = _ours(parameters)[:1] or _ours(args[0])[:1] or [None]
        function.function = _Task(
            function=function.function,
            store=running.store,
            parent=running.run.run_id,
            settings=settings,
            candidate=candidate,
            searched=searched,
            fold=fold,
            iteration=None if resource is None else iteration,
            estimator=_name(ours),
            metric=_metric(kwargs.get("scorer"), args[0]),
        )
        yield function, args, kwargs


def _short(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of searched parameters as text, by the last part of their names.

    Of names that end alike all parts are kept.
    """
    last = [name.rpartition("__")[2] for name in parameters]
    return {
        storable_name(end if last.count(end) == 1 else name): _text(value)
        for (name, value), end in zip(parameters.items(), last, strict=True)
    }


def _text(value: Any) -> str:
    return getattr(value, "__name__", None) or " ".join(str(value).split())


def _label(searched: Mapping[str, str]) -> str:
    """Return what a candidate is called: its encoding, and its other parameters by name."""
    encoding = [searched["encoding"]] if "encoding" in searched else []
    others = [f"{name}={text}" for name, text in searched.items() if name != "encoding"]
    return ", ".join(encoding + others)


def _metric(scorer: Any, estimator: Any) -> str:
    """Return what the score of a fold is called that scikit-learn calls "score"."""
    scorer = getattr(scorer, "_scorers", {}).get("score", scorer)
    function = getattr(scorer, "_score_func", None)
    if function is None:  # the estimator's own score, or a function of the user
        return main_score(estimator) if hasattr(scorer, "_estimator") else "score"
    name = function.__name__.removesuffix("_score")
    options = getattr(scorer, "_kwargs", {})
    name += f"_{options['average']}" if options.get("average") else ""
    return f"neg_{name}" if getattr(scorer, "_sign", 1) < 0 else name


@dataclass
class _Task:
    """A fit of a search and its scores, in a run; can be pickled."""

    function: Callable[..., dict[str, Any]]
    store: RunStore
    parent: str
    settings: Settings
    candidate: str
    searched: dict[str, str]
    fold: int
    iteration: int | None
    estimator: str
    metric: str

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        before = current_settings()
        if before != self.settings:  # in a worker
            _start_tracking(self.settings)
        token = _running.set(None)  # a search within is none of the rounds of this one
        try:
            with speaking(self.settings):
                return self._run(*args, **kwargs)
        finally:
            _running.reset(token)
            if before != self.settings:
                _start_tracking(before)

    def _run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        parent = TrackedRun(self.store.client(), self.parent)
        if parent.ended():  # the process that searched was killed, and this one is left over
            return self.function(*args, **kwargs)
        encoding = self.searched.get("encoding", self.estimator)
        which = "" if self.iteration is None else f", round {self.iteration + 1}"
        run = self.store.start(
            f"{self.candidate or self.estimator}{which}, fold {self.fold + 1}",
            kind="fit",
            parent=parent,
            tags={
                "tsformer.candidate": self.candidate or self.estimator,
                "tsformer.configuration": f"{self.candidate}{which}" or self.estimator,
                "tsformer.searched": ",".join(self.searched),
                "mlflow.runColor": encoding_color(encoding),
                **self.settings.extra_tags,
            },
        )
        enclosing = Enclosing(self.store, run, free=True, brief=True, pictures=self.fold == 0)
        with activated(self.store, run), run, within(enclosing):
            rounds = {} if self.iteration is None else {"iteration": self.iteration}
            run.params({**self.searched, "fold": self.fold, **rounds})
            result = self.function(*args, **kwargs)
            self._log(run, result)
            taker = enclosing.taker
            if run.ended():
                run.status = "KILLED"  # by the watchdog, which has found this process left over
            elif result.get("fit_error"):
                _end_failed(run, result["fit_error"])
            elif taker is not None and taker.status == "KILLED":
                run.end("KILLED")
        return result

    def _log(self, run: TrackedRun, result: Mapping[str, Any]) -> None:
        values: dict[str, float] = {}
        for part in ("train", "test"):
            scores = result.get(f"{part}_scores")
            if scores is not None:
                named = dict(scores) if isinstance(scores, Mapping) else {"score": scores}
                if "score" in named:
                    named[self.metric] = named.pop("score")
                values |= {f"{part}/{name}": float(value) for name, value in named.items()}
        if "score_time" in result:
            values["score_seconds"] = float(result["score_time"])
        run.metrics(values)


def _start_tracking(settings: Settings | None) -> None:
    """Track in this process with these settings."""
    from tsformer.tracking.autologging import use  # which imports this module

    use(settings)
