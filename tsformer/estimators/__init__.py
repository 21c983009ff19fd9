"""Estimators with the interfaces of scikit-learn, sktime and aeon."""

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.regressor import TSTransformerRegressor

__all__ = ["TSTransformerClassifier", "TSTransformerRegressor"]
