"""Several labels of 0 and 1 for each series, and several targets of the regressor."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from small_estimators import (
    WEIGHTS,
    X,
    answers,
    assert_same,
    classifier,
    convolutions,
    ensemble,
    regressor,
)

from tsformer import EarlyClassifier, load
from tsformer.estimators.targets import Labels, read_columns
from tsformer.export.graph import graph_of
from tsformer.features.ridge import RidgeClassifier
from tsformer.inspection import permutation_importance
from tsformer.plots import plot_confusion, plot_reliability
from tsformer.tracking.model import ServedModel
from tsformer.tracking.scoring import scored

Y = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 0, 1]] * 4)
NUMBERS = np.column_stack([X[:, 0].mean(axis=1), 1000 * X[:, 1].std(axis=1)])
CLASSIFIERS = {
    "classifier": classifier(n_estimators=2, early_stopping=True),
    "convolutions": convolutions(scaling="auto"),
    "ensemble": ensemble(),
}


@pytest.fixture(scope="module", params=CLASSIFIERS)
def fitted(request):
    return CLASSIFIERS[request.param].fit(X, Y)


def test_labels_are_predicted_independently(fitted, tmp_path):
    proba, predicted = fitted.predict_proba(X), fitted.predict(X)
    assert proba.shape == predicted.shape == Y.shape
    assert predicted.dtype == Y.dtype
    np.testing.assert_array_equal(predicted, proba > 0.5)
    np.testing.assert_array_equal(predicted, fitted.decision_function(X) > 0)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.score(X, Y, WEIGHTS) == accuracy_score(Y, predicted, sample_weight=WEIGHTS)
    if hasattr(fitted, "score_parts"):
        assert fitted.score_parts(X, Y)["ensemble"] == fitted.score(X, Y)
    fitted.save(tmp_path / "model")
    assert_same(answers(load(tmp_path / "model")), answers(fitted))
    assert "| labels | 0 (" in (tmp_path / "model" / "README.md").read_text()
    assert fitted.summary().layers["output"].iloc[-1] == "3"


@pytest.mark.parametrize("made", [convolutions(), regressor(early_stopping=True)])
def test_target_columns_are_checked(made, tmp_path):
    y = pd.DataFrame(Y, columns=["a", "b", "c"])
    swapped = y[["b", "a", "c"]]
    made.fit(X, y).save(tmp_path / "model")
    for clf in (made, load(tmp_path / "model")):
        assert clf.score(X, y) == clf.score(X, Y) == clf.score(X, y.rename(columns=str.upper))
        for wrong in (swapped, y.rename(columns={"a": "d"})):
            with pytest.raises(ValueError):
                clf.score(X, wrong)
        with pytest.raises(ValueError):
            permutation_importance(clf, X, swapped)
    made.fit(X, swapped).score(X, swapped)
    if "early_stopping" in made.get_params():
        with pytest.raises(ValueError):
            made.fit(X, swapped, X_val=X, y_val=y)


def test_served_and_scored(fitted):
    table = ServedModel(fitted).predict({"series": list(X)})
    names = [f"{kind}({i})" for kind in ("prediction", "p") for i in range(3)]
    assert list(table) == names
    predicted = fitted.predict(X)
    np.testing.assert_array_equal(table[names[:3]], predicted)
    scores, _, proba = scored(fitted, X, csr_array(Y))
    assert scores["accuracy"] == fitted.score(X, Y)
    assert scores["brier_score"] == pytest.approx(np.square(Y - proba).mean())
    assert scores["label_accuracy"] == (predicted == Y).mean()
    unknown = np.where(np.arange(16)[:, None] + [0, 0, -9] > 9, np.nan, Y)
    assert scored(fitted, X, unknown)[0]["accuracy"] == fitted.score(X[:10], Y[:10])


def test_methods_for_one_label_are_refused(fitted):
    for name in ("explain", "calibrate", "calibrate_sets"):
        if hasattr(fitted, name):
            with pytest.raises(ValueError, match=name):
                getattr(fitted, name)(X, Y)
    for plot in (plot_confusion, plot_reliability):
        with pytest.raises(ValueError, match="one label"):
            plot(fitted, X, Y)
    for y in (Y[:, 0], Y[:, :2], np.where(Y, Y, np.nan), 2 * Y):
        with pytest.raises(ValueError):
            fitted.score(X, y)


@pytest.mark.parametrize("value", [None, np.nan, pd.NA])
def test_missing_values_are_unknown_labels(value):
    rows, expected = [[0, 1], [1, value]], [[0, 1], [1, np.nan]]
    for container in (pd.DataFrame,) if value is pd.NA else (pd.DataFrame, list, np.array):
        np.testing.assert_array_equal(read_columns(container(rows)), expected)
    labels = read_columns([[0, 1], np.ma.array([1, 1], mask=[False, True])])
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("make", [classifier, convolutions, ensemble])
def test_constant_and_unknown_labels(make):
    constant = np.tile([0, 1, 1], (16, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = make().fit(X, constant)
    proba = clf.predict_proba(X)
    assert ((proba > 0) & (proba < 1)).all()
    with pytest.raises(ValueError):
        make(class_weight="balanced").fit(X, Y)
    if make is not classifier:  # two epochs may be too few
        assert (clf.predict(X) == constant).all()
        with pytest.raises(ValueError):
            make().fit(X, np.where(np.arange(16)[:, None] == 2, np.nan, Y))
        return
    y = Y.astype(float)
    y[3, 1] = y[5:7] = np.nan
    assert classifier().fit(X, y).predict_proba(X).shape == Y.shape
    first = np.arange(16)[:, None] < 1
    for unknown in (np.where([False, True, False], np.nan, y), np.where(first, Y, [0, np.nan, 1])):
        with pytest.raises(ValueError):
            classifier().fit(X, unknown, sample_weight=np.arange(16))


def test_loss_with_unknown_labels_and_smoothing():
    logits = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    targets = torch.tensor([[1.0, torch.nan], [0.0, 1.0]])
    loss = Labels(np.arange(2)).loss(logits, targets, 0.1)
    p = torch.sigmoid(logits)
    expected = -(0.95 * p[0, 0].log() + 0.05 * (1 - p[0, 0]).log())
    assert loss[0].item() == pytest.approx(expected.item())
    loss.sum().backward()
    assert logits.grad[0, 1] == 0
    assert logits.grad.isfinite().all()


def test_a_ridge_fits_all_labels_at_once():
    features = np.random.default_rng(0).normal(size=(16, 5)) + Y @ np.ones((3, 5))
    kind, tensor = Labels(np.arange(3)), torch.from_numpy(features).float()
    targets = torch.from_numpy(kind.encode(Y, "y", len(Y)))
    ridge = RidgeClassifier().fit(tensor, targets, kind=kind)
    sklearn_ridge = Ridge(alpha=float(ridge.alpha)).fit(features, 2 * Y - 1)
    np.testing.assert_allclose(ridge.coef.numpy(), sklearn_ridge.coef_.T, atol=1e-5)
    assert ridge.scale.shape == (3,)
    wanted = targets.double() * (1 - 2 / 18) + 1 / 18  # smoothed, of 16 series
    loss = torch.nn.functional.binary_cross_entropy(ridge.left_out[0], wanted)
    assert float(ridge.loss) == pytest.approx(float(loss))


def test_several_targets(tmp_path):
    reg = regressor(n_estimators=2, early_stopping=True).fit(X, NUMBERS)
    predicted = reg.predict(X)
    assert predicted.shape == (16, 2)
    assert reg.score(X, NUMBERS) == pytest.approx(r2_score(NUMBERS, predicted))
    for y in (np.where(NUMBERS[0, 0] < NUMBERS, np.nan, NUMBERS), NUMBERS[:, 0]):
        with pytest.raises(ValueError):
            reg.score(X, y)
    targets = torch.from_numpy(reg.target_.encode(NUMBERS, "y", 16))
    losses = reg.target_.loss(torch.zeros(16, 2), targets)
    np.testing.assert_allclose(losses, targets.square().mean(dim=1), err_msg="of each series")
    exported = graph_of(reg)(torch.from_numpy(X).float())
    np.testing.assert_allclose(exported, predicted, rtol=1e-3, atol=1e-3)
    reg.save(tmp_path / "model")
    assert_same(answers(load(tmp_path / "model")), answers(reg))
    table = ServedModel(reg).predict({"series": list(X)})
    assert list(table) == ["prediction(0)", "prediction(1)"]


def test_several_labels_where_one_is_needed():
    clf = convolutions().fit(X, Y[:, 0])
    for use in (clf.score, EarlyClassifier(clf, points=1).fit):
        with pytest.raises(ValueError):
            use(X, Y)
    with pytest.warns(UserWarning):
        clf.fit(X, np.eye(2)[Y[:, 0]])
