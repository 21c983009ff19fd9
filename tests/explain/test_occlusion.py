"""Occlusion of any classifier, without captum, against plain loops over its logits."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from small_estimators import classifier, convolutions, ensemble

MODELS = {
    "random convolutions": convolutions(scaling="channel"),
    "ensemble": ensemble("fast", {"max_epochs": 1}, {"scaling": "channel"}),
    "transformer": classifier(),
}


def by_a_loop(clf: Any, data: Any, window: float, stride: float) -> np.ndarray:
    """Return the mean fall of the logit of "b" over the windows around a value."""
    scaler = getattr(clf, "random_convolutions_", clf).preprocessor_
    relevance = np.zeros(data.observed.shape)
    whole = clf.logits(data.X, data.times)[:, 1]
    clocks = [np.arange(24.0)[: np.shape(x)[1]] for x in data.X]
    if data.times is not None:
        clocks = [(t - t[0]) / scaler.time_step for t in data.times]
    shifts = np.arange(0, window, stride)
    for shift, channel, number in product(shifts, range(2), range(60)):
        X, within = [np.array(x) for x in data.X], np.zeros(data.observed.shape, dtype=bool)
        for i, (x, clock) in enumerate(zip(X, clocks, strict=True)):
            inside = ((clock + shift) // window == number) & ~np.isnan(x[channel])
            within[i, channel, : len(inside)] = inside
            x[channel, inside] = scaler.mean[channel].item()
        if within.any():
            fall = whole - clf.logits(X, data.times)[:, 1]
            relevance += within * fall[:, None, None]
    return relevance / len(shifts)


@pytest.mark.parametrize(
    ("model", "stride"), [("random convolutions", 6), ("ensemble", 6), ("transformer", 2)]
)
def test_occlusion_equals_loop(model, stride, everything):
    data = everything
    clf = MODELS[model].fit(data.X, data.y, **data.options)
    params = {"window": 6, "stride": stride}
    relevance = clf.explain(data.X, "occlusion", "b", **data.options, method_params=params)
    assert relevance.dtype == np.float64
    assert (relevance[~data.observed] == 0).all()
    assert (relevance[data.observed] != 0).mean() > 0.9
    np.testing.assert_allclose(relevance, by_a_loop(clf, data, 6, stride), atol=1e-5)


def test_occlusion_needs_no_captum(plain, monkeypatch):
    clf = classifier(max_epochs=1).fit(plain.X, plain.y)
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    by_default = clf.explain(plain.X, "occlusion")  # a tenth of 24 steps, and half of that
    params = {"window": 2, "stride": 1}
    np.testing.assert_array_equal(
        by_default, clf.explain(plain.X, "occlusion", clf.predict(plain.X), method_params=params)
    )
