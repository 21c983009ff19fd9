"""Series with gaps: filled, flagged, cut where they begin and end, refused where all is gap."""

import copy
import warnings

import numpy as np
import pytest
import torch
from small_estimators import X, Y, classifier

from tsformer import TSTransformerClassifier
from tsformer.data import LayoutWarning


@pytest.fixture(scope="module")
def fitted() -> TSTransformerClassifier:
    """Fitted to series without gaps; not to be changed."""
    return classifier().fit(X, Y)


@pytest.fixture
def gaps() -> np.ndarray:
    """The series, one value of the second channel missing."""
    gaps = X.copy()
    gaps[0, 1, 10] = np.nan
    return gaps


def test_channels_with_gaps_get_flags(gaps, fitted):
    clf = classifier().fit(gaps, Y)
    assert clf.n_channels_ == 2
    assert clf.model_.config.n_channels == 5, "values, differences and one flag"
    assert clf.preprocessor_.flagged.tolist() == [False, True]
    assert fitted.model_.config.n_channels == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(gaps)


@pytest.mark.parametrize("method", ["predict_proba", "transform"])
def test_gaps_that_training_never_had_are_warned_of(method, gaps, fitted):
    message = r"missing values in channels \[1\], where the training"
    with pytest.warns(UserWarning, match=message) as caught:
        output = getattr(fitted, method)(gaps)
    assert [each.filename for each in caught] == [__file__], "not in decorators"
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(output[1:], getattr(fitted, method)(X)[1:])


@pytest.mark.parametrize("lacks", [slice(0, 1), slice(None)], ids=["one", "all"])
@pytest.mark.parametrize("scaling", ["channel", "series"])
def test_a_channel_that_series_lack(lacks, scaling):
    gaps = X.copy()
    gaps[lacks, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LayoutWarning)  # all lack it
        proba = classifier(scaling=scaling, max_epochs=1).fit(gaps, Y).predict_proba(gaps)
    assert np.isfinite(proba).all()


def far(value: float) -> np.ndarray:
    """Return five series, of which the fourth has a value far from those of training."""
    series = X[:5].copy()
    series[3, 0, 7] = value
    return series


def test_values_far_from_training_are_answered(fitted):
    proba, near = fitted.predict_proba(far(-1e10)), fitted.predict_proba(X[:5])
    assert np.isfinite(proba).all()
    assert np.delete(proba, 3, axis=0).tolist() == np.delete(near, 3, axis=0).tolist()


def test_values_too_far_to_be_computed_with_are_refused_and_named(fitted):
    for value, message in (
        (1e30, r"outputs for series 3 are not finite: .* its values reach \d\.\d+e\+"),
        (1e130, r"too large for float32 after scaling: .* at series 3"),
    ):
        for call in (fitted.predict, fitted.predict_proba, fitted.transform):
            with pytest.raises(ValueError, match=message):
                call(far(value))
    spoilt = copy.deepcopy(fitted)
    with torch.no_grad():
        spoilt.model_.head.bias[0] = torch.nan  # a single output
    with pytest.raises(ValueError, match="outputs for series 0 are not finite"):
        spoilt.predict_proba(X[:5])
