"""Study: the frozen design of a comparison, its trials, and the key of each."""

import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from tsformer._checks import check_known, check_number
from tsformer._registry import part_names
from tsformer.baselines.resolve import TRANSFORMER, class_version, import_encodings, load_module
from tsformer.encodings import find
from tsformer.encodings import names as registered
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.settings import without_choices
from tsformer.studies.design.methods import Method, check_parameters, digest, read_method

#: The size that is the whole train split, in every data set.
WHOLE = "100%"


class Trial(NamedTuple):
    """One fit of a study; `resample` 0 is the official split, `variant` as in ``"stem=linear"``."""

    dataset: str
    method: str
    seed: int
    variant: str = ""
    resample: int = 0

    def __str__(self) -> str:
        resample = f"resample {self.resample}" if self.resample else ""
        words = (self.dataset, self.method, str(self.seed), self.variant, resample)
        return "  ".join(filter(None, words))


@dataclass(frozen=True)
class Study:
    """Data sets × encodings × seeds × values of varied parameters × resamples, all else equal.

    The design is paired: seed `s` is ``random_state=s`` for every encoding, with the same initial
    weights, batches and budget. Other classifiers are compared on the same splits as `methods`.

    Parameters
    ----------
    datasets : sequence of str
        Names that `tsformer.data.load_dataset` knows.
    encodings : sequence of str
        Names, sums such as ``"tape+erpe"``, or paths of classes such as ``"mine.Log"``; ``"all"``
        for every registered encoding; none if there are `methods`.
    seeds : sequence of int, or int, default=(0, 1, 2)
        The seeds; an int `n` stands for ``0, ..., n - 1``.
    parameters : mapping
        Other parameters of `TSTransformerClassifier`, the same in every fit of it.
    vary : mapping
        Parameters and the values each takes, as in ``{"stem": ["linear", "conv"]}``; every
        combination is a variant.
    resamples : int, default=1
        Number of splits: the official one, then stratified resamples of all series.
    methods : mapping
        Classifiers by name, each with its parameters and ``estimator``, a name in
        `tsformer.baselines.BASELINES` or the path of a class, as in ``{"svm": {"estimator":
        "sklearn.svm.SVC", "C": 10}}``; by default the name, or the transformer.
    train_sizes : sequence of int or str
        How much of each train split to train on: numbers of series or percentages as in ``"10%"``.
        Every size is a variant. A seed draws the same nested stratified subsets for every method.
    leave_out : mapping
        Names of encodings or methods, and the data sets on which each is not fitted.
    splits : mapping
        Names of data sets, and how each was split, in words, for the report.
    imports : sequence of str
        Modules to import first, before the modules of your own encodings.
    title, description : str, optional
        Shown name, in a file by default the file's, and purpose as Markdown; not in the design.

    Raises
    ------
    ValueError, TypeError
        For an unknown encoding, classifier or parameter, with the nearest match; for a wrong value
        or one without a JSON form; for an empty list or duplicates. `check` imports other classes.

    Examples
    --------
    >>> study = Study(["BasicMotions"], ["none"], seeds=2, vary={"stem": ["linear", "conv"]})
    >>> [str(trial) for trial in study.trials()[:2]]
    ['BasicMotions  none  0  stem=linear', 'BasicMotions  none  0  stem=conv']
    """

    datasets: tuple[str, ...]
    encodings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    resamples: int = 1
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    train_sizes: tuple[str, ...] = ()
    leave_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    title: str = field(default="", compare=False)
    description: str = field(default="", compare=False)
    _methods: dict[str, Method] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("parameters", "vary", "methods", "leave_out", "splits"):
            if not isinstance(value := getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping with names as keys; got {value!r}")
        check_number("resamples", self.resamples, 1, whole=True)
        encodings: Any = _listed("encodings", self.encodings)
        encodings = registered() if encodings == ("all",) else map(_in_one_spelling, encodings)
        label = "encodings, or methods,"
        encodings = _distinct(label, encodings, str, may_be_empty=bool(self.methods))
        modules = dict.fromkeys(_listed("imports", self.imports))
        for module in modules:
            load_module(module, f"imports, {module!r}")
        for encoding in encodings:
            import_encodings(encoding)
        vary = {name: _distinct(f"vary, at {name!r},", v) for name, v in self.vary.items()}
        for values in itertools.product(*vary.values()):
            check_parameters({**self.parameters, **dict(zip(vary, values, strict=True))})
        methods = {name: Method(name, TRANSFORMER, {"encoding": name}) for name in encodings}
        for name in (*(vary.keys() & self.parameters), *(methods.keys() & self.methods)):
            raise ValueError(
                f"{name!r} is both varied and fixed, or both an encoding and a method; name it once"
            )
        methods |= {name: read_method(name, m, self.parameters) for name, m in self.methods.items()}
        object.__setattr__(self, "_methods", methods)
        for term in itertools.chain(*map(self.terms_of, methods)):
            for home in (term.rpartition(".")[0], find(term).__module__):
                if home.partition(".")[0] not in ("", "tsformer", "__main__"):
                    modules[home] = None
        seeds: Any = self.seeds
        sizes = map(_train_size, _listed("train_sizes", self.train_sizes))
        design = {
            "datasets": _distinct("datasets", self.datasets, str),
            "encodings": encodings,
            "seeds": _distinct("seeds", range(seeds) if isinstance(seeds, int) else seeds, int),
            "parameters": dict(self.parameters),
            "vary": vary,
            "methods": {name: dict(described) for name, described in self.methods.items()},
            "train_sizes": _distinct("train_sizes", sizes, may_be_empty=True),
            "leave_out": {
                name: _distinct(f"leave_out, at {name!r},", datasets, str)
                for name, datasets in self.leave_out.items()
            },
            "splits": dict(self.splits),
            "imports": tuple(modules),
        }
        for name, value in design.items():
            object.__setattr__(self, name, value)
        for name in self.leave_out:
            check_known("method of this study", name, methods, where="leave_out: ")
        for dataset in (*self.splits, *itertools.chain(*self.leave_out.values())):
            check_known("data set of this study", dataset, self.datasets, where="leave_out: ")
        shared = {**self.parameters, **vary}
        if shared and not any(method.transformer for method in methods.values()):
            raise ValueError(
                "parameters and vary are for TSTransformerClassifier, and no method of this study "
                f"is one; got {shared}. Give each method its own parameters"
            )
        try:
            self.as_dict()
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"a study is stored as JSON ({error}); got {shared}, {self.methods}, {self.splits}"
            ) from error

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_dict(), sort_keys=True))

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a study from a TOML file of its parameters; ValueError for an unknown key."""
        described = {"title": Path(path).stem, **read_study_file(Path(path))}
        if "datasets" not in described:
            raise ValueError(f'{path} lacks the key datasets; add a line such as datasets = ["A"]')
        return cls(**described)

    def as_dict(self) -> dict[str, Any]:
        """Return the design as plain lists and dicts, ready for JSON or TOML."""
        design = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        for name in ("methods", "train_sizes", "leave_out", "splits", "imports"):
            if not design[name]:
                del design[name]
        plain: dict[str, Any] = json.loads(json.dumps(design, allow_nan=False))
        return plain

    @property
    def names(self) -> tuple[str, ...]:
        """The encodings, followed by the names of the methods."""
        return (*self.encodings, *self.methods)

    def method(self, name: str) -> Method:
        """Return the method of this name, by default the first; an encoding is a transformer."""
        check_known("method of this study", name or self.names[0], self._methods)
        return self._methods[name or self.names[0]]

    def check(self) -> None:
        """Construct the classifiers of all methods, to raise their errors before any fit."""
        for method in self._methods.values():
            method.check()

    @property
    def varied(self) -> dict[str, Sequence[Any]]:
        """Varied parameters, and `train_size` if there are sizes: columns of the results."""
        return {**self.vary, **({"train_size": self.train_sizes} if self.train_sizes else {})}

    @property
    def variants(self) -> dict[str, dict[str, Any]]:
        """The combinations of varied values, by name; ``{"": {}}`` without any."""
        rows = itertools.product(*self.varied.values())
        variants = [dict(zip(self.varied, row, strict=True)) for row in rows]
        return {", ".join(f"{k}={v}" for k, v in variant.items()): variant for variant in variants}

    def train_size_of(self, variant: str = "") -> str:
        """Return how much of the train split this variant gets, ``"100%"`` for the whole."""
        return str(self.variants[variant].get("train_size", WHOLE))

    def parameters_of(self, variant: str = "", method: str = "") -> dict[str, Any]:
        """Return the parameters of a method, by default the first, except encoding and seed."""
        chosen = self.method(method)
        if not chosen.transformer:
            return chosen.parameters
        parameters = {**self.parameters, **self.variants[variant], **chosen.overrides}
        return {k: v for k, v in parameters.items() if k not in ("encoding", "train_size")}

    def encoding_of(self, method: str) -> str:
        """Return the encoding of a method that is a transformer; an encoding is its own."""
        default = TSTransformerClassifier().encoding
        return str(_in_one_spelling(self.method(method).overrides.get("encoding", default)))

    def terms_of(self, method: str) -> list[str]:
        """Return the encodings that a method sums; none of another classifier."""
        transformer = self.method(method).transformer
        return part_names(self.encoding_of(method)) if transformer else []

    def configuration(self, variant: str = "", method: str = "") -> dict[str, Any]:
        """Return everything that can affect a fit: defaults, or the version of other libraries."""
        chosen = self.method(method)
        config = chosen.configuration(self.parameters_of(variant, chosen.name))
        classes = map(find, self.terms_of(chosen.name))
        foreign = [cls for cls in classes if cls.__module__.partition(".")[0] != "tsformer"]
        config |= {"code": [*map(class_version, foreign)]} if foreign else {}
        if not chosen.transformer or chosen.name in self.encodings:
            return config
        return {"estimator": TRANSFORMER, "encoding": self.encoding_of(chosen.name), **config}

    def hash_of(self, variant: str = "", method: str = "") -> str:
        """Return a hash of the variant's configuration, the same in larger studies."""
        counted = self.configuration(variant, method)
        if not self.method(method).transformer:
            return digest(counted)
        code = counted.pop("code", [])
        counted = {k: v for k, v in counted.items() if k not in ("estimator", "encoding")}
        described = digest(without_choices(counted))
        return digest([described, *code]) if code else described

    @property
    def name(self) -> str:
        """Name of the study as a whole, with a hash that covers everything."""
        pairs = itertools.product(self.variants, self.names)
        return f"study-{digest([self.as_dict(), *itertools.starmap(self.configuration, pairs)])}"

    @property
    def label(self) -> str:
        """Name of the study: its title, or a description as "2 encodings on GunPoint"."""
        kinds = (
            (self.names, "methods" if self.methods else "encodings"),
            (self.datasets, "data sets"),
        )
        subject, where = (n[0] if len(n) == 1 else f"{len(n)} {kind}" for n, kind in kinds)
        varied = "".join(f", {name} varied" for name in self.varied)
        return self.title or f"{subject} on {where}{varied}"

    def trials(self) -> list[Trial]:
        """Return all fits in order: an unfinished study has every encoding and official split."""
        return [
            Trial(dataset, name, seed, variant, resample)
            for resample in range(self.resamples)
            for seed in self.seeds
            for dataset in self.datasets
            for variant in self.variants
            for name in self.names
            if dataset not in self.leave_out.get(name, ())
        ]

    def key(
        self, dataset: str, method: str, seed: int, variant: str = "", resample: int = 0
    ) -> str:
        """Return the key of a fit, without name and unused seed: equal fits run once."""
        fitted, size = self.method(method), self.train_size_of(variant)
        name = fitted.baseline.path.rpartition(".")[2]
        model = self.encoding_of(method) if fitted.transformer else name
        of = seed if fitted.random or size != WHOLE else "any"
        drawn = f"/resample-{resample}" * bool(resample) + f"/train-{size}" * (size != WHOLE)
        return f"{dataset}/{model}/{of}/{self.hash_of(variant, method)}{drawn}"


def read_study_file(path: Path) -> dict[str, Any]:
    """Return the content of a study file, TOML or ``study.json``, as arguments of `Study`."""
    read = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        described: dict[str, Any] = read(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a valid {path.suffix[1:].upper()}: {error}") from error
    for key in described:
        known = [f.name for f in fields(Study) if f.init]
        check_known("key of a study", key, known, where=f"{path}: ")
    return described


def _in_one_spelling(encoding: Any) -> Any:
    """Return a sum without spaces."""
    return "+".join(part_names(encoding)) if isinstance(encoding, str) else encoding


def _listed(label: str, values: Any) -> tuple[Any, ...]:
    """Return a list as a tuple, a string as its only value."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{label} must be a list; got {values!r}")
    return (values,) if isinstance(values, str) else tuple(values)


def _distinct(
    label: str, values: Any, kind: type | None = None, *, may_be_empty: bool = False
) -> tuple[Any, ...]:
    """Return a list of different values, of one type, as a tuple."""
    values = _listed(label, values)
    if not values and not may_be_empty:
        raise ValueError(f"{label} must name at least one; got none")
    for value in values:
        if kind is not None and (type(value) is not kind or value == ""):
            raise TypeError(f"{label} must be of type {kind.__name__}; got {value!r}")
        if values.count(value) > 1:
            raise ValueError(f"{label} names {value!r} twice; name each once")
    return values


def _train_size(value: Any) -> str:
    """Return a size in its one spelling, as in ``"20"`` or ``"50%"``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
    number, percent = (float(match[1]), match[2]) if match else (0.0, "")
    if not number or (number > 100 if percent else number % 1):
        raise ValueError(
            "a train size must be a whole number of series, such as 20, or a percentage of at most "
            f'100, such as "10%"; got {value!r}'
        )
    return f"{number:.10g}%" if percent else str(int(number))
