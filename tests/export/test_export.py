"""An exported program computes what the estimator predicts, for any number and length of series."""

import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import small_estimators
import torch
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

import tsformer
from tsformer import (
    RandomConvolutionClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)
from tsformer.encodings import PositionalEncoding, names
from tsformer.export import to_onnx, to_torch_export
from tsformer.export.graph import Graph, InOnnx, graph_of

LENGTH = 20
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
# Shapes to predict: fewer, shorter, longer and more series than those used for tracing.
NEW = [(1, LENGTH), (2, 1), (4, 7), (5, 3 * LENGTH)]


def series(n: int, length: int, channels: int = 2, seed: int = 1) -> np.ndarray:
    """Series with trailing padding, and with gaps in single channels and in all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, size=(n, channels, length)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, :, 1::6] = np.nan
    for i, x in enumerate(X):
        x[:, length - i * length // (n + 1) :] = np.nan
    X[:, :, 0] = rng.normal(3.0, 2.0, size=(n, channels))
    return X


def some_times(X: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(len(X))
    return rng.exponential(60.0, (len(X), X.shape[2])).cumsum(axis=1).astype(np.float32)


def codes(n: int, length: int) -> np.ndarray:
    X = np.round(series(n, length, 1))
    X[X[0, 0, 0] == X] = 77  # a code that is not in the training data
    return X


def fitted(estimator=TSTransformerClassifier, X=None, times=None, **params):
    """An estimator with random encoding weights: their initial values may be zero."""
    X = series(12, LENGTH, seed=0) if X is None else X
    estimator = estimator(**SIZES | params).fit(X, 5 + np.arange(12) % 3, times=times)
    generator = torch.Generator().manual_seed(0)
    for parameter in estimator.model_.encoding.parameters():
        nn.init.normal_(parameter, generator=generator)
    # Small: the head reads standardised features, and large logits would all be the same class.
    nn.init.normal_(estimator.model_.head.weight, std=0.3, generator=generator)
    return estimator


def session(estimator, path: Path):
    onnxruntime = pytest.importorskip("onnxruntime", reason='needs the extra "test"')
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(ExportedProgram, "run_decompositions")  # a second trace takes seconds
        written = to_onnx(estimator, path / "model.onnx")
    assert str(Path(tsformer.__file__).parent).encode() not in written.read_bytes()
    return onnxruntime.InferenceSession(written)


def agree(estimator, made: np.ndarray, inputs: list[np.ndarray]) -> None:
    """Compare the output of a program with predictions, which must differ between series."""
    names = ("predict_proba", "predict", "transform")
    predict = next(getattr(estimator, name) for name in names if hasattr(estimator, name))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*codes that are not in the training data")
        expected = predict(*inputs)
    if len(expected) > 3:
        assert np.ptp(expected, axis=0).max() > 0.001
    rtol = 1e-4 if isinstance(estimator, TSTransformerEncoder) else 1e-7
    np.testing.assert_allclose(made, expected, rtol=rtol, atol=1e-5)


def agree_in_onnx(
    estimator, path: Path, make=series, with_times: bool = False, shapes=tuple(NEW)
) -> None:
    runner = session(estimator, path)
    names = [entry.name for entry in runner.get_inputs()]
    assert names == (["X", "times"] if with_times else ["X"])
    for n, length in shapes:
        X = make(n, length)
        inputs = [X, some_times(X)] if with_times else [X]
        (made,) = runner.run(None, dict(zip(names, inputs, strict=True)))
        agree(estimator, made, inputs)


RAW = series(12, LENGTH, seed=0)
AT_TIMES = {"X": RAW, "times": some_times(RAW)}


@pytest.mark.slow
def test_an_export_that_fails_leaves_the_old_file(tmp_path):
    class Stubborn(PositionalEncoding):
        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()

        def embed(self, x, t):
            return x.nonzero().float() if torch.compiler.is_compiling() else x

    (path := tmp_path / "model.onnx").write_text("old")
    with pytest.raises(ValueError, match="Stubborn"):
        to_onnx(fitted(encoding=Stubborn, stem="linear"), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


CASES = {
    "the default stem, strided, at times": (
        {"stem_params": {"strides": (1, 2)}, "encoding": "rope", "pooling": "max"},
        *(AT_TIMES, {"with_times": True}),
    ),
    "one channel, each series scaled by itself": (
        {"stem": "linear", "scaling": "series", "pooling": "attention", "encoding": "tape+erpe"},
        {"X": series(12, LENGTH, 1, seed=0)},
        {"make": lambda n, length: series(n, length, 1)},
    ),
    "each series scaled by itself, its size beside it": (
        {"scaling": "series+size", "views": "values+difference"},
        *({"X": RAW * np.logspace(-3, 3, 12)[:, None, None]}, {}),
    ),
    "all views, pooled tokens, a norm before the head, at times": (
        {"views": "values+difference", "head_norm": "batch", "augmentation": "warp"}
        | {"stem_params": {"strides": (2, 2), "n_residual": 1, "downsampling": "pool"}},
        *(AT_TIMES, {"with_times": True}),
    ),
    "codes": (
        {"stem": "embedding"},
        *({"X": np.round(series(12, LENGTH, 1, seed=0))}, {"make": codes}),
    ),
    "a regressor of patches of values as they are, two members": (
        {"estimator": TSTransformerRegressor, "encoding": "t5", "stem": "patch", "scaling": None}
        | {"n_estimators": 2},
        *({}, {}),
    ),
    "embeddings": (
        {"estimator": TSTransformerEncoder, "stem": "linear", "n_estimators": 2},
        *(AT_TIMES, {"with_times": True}),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_graph_predicts_like_estimator(case):
    params, data, calls = CASES[case]
    estimator = fitted(**params, **data)
    graph = graph_of(estimator)
    for n, length in NEW:
        X = calls.get("make", series)(n, length)
        inputs = [X, some_times(X)] if "with_times" in calls else [X]
        agree(estimator, graph(*map(torch.from_numpy, inputs)).numpy(), inputs)
    if "with_times" in calls:  # they count from the first step, and padding needs none
        X, times = map(torch.from_numpy, inputs)
        expected = graph(X, times)
        torch.testing.assert_close(graph(X, times + 4096.0), expected, rtol=1e-3, atol=1e-3)
        padding = X.isnan().all(dim=1).flip(1).cumprod(dim=1).bool().flip(1)
        assert padding.any()
        torch.testing.assert_close(graph(X, times.masked_fill(padding, torch.nan)), expected)


SIGNAL = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (torch.Tensor.cummax, (SIGNAL, 1)),
        (torch.Tensor.where, (SIGNAL > 0, SIGNAL < 1, SIGNAL > -1)),
        (torch.searchsorted, (torch.tensor([1, 2, 2, 5.0]), torch.arange(7.0))),
        (torch.fft.irfft, (torch.fft.rfft(SIGNAL), 7, -1)),
    ],
    ids=["cummax", "where", "searchsorted", "irfft"],
)
def test_onnx_replacements_equal_torch(function, arguments):
    outputs = InOnnx.replaced[function](*arguments)
    torch.testing.assert_close(tuple(outputs), tuple(function(*arguments)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_other_models_in_onnx(case, tmp_path):
    params, data, calls = CASES[case]
    agree_in_onnx(fitted(**params, **data), tmp_path, **calls)


@pytest.mark.exhaustive
@pytest.mark.parametrize("encoding", names())
def test_every_encoding_in_onnx(encoding, tmp_path):
    agree_in_onnx(fitted(encoding=encoding, stem_params={"dilations": (1,)}), tmp_path)


@pytest.mark.exhaustive
def test_torch_export(tmp_path):
    # Encodings that were hard to export, in a single model.
    estimator = fitted(encoding="wavelet+fire+tupe+erpe", stem_params={"strides": (1, 3)})
    to_torch_export(estimator, tmp_path / "made" / "model.pt2")
    extra = {"classes": ""}
    program = torch.export.load(tmp_path / "made" / "model.pt2", extra_files=extra)
    assert json.loads(extra["classes"]) == [5, 6, 7]
    for n, length in [(1, LENGTH), (2, 4), (5, 3 * LENGTH)]:
        X = series(n, length)
        agree(estimator, program.module()(torch.from_numpy(X)).numpy(), [X])


CONVOLUTIONS = {"n_features": 168, "n_groups": 2}
# Differences of a series of two steps are a single one, of which torch makes a case of its own.
LONGER = [(1, LENGTH), (2, 3), (4, 7), (5, 3 * LENGTH)]


def with_random_weights(estimator: RandomConvolutionClassifier) -> RandomConvolutionClassifier:
    """Let the features decide: of noise the ridge learns that they say nothing."""
    ridge = estimator.model_.ridge
    nn.init.normal_(ridge.coef, std=0.1, generator=torch.Generator().manual_seed(0))
    nn.init.ones_(ridge.scale)
    return estimator


def test_random_convolutions_of_short_series():
    """The module that is exported, as an export takes seconds."""
    X = series(12, 9, seed=0)
    estimator = RandomConvolutionClassifier(**CONVOLUTIONS, random_state=0)
    with_random_weights(estimator.fit(X, np.arange(12) % 3))
    module = graph_of(estimator)
    for n, length in [(2, 5), (4, 40)]:
        X = series(n, length)
        agree(estimator, module(torch.from_numpy(X)).numpy(), [X])
    X[2] = np.nan
    outputs = module(torch.from_numpy(X)).numpy()
    assert np.isnan(outputs).any(axis=1).tolist() == [i == 2 for i in range(4)]
    y = np.stack([np.arange(12) % 2, np.arange(12) % 3 > 0], axis=1)  # several labels
    mixed = small_estimators.ensemble().fit(series(12, 16, seed=0), y)
    with_random_weights(mixed.random_convolutions_)
    X = series(5, 40)
    agree(mixed, graph_of(mixed)(torch.from_numpy(X)).numpy(), [X])


class Counted(TorchFunctionMode):
    """Counts the functions of torch that are called."""

    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_random_convolutions_of_all_dilations_are_few_operators():
    """An export takes some 30 ms for each: 10,000 features took minutes, a dilation at a time."""
    X = series(12, 150, channels=3, seed=0)
    estimator = RandomConvolutionClassifier(random_state=0).fit(X, np.arange(12) % 3)
    module = graph_of(with_random_weights(estimator))
    with Counted() as counted:
        made = module(torch.from_numpy(X)).numpy()
    agree(estimator, made, [X])
    assert counted.calls < 600


@pytest.mark.exhaustive
def test_an_ensemble_in_onnx(tmp_path):
    estimator = small_estimators.ensemble("good", {"stem": "linear"})
    estimator.fit(series(12, 16, seed=0), 5 + np.arange(12) % 3)
    with_random_weights(estimator.random_convolutions_)
    agree_in_onnx(estimator, tmp_path, shapes=LONGER)


@pytest.mark.parametrize(("level", "is_warned"), [(1e4, False), (1e6, True)])
def test_an_offset_that_float32_does_not_hold_is_warned_of(level, is_warned):
    estimator = RandomConvolutionClassifier(**CONVOLUTIONS, random_state=0)
    X = series(12, 16, seed=0).astype(np.float64)
    X[:, 1] += level
    warned = pytest.warns(UserWarning, match="channel 1")
    with warned if is_warned else nullcontext():
        graph_of(estimator.fit(X, np.arange(12) % 3))


@pytest.mark.slow
def test_onnx_predicts_like_the_estimator_and_describes_it(tmp_path):
    onnx = pytest.importorskip("onnx", reason='needs the extra "onnx"')
    params = {"stem": "linear", "encoding": "rope", "scaling": "channel"}
    estimator = TSTransformerClassifier(**SIZES | params)
    estimator.fit(RAW, ["no", "yes", "perhaps"] * 4, times=some_times(RAW))
    nn.init.normal_(estimator.model_.head.weight, std=0.3)
    agree_in_onnx(estimator, tmp_path, with_times=True)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    model = onnx.load(tmp_path / "model.onnx")
    props = {prop.key: json.loads(prop.value) for prop in model.metadata_props}
    assert props["classes"] == ["no", "perhaps", "yes"]
    assert props["estimator"] == "TSTransformerClassifier"
    assert (props["n_channels"], props["scaling"]) == (2, "channel")
    assert props["time_step"] == estimator.preprocessor_.time_step
    assert (props["model"]["encoding"], props["model"]["d_model"]) == ("rope", 8)
    entry = model.graph.input[0]
    sizes = [dim.dim_param or dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    assert (entry.name, sizes) == ("X", ["n", 2, "length"])


@pytest.mark.parametrize("export", [to_onnx, to_torch_export])
def test_invalid_arguments_are_refused(export, tmp_path, monkeypatch):
    monkeypatch.setattr(Graph, "traced", mock.Mock(side_effect=AssertionError("a minute late")))
    timed = RandomConvolutionClassifier(**CONVOLUTIONS).fit(**AT_TIMES, y=np.arange(12) % 3)
    (tmp_path / "folder").mkdir()
    for wrong, error, message in (
        (make_pipeline(TSTransformerClassifier()), TypeError, "Pipeline"),
        (TSTransformerClassifier(), NotFittedError, "not fitted"),
        (fitted(X=np.full((12, 1, 4), 2**24 + 1), stem="embedding"), ValueError, "float32"),
        (timed, ValueError, "times"),
    ):
        with pytest.raises(error, match=message):
            export(wrong, tmp_path / "model")
    with pytest.raises(ValueError, match="folder"):
        export(fitted(encoding="none", stem="linear"), tmp_path / "folder")
