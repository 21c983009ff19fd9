"""Study: the frozen design of a comparison, its trials, and the key of each."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from tsformer._checks import check_known, check_number
from tsformer._registry import part_names
from tsformer.baselines.resolve import (
    TRANSFORMER,
    class_version,
    import_encodings,
    load_module,
)
from tsformer.encodings import find
from tsformer.encodings import names as registered
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.studies.design.methods import (
    HARMLESS,
    Method,
    check_parameters,
    configuration,
    configuration_hash,
    digest,
    read_methods,
)
from tsformer.studies.design.study_file import (
    LISTS,
    TABLES,
    WHOLE,
    read_study_file,
    train_sizes,
)


class Trial(NamedTuple):
    """One fit of a study.

    `method` is the name of an encoding or of a method of the study; `variant` names a combination
    of varied parameters, as in ``"stem=linear"``, and is empty if nothing is varied; `resample` 0
    is the official split.
    """

    dataset: str
    method: str
    seed: int
    variant: str = ""
    resample: int = 0

    def __str__(self) -> str:
        words = [self.dataset, self.method, str(self.seed)]
        words += [self.variant] if self.variant else []
        words += [f"resample {self.resample}"] if self.resample else []
        return "  ".join(words)


@dataclass(frozen=True)
class Study:
    """Data sets × encodings × seeds × values of varied parameters × resamples, all else equal.

    The design is paired: seed `s` is ``random_state=s`` for every encoding, so that all encodings
    get the same initial weights, the same batches and the same budget. Other classifiers are
    compared on the same splits as `methods`.

    Parameters
    ----------
    datasets : sequence of str
        Names that `tsformer.data.load_dataset` knows.
    encodings : sequence of str
        Names of encodings, or sums of names such as ``"tape+erpe"``; ``"all"`` for every
        registered encoding; none if there are `methods`. The path of a class, ``"mine.Log"``, is
        imported.
    seeds : sequence of int, or int, default=(0, 1, 2)
        The seeds; an int `n` stands for ``0, ..., n - 1``.
    parameters : mapping
        Other parameters of `TSTransformerClassifier`, the same in every fit of it.
    vary : mapping
        Parameters of `TSTransformerClassifier` and the values each takes, as in
        ``{"stem": ["linear", "conv"]}``; every combination is fitted. Fits of other methods are
        the same in every variant, and done once.
    resamples : int, default=1
        Number of splits of each data set: the official one, then stratified resamples of all its
        series, drawn by `tsformer.studies.run.problem.stratified_resample`.
    methods : mapping
        Classifiers by the names that the study gives them, each with its parameters and with
        ``estimator``, a name in `tsformer.baselines.BASELINES` or the dotted path of any class that
        follows scikit-learn's contract, as in ``{"rf": {"estimator":
        "sklearn.ensemble.RandomForestClassifier", "n_estimators": 500}}``. Without ``estimator``
        the name selects the classifier, or with parameters `TSTransformerClassifier`.
    train_sizes : sequence of int or str
        How much of each train split to train on: numbers of series, percentages as in ``"10%"``, or
        both; by default the whole. Every size is a variant of the study. A seed draws the same
        nested stratified subsets for every method: `tsformer.studies.run.problem.nested_order`.
        ``"100%"`` shares its fits with studies without sizes.
    leave_out : mapping
        Names of encodings or methods, and the data sets on which each is not fitted, as in
        ``{"1nn-dtw": ["PLAID"]}``, for fits that would take too long. The report names them and
        compares the data sets on which every method was fitted.
    splits : mapping
        Names of data sets, and how each was split, in words, for the report. ``tsformer compare
        --data`` fills it in.
    imports : sequence of str
        Modules to import first, which register encodings; modules of encodings that are not of
        this package are added.
    title : str, optional
        Shown name of the study. Neither the design nor the keys depend on it.
        `from_toml` takes the name of the file unless the file has a title.
    description : str, optional
        Purpose of the study, as Markdown for MLflow. The design does not depend on it.

    Raises
    ------
    ValueError
        For an unknown encoding, classifier or parameter, with the nearest match; for an invalid
        parameter value; for a list that is empty or has duplicates. Classes that are not ours are
        not imported, and their parameters are checked by `check`.
    TypeError
        For a value of the wrong type, or one without a JSON form and hence without a stable
        hash.

    Examples
    --------
    >>> study = Study(["BasicMotions"], ["none", "lspe"], seeds=2, parameters={"n_layers": 1})
    >>> len(study.trials())
    4
    >>> study = Study(["BasicMotions"], ["none"], seeds=1, vary={"stem": ["linear", "conv"]})
    >>> [trial.variant for trial in study.trials()]
    ['stem=linear', 'stem=conv']
    >>> study = Study(["BasicMotions"], methods={"tsformer": {}, "minirocket": {}}, seeds=2)
    >>> str(study.trials()[1])
    'BasicMotions  minirocket  0'
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
        set_field = partial(object.__setattr__, self)
        seeds: Any = self.seeds
        if isinstance(seeds, int) and not isinstance(seeds, bool):
            seeds = range(seeds)
        encodings = _listed("encodings", self.encodings)
        encodings = tuple(registered()) if encodings == ("all",) else encodings
        encodings = tuple(_in_one_spelling(encoding) for encoding in encodings)
        if encodings or not self.methods:
            what = "encodings" if encodings else "encodings or methods"
            encodings = _distinct(what, encodings, str)
        set_field("datasets", _distinct("datasets", self.datasets, str))
        set_field("encodings", encodings)
        set_field("seeds", _distinct("seeds", seeds, int))
        set_field("parameters", dict(self.parameters))
        set_field("vary", _varied(self.vary, self.parameters))
        check_number("resamples", self.resamples, 1, whole=True)
        set_field("train_sizes", train_sizes(self.train_sizes))
        for name in ("splits", "leave_out"):
            if not isinstance(value := getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping with names as keys; got {value!r}")
        texts = {f"splits, at {dataset!r},": words for dataset, words in self.splits.items()}
        for what, text in {**texts, "title": self.title, "description": self.description}.items():
            if not isinstance(text, str):
                raise TypeError(f"{what} must be of type str; got {text!r}")
        set_field("splits", dict(self.splits))
        for module in _listed("imports", self.imports):
            load_module(module, f"imports, {module!r}")
        for encoding in self.encodings:
            import_encodings(encoding)
        for values in _combinations(self.vary):
            check_parameters({**self.parameters, **values})
        for name in self.methods:
            if name in self.encodings:
                raise ValueError(f"{name!r} is both an encoding and a method; rename the method")
        own = {name: Method(name, TRANSFORMER, {"encoding": name}) for name in self.encodings}
        own |= read_methods(self.methods, self.parameters)
        set_field("_methods", own)
        set_field("methods", {name: dict(said) for name, said in self.methods.items()})
        modules = dict.fromkeys(_listed("imports", self.imports))
        for part in (part for name in self.names for part in self._parts(name)):
            homes = dict.fromkeys((part.rpartition(".")[0], find(part).__module__))
            ours = ("", "tsformer", "__main__")
            modules |= {home: None for home in homes if home.partition(".")[0] not in ours}
        set_field("imports", tuple(modules))
        left_out = {
            name: _distinct(f"leave_out, at {name!r},", datasets, str)
            for name, datasets in self.leave_out.items()
        }
        set_field("leave_out", left_out)
        for name in left_out:
            check_known("method of this study", name, self.names, where="leave_out: ")
        for dataset in (*self.splits, *itertools.chain(*left_out.values())):
            where = "splits and leave_out: "
            check_known("data set of this study", dataset, self.datasets, where=where)
        for name, datasets in left_out.items():
            if len(datasets) == len(self.datasets):
                raise ValueError(
                    f"leave_out names all data sets for {name!r}: remove it from the study"
                )
        transformers = [each for each in own.values() if each.transformer]
        if not transformers and (self.parameters or self.vary):
            names = ", ".join(map(repr, (*self.parameters, *self.vary)))
            raise ValueError(
                "parameters and vary are for TSTransformerClassifier, and no method of this study "
                f"is one; got {names}. Give each method its own parameters"
            )

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_dict(), sort_keys=True))

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        r"""Read a study from a TOML file whose keys are the parameters of this class.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is not valid TOML, has an unknown key (with the nearest match), or lacks one.

        Examples
        --------
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "study.toml"
        >>> _ = path.write_text('datasets = ["GunPoint"]\nencodings = ["none"]\nseeds = 5\n')
        >>> Study.from_toml(path).seeds
        (0, 1, 2, 3, 4)
        """
        return cls(**{"title": Path(path).stem, **read_study_file(path)})

    def as_dict(self) -> dict[str, Any]:
        """Return the design as plain lists and dicts, ready for JSON or TOML."""
        design: dict[str, Any] = {
            **{name: list(getattr(self, name)) for name in LISTS},
            **{name: dict(getattr(self, name)) for name in TABLES},
            "resamples": self.resamples,
        }
        design["methods"] = {name: dict(said) for name, said in self.methods.items()}
        for name in ("vary", "leave_out"):
            design[name] = {key: list(values) for key, values in design[name].items()}
        optional = ("methods", "train_sizes", "leave_out", "splits", "imports")
        return {name: part for name, part in design.items() if part or name not in optional}

    @property
    def names(self) -> tuple[str, ...]:
        """The encodings, followed by the names of the methods."""
        return (*self.encodings, *self.methods)

    def method(self, name: str) -> Method:
        """Return the method of this name; an encoding is the transformer with it."""
        check_known("method of this study", name, self.names)
        return self._methods[name]

    def check(self) -> None:
        """Construct the classifiers of all methods, to raise their errors before any fit.

        ImportError names the command that installs what is missing; TypeError and ValueError name
        the nearest match of a class or parameter.
        """
        for method in self._methods.values():
            method.check()

    @property
    def varied(self) -> dict[str, Sequence[Any]]:
        """Varied parameters, and `train_size` if there are sizes: columns of the results."""
        sizes = {"train_size": self.train_sizes} if self.train_sizes else {}
        return {**self.vary, **sizes}

    @property
    def variants(self) -> dict[str, dict[str, Any]]:
        """The combinations of varied values, by name; ``{"": {}}`` without any."""
        found = _combinations(self.varied)
        return {", ".join(f"{k}={v}" for k, v in variant.items()): variant for variant in found}

    def train_size_of(self, variant: str = "") -> str:
        """Return how much of the train split this variant gets, ``"100%"`` for the whole."""
        return str(self.variants[variant].get("train_size", WHOLE))

    def parameters_of(self, variant: str = "", method: str = "") -> dict[str, Any]:
        """Return the parameters of a method, by default the first, except encoding and seed."""
        found = self.method(method or self.names[0])
        if not found.transformer:
            return found.parameters
        values = self.variants[variant].items()
        varied = {name: value for name, value in values if name in self.vary}
        own = {name: value for name, value in found.given.items() if name != "encoding"}
        return {**self.parameters, **varied, **own}

    def encoding_of(self, method: str) -> str:
        """Return the encoding of a method that is a transformer; an encoding is its own."""
        default = TSTransformerClassifier().encoding
        return str(_in_one_spelling(self.method(method).given.get("encoding", default)))

    def _parts(self, method: str) -> tuple[str, ...]:
        """Return the encodings that a method sums; none of another classifier."""
        transformer = self.method(method).transformer
        return tuple(part_names(self.encoding_of(method))) if transformer else ()

    def code_of(self, method: str) -> list[str]:
        """Return library and version, or hash, of the classes of encodings not of this package."""
        classes = map(find, self._parts(method))
        return [
            class_version(cls) for cls in classes if cls.__module__.partition(".")[0] != "tsformer"
        ]

    def configuration(self, variant: str = "", method: str = "") -> dict[str, Any]:
        """Return everything that can affect a fit of this variant, including the defaults.

        The defaults of other libraries are represented by the version of the library.
        """
        name = method or self.names[0]
        if not self.method(name).transformer:
            return self.method(name).configuration()
        own = configuration(self.parameters_of(variant, name))
        if code := self.code_of(name):
            own["code"] = code
        if name in self.encodings:
            return own
        return {"estimator": TRANSFORMER, "encoding": self.encoding_of(name), **own}

    def hash_of(self, variant: str = "", method: str = "") -> str:
        """Return a hash of the variant's configuration, eight hex digits.

        Data sets, encodings, seeds and the other variants are excluded, so that a study can grow
        and keep its fits; defaults are included, so that a changed default leads to new fits. A
        parameter that was added after the first studies is included unless it has its default.
        """
        found = self.method(method or self.names[0])
        if not found.transformer:
            return digest(found.configuration())
        found_hash = configuration_hash(self.parameters_of(variant, method))
        code = self.code_of(found.name)
        return digest([found_hash, *code]) if code else found_hash

    def hashes(self) -> list[str]:
        """Return the hashes of all configurations in the study."""
        pairs = itertools.product(self.variants, self.names)
        return list(dict.fromkeys(self.hash_of(variant, name) for variant, name in pairs))

    @property
    def name(self) -> str:
        """Name of the study as a whole, with a hash that covers everything."""
        pairs = itertools.product(self.variants, self.names)
        return f"study-{digest([self.as_dict(), *itertools.starmap(self.configuration, pairs)])}"

    @property
    def label(self) -> str:
        """Name of the study: its title, or a description.

        Examples
        --------
        >>> Study(["GunPoint"], ["none", "lspe"]).label
        '2 encodings on GunPoint'
        """
        if self.title:
            return self.title
        one = len(self.datasets) == 1
        where = self.datasets[0] if one else f"{len(self.datasets)} data sets"
        varied = "".join(f", {name} varied" for name in self.varied)
        if len(self.names) == 1:
            return f"{self.names[0]} on {where}{varied}"
        what = "methods" if self.methods else "encodings"
        return f"{len(self.names)} {what} on {where}{varied}"

    def trials(self) -> list[Trial]:
        """Return all fits in order of execution.

        Seeds vary slowest, so that an unfinished study has every encoding; only resamples vary
        slower still, so that the official splits come first.
        """
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
        """Return the key of a fit, the same in every study.

        The key excludes the name of a method, and the seed of a deterministic fit: equal fits under
        two names, seeds or variants run once. A transformer among the methods shares its fits with
        its encoding. Subsets of the train split depend on the seed for every method.
        """
        found, size = self.method(method), self.train_size_of(variant)
        what = self.encoding_of(method) if found.transformer else found.class_name
        of = seed if found.random or size != WHOLE else "any"
        key = f"{dataset}/{what}/{of}/{self.hash_of(variant, method)}"
        key = f"{key}/resample-{resample}" if resample else key
        return key if size == WHOLE else f"{key}/train-{size}"


def _combinations(varied: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of one value for each name."""
    return [
        dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())
    ]


def _in_one_spelling(encoding: Any) -> Any:
    """Return a sum without spaces."""
    return "+".join(part_names(encoding)) if isinstance(encoding, str) else encoding


def _listed(what: str, values: Any) -> tuple[Any, ...]:
    """Return a list as a tuple, a string as its only value."""
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable):
        raise TypeError(f"{what} must be a list; got {values!r}")
    return tuple(values)


def _distinct(what: str, values: Any, kind: type) -> tuple[Any, ...]:
    values = _listed(what, values)
    if not values:
        raise ValueError(f"{what} must name at least one; got none")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise TypeError(f"{what} must be of type {kind.__name__}; got {value!r}")
        _check_once(what, value, values)
    return values


def _varied(
    vary: Mapping[str, Sequence[Any]], parameters: Mapping[str, Any]
) -> dict[str, tuple[Any, ...]]:
    for name, values in vary.items():
        if name == "encoding":
            raise ValueError(
                "'encoding' cannot be varied like a parameter: list its values in encodings"
            )
        if name in parameters:
            raise ValueError(f"{name!r} is given in both vary and parameters; give it once")
        if name in HARMLESS:
            raise ValueError(f"{name!r} cannot be varied: it does not affect results")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"vary takes a list of values for {name!r}; got {values!r}")
        for value in values:
            _check_once(f"vary, at {name!r},", value, values)
    return {name: tuple(values) for name, values in vary.items()}


def _check_once(what: str, value: Any, values: Sequence[Any]) -> None:
    if list(values).count(value) > 1:
        raise ValueError(f"{what} names {value!r} twice; name each once")
