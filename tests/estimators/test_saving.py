"""Save and load: the same predictions, or a clear error."""

import numpy as np
import pandas as pd
import pytest
import torch
from small_estimators import RAGGED, X, Y, answers, assert_same, classifier

from tsformer import TSTransformerClassifier, load
from tsformer.data.table import TableSchema
from tsformer.encodings import PositionalEncoding, unregister
from tsformer.training import Callback

LABELS = np.array(["no", "yes"])[Y]


def fitted(encoding="lspe", series=X, y=LABELS, **parameters) -> TSTransformerClassifier:
    return classifier(encoding, **{"augmentation": None} | parameters).fit(series, y)


def loaded_like(clf: TSTransformerClassifier, path, series=X) -> TSTransformerClassifier:
    """Save and load the classifier; check that its answers are the same."""
    clf.save(path)
    loaded = load(path)
    assert_same(answers(loaded, series), answers(clf, series))
    return loaded


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "clf"


@pytest.mark.parametrize(
    "options",
    [
        {"head_norm": "layer", "stem_params": {"n_residual": 2, "downsampling": "stride"}},
        {"views": "values+difference", "view_params": {"scale": 0.5}, "scaling": "series+size"},
        {"encoding_params": {"apply_to": "sum", "d_hidden": 3}, "pooling": "attention"},
        {"scaling": "series", "stem": "patch", "stem_params": {"stride": 3}, "norm_first": False},
        {"scaling": None, "stem": "linear", "d_ff": 5, "n_layers": 0, "class_weight": "balanced"},
        {
            "class_weight": {"no": 1, "yes": np.float64(2.5)},
            "d_model": np.int64(8),
            "dropout": np.float32(0.1),
        },
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_load_parameters(options, path):
    loaded = loaded_like(fitted(series=RAGGED, **options), path, RAGGED)
    assert {name: getattr(loaded, name) for name in options} == options
    assert type(loaded.d_model) is int


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "a longer label"]),
        np.array(["a", "b"], dtype=object),
        np.array([-3, 2**62]),
        np.array([1, 2], dtype=np.uint8),
        np.array([1.0, 2.0]),
        [False, True],
        pd.Series(["a", "b"], dtype="category"),
        pd.Series([1, 2], dtype="Int64"),
        np.array(["2024-02-29T01:02:03.000000004", "2024-03-01"], dtype="M8[ns]"),
        np.array([-1, 90], dtype="m8[s]"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', labels[0])}",
)
def test_load_labels_keep_type(labels, path):
    values = labels if isinstance(labels, list) else labels.tolist()
    plain = all(isinstance(value, bool | int | float | str) for value in values)
    weight = dict(zip(values, (1, 3), strict=True)) if plain else {}
    y = labels.iloc[Y] if isinstance(labels, pd.Series) else np.asarray(labels)[Y]
    clf = fitted(y=y, class_weight=weight or None)
    assert clf.classes_.tolist() == sorted(values)
    loaded = loaded_like(clf, path)
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert (loaded.class_weight or {}) == weight
    assert list(map(type, loaded.class_weight or {})) == list(map(type, weight))


def test_load_drops_callbacks_and_device(path):
    loaded = loaded_like(fitted(callbacks=[Callback()], device="cpu", n_threads=1), path)
    assert (loaded.callbacks, loaded.device, loaded.n_threads) == (None, "auto", "auto")
    with pytest.raises(ValueError):
        load(path, device="gpu")


@pytest.fixture
def ramp():
    class Ramp(PositionalEncoding, name="ramp"):
        def __init__(self, *, d_model, n_heads, max_len, size=1.0):
            super().__init__()
            self.size = torch.nn.Parameter(torch.tensor(size))

        def embed(self, x, t):
            return x + self.size * t[..., None]

    return Ramp


def test_load_refuses_unregistered_encoding(ramp, path):
    for encoding in ("ramp", ramp, "tape+ramp"):
        loaded_like(fitted(encoding), path)
    unregister("ramp")
    with pytest.raises(ValueError, match="import its module"):
        load(path)


def test_save_refuses_encoding_without_name(ramp, path):
    class Child(ramp):
        pass

    fits = [fitted(encoding) for encoding in (Child, lambda **sizes: ramp(**sizes), ramp)]
    type("Other", (PositionalEncoding,), {}, name="ramp", replace=True)  # takes the name over
    for clf in fits:
        with pytest.raises(ValueError):
            clf.save(path)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("table_schema_", TableSchema(case="id", time="t", value=("a",), label="y", sep=";")),
        ("tracked_run_", {"run_id": "0a" * 16, "store": "http://localhost:5000"}),
    ],
)
def test_saved_until_next_fit(attribute, value, path):
    clf = fitted()
    assert not hasattr(loaded_like(clf, path), attribute)
    setattr(clf, attribute, value)
    again = loaded_like(loaded_like(clf, path), path)
    assert getattr(again, attribute) == value
    assert not hasattr(again.fit(X, Y), attribute)
    assert not hasattr(loaded_like(again, path), attribute)
