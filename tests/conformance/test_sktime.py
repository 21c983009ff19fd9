"""sktime's own checks of a classifier, and what the tags of ours say."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tsformer import TSTransformerClassifier

sktime = pytest.importorskip("sktime", reason='needs the extra "data"')
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks  # noqa: E402

from tsformer.estimators.frameworks import (  # noqa: E402
    SktimeRandomConvolutionClassifier,
    SktimeTSEnsembleClassifier,
    SktimeTSTransformerClassifier,
)

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 3, "random_state": 0}


@pytest.mark.slow
@parametrize_with_checks([SktimeTSTransformerClassifier], obj_varname="made", check_varname="name")
def test_sktimes_checks(made, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks provoke some, and their own code is old
        results = check_estimator(made, tests_to_run=name, raise_exceptions=True, verbose=False)
    assert set(results.values()) == {"PASSED"}


@pytest.mark.exhaustive
@parametrize_with_checks(
    [SktimeRandomConvolutionClassifier, SktimeTSEnsembleClassifier],
    obj_varname="made",
    check_varname="name",
)
def test_sktimes_checks_of_the_others(made, name):
    test_sktimes_checks(made, name)


def test_labels_in_another_order_are_refused(panel):
    X = pd.concat({f"p{i:02d}": pd.DataFrame(x.T) for i, x in enumerate(panel[0])})
    y = pd.Series(panel[1], index=X.index.unique(0))
    native = SktimeRandomConvolutionClassifier(168, n_groups=2).fit(X, y)
    for call in (native.fit, native.score):
        with pytest.raises(ValueError):
            call(X, y[::-1])
    assert native.score(X, y) == np.mean(native.predict(X) == y.to_numpy())


@pytest.mark.parametrize("dates", [False, True])
def test_times_are_those_of_the_index(panel, dates):
    X, y = panel
    rng = np.random.default_rng(1)  # whole numbers: sktime refuses an index of floats
    times = list(rng.integers(1, 30, size=(len(X), X.shape[2])).cumsum(axis=1))
    if dates:
        times = [pd.Timestamp("2020-02-28") + pd.to_timedelta(t, unit="h") for t in times]
    frames = [pd.DataFrame(x.T, index=t, columns=["a", "b"]) for x, t in zip(X, times, strict=True)]
    native = SktimeTSTransformerClassifier(**SMALL, timestamps="index").fit(frames, y)
    clf = TSTransformerClassifier(**SMALL).fit(X, y, times=times)
    expected = clf.predict_proba(X, times=times)
    np.testing.assert_allclose(native.predict_proba(frames), expected, atol=1e-6)
