"""Model folders from strangers: an error that names file and field, soon and in little memory."""

import hashlib
import json
import math
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_estimators import FIVE, NETWORK, classifier, ensemble

from tsformer import EarlyClassifier, load
from tsformer.encodings import PositionalEncoding

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20))
CODES = RNG.integers(5, size=(12, 1, 20)).astype(float)
Y = np.array(["a", "b", "c"] * 4)

ESTIMATORS = {
    "classifier": classifier(class_weight={"a": 2.0}),
    "regressor": FIVE["regressor"](),
    "codes": classifier(stem="embedding"),
    "members": classifier(n_estimators=2),
    "convolutions": FIVE["convolutions"](),
    "ensemble": ensemble(convolution={"scaling": "channel"}),
    "labels": FIVE["convolutions"](),
    "early": EarlyClassifier(FIVE["convolutions"](), points=2, random_state=0),
}
TARGETS = {"regressor": np.arange(12.0), "labels": np.eye(3, dtype=int)[np.arange(12) // 2 % 3]}
TARGETS["labels"][:3] = 1


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name, estimator in ESTIMATORS.items():
        estimator.fit(CODES if name == "codes" else X, TARGETS.get(name, Y))
        if name == "classifier":
            estimator.calibrate_sets(X, Y, by_class=True)
        estimator.save(folder / name)
    return {name: folder / name for name in ESTIMATORS}


@pytest.fixture
def stranger(folders, tmp_path):
    """Make a copy of a saved model, its description or its tensors changed."""

    def make(name: str, change: Any = None, tensors: Any = None) -> Path:
        state = json.loads((folders[name] / "estimator.json").read_text())
        (weights,) = folders[name].glob("weights-*")
        held = load_file(weights)
        if change is not None:
            change(state)
        if tensors is not None:
            tensors(held)
        folder = tmp_path / "stranger"
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        save_file(held, folder / "new")
        state["weights_sha256"] = hashlib.sha256((folder / "new").read_bytes()).hexdigest()
        (folder / "new").rename(folder / f"weights-{state['weights_sha256'][:16]}.safetensors")
        (folder / "estimator.json").write_text(json.dumps(state))
        return folder

    return make


@contextmanager
def within_100_megabytes() -> Iterator[None]:
    """Let the system refuse more memory: the message would be another."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 100 * 2**20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def put(path: str, value: Any):
    """Return a change of one field, by its path."""
    *parents, last = (int(key) if key.isdecimal() else key for key in path.split("."))

    def change(state: Any) -> None:
        for key in parents:
            state = state[key]
        state[last] = value

    return change


def refused(folder: Path, *words: str) -> None:
    with within_100_megabytes(), pytest.raises(ValueError, match=re.escape(str(folder))) as raised:
        load(folder, device="cpu")
    assert [word for word in words if word not in str(raised.value)] == []


#: Values of fields that the error names.
NAMED: dict[str, dict[str, list[Any]]] = {
    "classifier": {
        **{"model.d_model": [10**30], "model.dropout": [math.nan, 1, False], "format": [2.5]},
        **{"model.n_layers": [True], "model.encoding": [{"a": 1}], "time_step": [1.0]},
        **{"classes.values": [["b", "a", "c"], ["a", "a", "c"], ["a", "b", "cc"], [], "abc"]},
        **{"classes.dtype": ["<U99999999", "nonsense", "V1"], "temperatures": [[1.0, 1.0], [0.0]]},
        **{"schema.clock": ["sundial"], "schema.names": [["a"]], "gap_flag": [10**30]},
        **{"parameters": [[]], "training": [[]], "class": [["x"]]},
        "sets.scores": [[], [[0.1], [0.2]], [[1.5]] * 3, [["a"]] * 3, [[None]] * 3, "many", [0.1]],
    },
    "regressor": {"target_std": [0.0]},
    "codes": {"model.stem_params.n_codes": [10**9]},
    "members": {"members": [3]},
}
#: Fields that make the error name something else.
UNNAMED: list[tuple[str, str, Any, str]] = [
    # More than the file holds.
    ("classifier", "model.d_model", 8000, "(8000,"),
    ("classifier", "model.n_layers", 10**9, "tensors in the file"),
    ("convolutions", "convolutions.n_groups", 10**8, "Hydra"),
    ("members", "members.0.model.d_model", 8000, "(8000,"),
    ("ensemble", "parts.transformer.model.d_model", 8000, "parts.transformer"),
    # No model at all.
    ("classifier", "parameters.precision", "float16", "precision"),
    ("classifier", "model.colour", "red", "colour"),
    ("members", "members", [], "members.1"),
    *(("classifier", "history.0", row, "history") for row in ([1], {"epoch": 1, "seconds": "1"})),
    # Not for these inputs, and not for these outputs.
    ("codes", "classes.values", ["a", "b"], "model.n_outputs"),
    ("convolutions", "classes.values", ["a", "b"], "RidgeClassifier"),
    ("ensemble", "classes.values", ["a", "b"], "parts.random_convolutions: classes"),
    ("ensemble", "schema.clock", "dates", "in the ensemble"),
    ("classifier", "schema.n_channels", 3, "n_channels is 3"),
    ("classifier", "flagged", [True, False], "model.n_channels"),
    ("classifier", "view_params", {"scale": -1}, "scale"),
    ("classifier", "views", "value", "view 'value'"),
    ("convolutions", "convolutions", {"n_features": 168}, "n_groups"),
    ("ensemble", "weights.transformer", math.nan, "weights"),
    ("ensemble", "weights", {"transformer": 1.0}, "a weight each"),
    ("ensemble", "parts.mystery", {}, "mystery"),
    ("early", "rule.n_agreeing", 0, "corrupted"),
    ("early", "rule.threshold", None, "corrupted"),
    ("early", "rule.steps", [3, 2], "corrupted"),
    ("early", "rule.trade_offs", {}, "corrupted"),
    *(("early", "rule.trade_offs.accuracy", x, "corrupted") for x in ([0.5], ["x"], None)),
    ("early", "classifier", {"class": "TSTransformerRegressor"}, "TSTransformerRegressor"),
    *(
        ("labels", *field, "several")
        for field in (("several_labels", 1), ("classes.values", [1, 2, 3]))
    ),
    # Parameters, which are kept for the next fit; what the card tells, and where it was tracked.
    ("classifier", "parameters.colour", "red", "'colour'"),
    ("ensemble", "parameters.transformer_params.colour", 1, "'colour'"),
    ("classifier", "parameters.class_weight", {"pairs": [["a", 1, 2]]}, "corrupted"),
    ("classifier", "table", {"case": 3}, "table.case"),
    ("classifier", "tracked_run", {"run_id": "a"}, "tracked_run.store"),
    ("ensemble", "tracked_run", {"run_id": "' OR 1", "store": "x://y"}, "tracked_run.run_id"),
]
FIELDS = UNNAMED + [
    (name, field, value, field)
    for name, fields in NAMED.items()
    for field, values in fields.items()
    for value in values
]


@pytest.mark.parametrize("case", FIELDS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_load_refuses_field(case, stranger):
    name, field, value, word = case
    refused(stranger(name, put(field, value)), word)


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"labels", "early"}))
def test_load_refuses_missing_field(name, stranger, folders):
    state = json.loads((folders[name] / "estimator.json").read_text())
    for field in set(state) - {"tsformer", "torch", "training", "weights_sha256", "sets"}:
        refused(stranger(name, lambda state, field=field: state.pop(field)), field)


def test_load_refuses_deep_nesting(stranger, tmp_path):
    for text in ("[" * 10**6, '{"format": ' + "[" * 10**5 + "]" * 10**5 + "}"):
        (tmp_path / "estimator.json").write_text(text)
        refused(tmp_path, "estimator.json is corrupted")
    deep = json.loads("[" * 400 + "]" * 400)
    refused(stranger("classifier", put("model.encoding_params", {"d_hidden": deep})), "corrupted")


def spoil(name: str, value: Any):
    def change(tensors: dict[str, torch.Tensor]) -> None:
        key = min((key for key in tensors if key.endswith(name)), key=len)
        tensors[key] = value(tensors[key])

    return change


TENSORS: list[tuple[Any, ...]] = [
    ("classifier", "model.head.weight", lambda t: t / 0, "'model.head.weight'", "finite"),
    ("classifier", "model.head.weight", lambda t: t[:2].clone(), "'head.weight'", "(3, 8)"),
    ("classifier", "model.head.weight", lambda t: t.bfloat16(), "float32", "bfloat16"),
    ("classifier", "scaler.mean", lambda t: t.float(), "scaler.mean", "float64"),
    ("classifier", "scaler.std", lambda t: -t, "scaler.std"),
    ("codes", "codes.known", lambda t: t.flip(0), "codes.known"),
    ("convolutions", "series.dilations", lambda t: t * 10**12, "MiniRocket", "dilations"),
    ("convolutions", "series.n_biases", torch.zeros_like, "'n_biases'", "positive"),
    ("convolutions", "series.biases", lambda t: t[:-1].clone(), "'biases' of MiniRocket"),
    ("convolutions", "hydra.series.channels", lambda t: t[..., :1].clone(), "'channels' of Hydra"),
    ("convolutions", "hydra.series.kernels", lambda t: t.repeat(22, 1, 1, 1), "of Hydra"),
    ("convolutions", "dense_scale.std", torch.zeros_like, "std"),
    ("convolutions", "count_scale.std", torch.zeros_like, "std"),
    ("convolutions", "ridge.coef", lambda t: t[:-1].clone(), "'coef' of RidgeClassifier"),
    ("ensemble", "transformer.model.head.weight", lambda t: t / 0, "head.weight", "finite"),
    ("classifier", "novelty.unit", torch.zeros_like, "'unit' of Novelty", "positive"),
    ("classifier", "novelty.spread", lambda t: t[1:].clone(), "'spread' of Novelty"),
    ("classifier", "novelty.quantiles", torch.zeros_like, "'quantiles' of Novelty", "positive"),
    ("classifier", "novelty.of_statistics.mean", lambda t: t[1:].clone(), "'mean' of Leverage"),
    ("classifier", "novelty.of_shape.penalty", lambda t: -t, "penalty"),
]


@pytest.mark.parametrize("case", TENSORS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_load_refuses_tensor(case, stranger):
    name, tensor, value, *words = case
    refused(stranger(name, tensors=spoil(tensor, value)), *words)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        *(("classifier", "model."), ("classifier", "scaler."), ("classifier", "")),
        *(("codes", "codes."), ("convolutions", "model."), ("ensemble", "transformer.model.")),
    ],
)
def test_load_refuses_unknown_tensor(name, prefix, stranger):
    refused(stranger(name, tensors=lambda held: held.update({f"{prefix}x": torch.ones(1)})), "x'")


def test_load_refuses_tensors_of_absent_part(stranger):
    def drop(state):
        del state["parts"]["transformer"], state["weights"]["transformer"]

    refused(stranger("ensemble", drop), "transformer.", "unknown")


def test_load_refuses_large_unsaved_table(folders, tmp_path, stranger):
    clf = classifier("sine_spe").fit(X, Y)
    clf.save(tmp_path / "spe")
    state = tmp_path / "spe" / "estimator.json"
    text = json.loads(state.read_text())
    text["model"]["encoding_params"] = {"n_realizations": 10**8}
    state.write_text(json.dumps(text))
    refused(tmp_path / "spe", "bytes of tables that are not in the file")


def test_load_drops_paths_and_callbacks(stranger):
    """A path that `fit` would write to, and a checkpoint that it would load, are not a model's."""
    theirs = {"checkpoint_dir": "/tmp/theirs", "resume": True, "callbacks": ["theirs"]}
    folder = stranger("ensemble", put("parameters.transformer_params", {**NETWORK, **theirs}))
    for params in (load(folder).transformer_params, load(folder).transformer_.get_params()):
        assert [params[name] for name in theirs] == [None, False, None]


def test_load_encoding_that_reads_values(tmp_path):
    class Fussy(PositionalEncoding, name="fussy"):
        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()
            self.size = torch.nn.Parameter(torch.full((3,), float(torch.arange(max_len).sum())))

        def embed(self, x, t):
            return x + self.size.sum() * t[..., None]

    clf = classifier("fussy").fit(X, Y)
    clf.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict_proba(X), clf.predict_proba(X))
