"""The parameters: names, kinds, and how wrong ones are refused."""

import inspect

import pytest
from sklearn.base import clone

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerRegressor,
)

CASES = [
    (TSTransformerClassifier, "encodng", "encoding"),
    (TSTransformerRegressor, "epochs", "max_epochs"),
    (RandomConvolutionClassifier, "nfeatures", "n_features"),
    (TSEnsembleClassifier, "qualty", "quality"),
]


def test_options_of_an_encoding_are_no_parameters_of_it():
    clf = TSTransformerClassifier()
    with pytest.raises(ValueError, match="encoding_params="):
        clf.set_params(encoding__base=50.0)
    with pytest.raises(ValueError):
        clf.set_params(d_model__x=1)


@pytest.mark.parametrize(("cls", "wrong", "right"), CASES)
def test_signature_names_and_copies_parameters(cls, wrong, right):
    with pytest.raises(TypeError, match=f"did you mean '{right}'"):
        cls(**{wrong: 3})
    names = list(inspect.signature(cls).parameters)
    with pytest.raises(TypeError, match=f"{names[1]}=2"):
        cls(1, 2)
    estimator = cls(**{right: 3})
    assert sorted(names) == sorted(before := estimator.get_params())
    with pytest.raises(ValueError, match=f"did you mean '{right}'"):
        estimator.set_params(**{right: 4, wrong: 3})
    assert clone(estimator).get_params() == estimator.get_params() == before
    assert estimator.set_params(**{right: 4}).get_params()[right] == 4
