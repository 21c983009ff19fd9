"""Symbolic series: ``stem="embedding"``."""

import numpy as np
import pytest
from sklearn.utils import get_tags
from small_estimators import classifier


def events(n: int = 240, length: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Event codes in which 30 comes before 7 (class 1) or after it (class 0)."""
    rng = np.random.default_rng(seed)
    X = rng.choice([1, 2, 1000], size=(n, length))
    first, second = np.sort(rng.permuted(np.tile(np.arange(length), (n, 1)), axis=1)[:, :2]).T
    y = np.arange(n) % 2
    rows = np.arange(n)
    X[rows, np.where(y == 1, first, second)] = 30
    X[rows, np.where(y == 1, second, first)] = 7
    return X, y


@pytest.fixture(scope="module")
def fitted():
    options = {"d_model": 16, "max_epochs": 15, "learning_rate": 0.01}
    return classifier("rope", stem="embedding", **options).fit(*events())


@pytest.mark.slow
def test_the_order_of_codes_is_learned(fitted):
    assert fitted.score(*events(seed=1)) > 0.95
    assert fitted.preprocessor_.known.tolist() == [1, 2, 7, 30, 1000]
    assert fitted.model_.stem.embedding.weight.shape == (6, 16)


def test_a_stem_of_codes_is_tagged_as_categorical():
    tags = [
        get_tags(classifier(stem=stem)).input_tags.categorical for stem in ("embedding", "conv")
    ]
    assert tags == [True, False]


def test_warm_start_keeps_the_vocabulary():
    X, y = events()
    clf = classifier(stem="embedding", warm_start=True).fit(X[:24], y[:24])
    with pytest.warns(UserWarning, match="codes that are not in the training data"):
        clf.fit(np.where(X == 1, 77, X)[:24], y[:24])
    assert clf.preprocessor_.known.tolist() == [1, 2, 7, 30, 1000]


@pytest.mark.parametrize(
    ("X", "params", "message"),
    [
        (np.random.default_rng(0).normal(size=(6, 8)), {}, "needs codes that are integers"),
        (np.ones((6, 2, 8), dtype=int), {}, "one channel of codes; X has 2 channels"),
        (np.ones((6, 8), dtype=int), {"n_codes": 3}, "stem_params must not contain n_codes"),
    ],
)
def test_series_that_are_not_symbolic_are_refused(X, params, message):
    with pytest.raises(ValueError, match=message):
        classifier(stem="embedding", stem_params=params).fit(X, np.arange(6) % 2)
