"""SktimeTSTransformerClassifier: the classifier behind the interface of sktime."""

from __future__ import annotations

from typing import Any, ClassVar

from tsformer._optional import require
from tsformer.estimators.frameworks import TAGS, TEST_PARAMS, FrameworkClassifier

__all__ = ["SktimeTSTransformerClassifier"]

# Not by an import, whose error would not name the extra. For a type checker it is Any.
_BaseClassifier: Any = require(
    "sktime.classification.base", extra="data", purpose="SktimeTSTransformerClassifier"
).BaseClassifier


class SktimeTSTransformerClassifier(FrameworkClassifier, _BaseClassifier):
    """Classify time series with a transformer, as a native classifier of sktime.

    Takes the parameters of `TSTransformerClassifier`, which it trains and asks. It reads every
    container of panels that sktime knows, with series of unequal length and with missing values,
    and works in sktime's pipelines, ensembles, tuning and evaluation.

    With ``timestamps="index"`` the time of each step is that of the index of its series; arrays,
    which have none, are refused then. So is `warm_start`: sktime's `fit` starts anew.

    Attributes
    ----------
    classifier_ : TSTransformerClassifier
        The fitted classifier, with `history_`, `transform` and `save`. Not there if all training
        labels are the same: sktime then answers without it.

    See Also
    --------
    tsformer.TSTransformerClassifier : Documents the parameters.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from tsformer.estimators.frameworks import SktimeTSTransformerClassifier
    >>> X, y = load_unit_test(split="train")
    >>> clf = SktimeTSTransformerClassifier(encoding="lspe", max_epochs=5, random_state=0)
    >>> clf.fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = {
        **TAGS,
        # A list of frames holds any length and the index. Arrays stay arrays: as frames they
        # would get names for their channels, which the data in `fit` need not have.
        "X_inner_mtype": ["df-list", "numpy3D"],
        "capability:categorical_in_X": False,
        "capability:class_weight": True,
        "capability:predict_proba": True,
        "capability:random_state": True,
        "property:randomness": "derandomized",
        "authors": "tsformer developers",
        "maintainers": "tsformer developers",
    }

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameter sets for sktime's checks, whatever `parameter_set` is."""
        return [dict(parameters) for parameters in TEST_PARAMS]
