"""The classifiers with the interface of aeon."""

from typing import Any, ClassVar, Self

import joblib

from tsformer._optional import require
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.ensemble import TSEnsembleClassifier
from tsformer.estimators.frameworks.base import TAGS, FrameworkClassifier
from tsformer.estimators.random_convolution import RandomConvolutionClassifier

# Not an import statement, whose error would not name the extra. A type checker sees Any.
_BaseClassifier: Any = require(
    "aeon.classification.base", extra="aeon", purpose="AeonTSTransformerClassifier"
).BaseClassifier

_TAGS = {**TAGS, "X_inner_type": ["np-list", "numpy3D"]}
_IN_THREADS = {**_TAGS, "capability:multithreading": True}


class _Threaded(FrameworkClassifier):
    """Sets `_n_jobs`, which aeon's checks read."""

    n_jobs: int | None

    def _fit(self, X: Any, y: Any) -> Self:
        self._n_jobs = joblib.effective_n_jobs(self.n_jobs)
        return super()._fit(X, y)


class AeonTSTransformerClassifier(_Threaded, _BaseClassifier, delegate=TSTransformerClassifier):
    """Transformer, as a native aeon classifier.

    It takes the parameters of `TSTransformerClassifier` and delegates to it. It accepts every
    collection type of aeon, and works in its pipelines and ensembles. aeon has no times, so
    `timestamps` must be None; `warm_start` is refused, as aeon resets an estimator before each fit.

    Attributes
    ----------
    classifier_ : TSTransformerClassifier
        The fitted classifier, with `history_`, `transform` and `save`.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from tsformer.estimators.frameworks import AeonTSTransformerClassifier
    >>> X, y = load_unit_test(split="train")
    >>> clf = AeonTSTransformerClassifier(encoding="lspe", max_epochs=5, random_state=0)
    >>> clf.fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = {**_IN_THREADS, "algorithm_type": "deeplearning"}


class AeonRandomConvolutionClassifier(
    FrameworkClassifier, _BaseClassifier, delegate=RandomConvolutionClassifier
):
    """Random convolutions with a ridge, as a native aeon classifier.

    It takes the parameters of `RandomConvolutionClassifier` and delegates to it: `classifier_`.
    Containers and times are as in `AeonTSTransformerClassifier`.
    """

    _tags: ClassVar[dict[str, Any]] = {**_TAGS, "algorithm_type": "convolution"}


class AeonTSEnsembleClassifier(_Threaded, _BaseClassifier, delegate=TSEnsembleClassifier):
    """Random convolutions and transformers, as a native aeon classifier.

    It takes the parameters of `TSEnsembleClassifier` and delegates to it: `classifier_`.
    Containers and times are as in `AeonTSTransformerClassifier`.
    """

    _tags: ClassVar[dict[str, Any]] = {**_IN_THREADS, "algorithm_type": "hybrid"}
