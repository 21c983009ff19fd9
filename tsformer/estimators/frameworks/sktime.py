"""The classifiers with the interface of sktime."""

from typing import Any, ClassVar

from tsformer._optional import require
from tsformer.data.layout import check_ids
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.ensemble import TSEnsembleClassifier
from tsformer.estimators.frameworks.base import TAGS, FrameworkClassifier
from tsformer.estimators.random_convolution import RandomConvolutionClassifier

# Not an import statement, whose error would not name the extra. A type checker sees Any.
_BaseClassifier: Any = require(
    "sktime.classification.base", extra="data", purpose="SktimeTSTransformerClassifier"
).BaseClassifier

_TAGS: dict[str, Any] = {
    **TAGS,
    # A list of DataFrames holds any length and the index. Arrays stay arrays: as DataFrames
    # they would get channel names, which the data of `fit` may not have had.
    "X_inner_mtype": ["df-list", "numpy3D"],
    "capability:categorical_in_X": False,
    "capability:class_weight": True,
    "capability:predict_proba": True,
    "capability:random_state": True,
    "property:randomness": "derandomized",
    "authors": "tsformer developers",
    "maintainers": "tsformer developers",
}


class _WithIds(_BaseClassifier):
    """Rejects labels in another order than the series, before sktime drops their index."""

    def score(self, X: Any, y: Any) -> float:
        """Compute the accuracy; raise ValueError if the ids of `X` and `y` differ."""
        check_ids(X, y, "y")
        return float(super().score(X, y))


class SktimeTSTransformerClassifier(
    FrameworkClassifier, _WithIds, delegate=TSTransformerClassifier
):
    """Transformer, as a native sktime classifier.

    It takes the parameters of `TSTransformerClassifier` and delegates to it. It accepts every panel
    container of sktime, and works in its pipelines, ensembles, tuning and evaluation. With
    ``timestamps="index"`` the time of each step comes from the index of its series, so arrays are
    refused. `warm_start` is refused too: sktime resets an estimator before each fit.

    Attributes
    ----------
    classifier_ : TSTransformerClassifier
        The fitted classifier, with `history_`, `transform` and `save`. Missing if all training
        labels are equal: sktime then predicts that label itself.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from tsformer.estimators.frameworks import SktimeTSTransformerClassifier
    >>> X, y = load_unit_test(split="train")
    >>> clf = SktimeTSTransformerClassifier(encoding="lspe", max_epochs=5, random_state=0)
    >>> clf.fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS


class SktimeRandomConvolutionClassifier(
    FrameworkClassifier, _WithIds, delegate=RandomConvolutionClassifier
):
    """Random convolutions with a ridge, as a native sktime classifier.

    It takes the parameters of `RandomConvolutionClassifier` and delegates to it: `classifier_`.
    Containers and times are as in `SktimeTSTransformerClassifier`.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from tsformer.estimators.frameworks import SktimeRandomConvolutionClassifier
    >>> X, y = load_unit_test(split="train")
    >>> clf = SktimeRandomConvolutionClassifier(n_features=1000, random_state=0)
    >>> clf.fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS


class SktimeTSEnsembleClassifier(FrameworkClassifier, _WithIds, delegate=TSEnsembleClassifier):
    """Random convolutions and transformers, as a native sktime classifier.

    It takes the parameters of `TSEnsembleClassifier` and delegates to it: `classifier_`.
    Containers and times are as in `SktimeTSTransformerClassifier`.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from tsformer.estimators.frameworks import SktimeTSEnsembleClassifier
    >>> X, y = load_unit_test(split="train")
    >>> small = {"max_epochs": 5}
    >>> clf = SktimeTSEnsembleClassifier(transformer_params=small, random_state=0)
    >>> clf.fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS
