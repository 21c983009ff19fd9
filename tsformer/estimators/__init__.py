"""Estimators with the interfaces of scikit-learn, sktime and aeon."""

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.early import EarlyAnswer, EarlyClassifier, StreamingClassifier
from tsformer.estimators.encoder import TSTransformerEncoder
from tsformer.estimators.ensemble import TSEnsembleClassifier
from tsformer.estimators.random_convolution import RandomConvolutionClassifier
from tsformer.estimators.regressor import TSTransformerRegressor

__all__ = [
    "EarlyAnswer",
    "EarlyClassifier",
    "RandomConvolutionClassifier",
    "StreamingClassifier",
    "TSEnsembleClassifier",
    "TSTransformerClassifier",
    "TSTransformerEncoder",
    "TSTransformerRegressor",
]
