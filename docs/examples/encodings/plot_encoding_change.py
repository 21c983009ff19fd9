"""
What training changes in an encoding
====================================

Two bumps come in one order in one class and in the opposite order in the other. Behind the linear
stem only the encoding reveals the order. A callback copies the encoding before the first step; the
picture shows it before and after training, on one colour scale.
"""

from copy import deepcopy

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.plots import plot_encoding_change
from tsformer.training import Callback


class KeepEncoding(Callback):
    """Copy the encoding before training."""

    def on_train_begin(self, state):
        self.before = deepcopy(state.model.encoding.at(0))


X, y = make_order_task("order", 96, length=32, random_state=0)
keeper = KeepEncoding()
classifier = TSTransformerClassifier(
    "learnable+t5",
    stem="linear",
    d_model=16,
    n_layers=1,
    max_epochs=20,
    learning_rate=0.01,
    callbacks=[keeper],
    random_state=0,
)
classifier.fit(X, y)

figure = plot_encoding_change(
    classifier.callbacks[0].before, classifier.model_.encoding.at(0), 32, d_model=16
)
figure
