"""The parameters: names, kinds, and how wrong ones are refused."""

import inspect
from importlib import import_module

import pytest
from sklearn.base import clone

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)

#: Under which the published results were computed; those of a classifier first.
TRANSFORMER = {
    **{"encoding": "lspe", "stem": "conv", "pooling": "mean", "head_norm": "batch"},
    **{"d_model": 64, "n_heads": 4, "n_layers": 2, "dropout": 0.1, "norm_first": True},
    **{"learning_rate": "auto", "weight_decay": 0.05, "label_smoothing": 0.1},
    **{"n_estimators": 1, "validation_fraction": 0.1},
    **{"pretrained_lr_scale": 1.0, "checkpoint_minutes": 10.0},
    **dict.fromkeys(("batch_size", "max_epochs", "early_stopping", "augmentation"), "auto"),
    **dict.fromkeys(("scaling", "views", "temperature", "precision", "compile"), "auto"),
    "n_iter_no_change": "auto",
}
DEFAULTS = {
    TSTransformerClassifier: TRANSFORMER,
    TSTransformerRegressor: {"augmentation": None, "head_norm": "auto", "views": "values"},
    TSTransformerEncoder: {"objective": "masked", "scaling": "channel", "augmentation": None},
    RandomConvolutionClassifier: {"n_features": 10_000, "n_groups": 64, "scaling": "auto"},
    TSEnsembleClassifier: {"quality": "fast", "gate": 0.02, "time_limit": None},
}
OURS = [
    (TSTransformerClassifier, "encodng", "encoding"),
    (TSTransformerRegressor, "epochs", "max_epochs"),
    (RandomConvolutionClassifier, "nfeatures", "n_features"),
    (TSEnsembleClassifier, "qualty", "quality"),
]
SKTIME = [
    ("SktimeTSTransformerClassifier", "encodng", "encoding"),
    ("SktimeRandomConvolutionClassifier", "nfeatures", "n_features"),
    ("SktimeTSEnsembleClassifier", "qualty", "quality"),
]
CASES = [pytest.param(*case, id=case[0].__name__) for case in OURS]
CASES += [pytest.param(*case, id=case[0]) for case in SKTIME]
every_class = pytest.mark.parametrize(("cls", "wrong", "right"), CASES, indirect=["cls"])


@pytest.fixture
def cls(request):
    if isinstance(request.param, str):
        pytest.importorskip("sktime")
        return getattr(import_module("tsformer.estimators.frameworks"), request.param)
    return request.param


@pytest.mark.parametrize("cls", DEFAULTS, ids=lambda cls: cls.__name__)
def test_defaults(cls):
    params = cls().get_params(deep=False)
    assert {name: params[name] for name in DEFAULTS[cls]} == DEFAULTS[cls]


@every_class
def test_the_class_and_the_nearest_parameter_are_named(cls, wrong, right):
    message = f"unknown parameter of {cls.__name__} '{wrong}': did you mean '{right}'"
    with pytest.raises(TypeError, match=f"^{message}"):
        cls(**{wrong: 3})
    estimator = cls()
    before = estimator.get_params()
    with pytest.raises(ValueError, match=f"^Invalid parameter '{wrong}': {message}"):
        estimator.set_params(**{right: 3, wrong: 3})
    assert estimator.get_params() == before


@every_class
def test_too_many_without_a_name(cls, wrong, right):
    first, second = list(inspect.signature(cls).parameters)[:2]
    message = rf"{cls.__name__} takes only {first} without a name, .* as in .*\({second}=...\)"
    with pytest.raises(TypeError, match=message):
        cls(1, 2)


@every_class
def test_frameworks_see_the_signature_and_copies_are_equal(cls, wrong, right):
    names = list(inspect.signature(cls).parameters)
    assert inspect.getfullargspec(cls.__init__).kwonlyargs == names[1:]
    assert sorted(cls.get_param_names() if hasattr(cls, "get_param_names") else names) == sorted(
        cls().get_params()
    )
    estimator = cls(**{right: 3})
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(**{right: 4}).get_params()[right] == 4


def test_options_of_an_encoding_are_no_parameters_of_it():
    clf = TSTransformerClassifier()
    hint = r"encoding='lspe' has no parameters .*; .* encoding_params={'base': 50.0}$"
    with pytest.raises(ValueError, match=f"^Invalid parameter 'encoding__base': {hint}"):
        clf.set_params(encoding__base=50.0)
    with pytest.raises(ValueError, match=r"d_model__x': d_model=64 has no parameters of its own$"):
        clf.set_params(d_model__x=1)
