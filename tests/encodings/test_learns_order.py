"""Each encoding, behind a pointwise stem, solves problems that require order, or cannot.

A symmetric encoding is at chance by construction; any other must solve them, except as stated in
`LEAST`. A new encoding is tested as soon as it is registered.
"""

import warnings

import pytest
from marks import exhaustive_except

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.data.synthetic import ORDER_TASKS
from tsformer.encodings import names, resolve
from tsformer.training import Callback, TrainingState

# The least accuracy of the exceptions. A code made of the scales of the series itself moves along
# with the series: which of two distant events came first shows only at the ends, so the first two
# problems are neither excluded nor promised. A trend it does see: 0.87 to 0.98 over seeds.
LEAST = {("wavelet", "order"): 0.4, ("wavelet", "lag"): 0.4, ("wavelet", "direction"): 0.7}

ENCODINGS = [(name, {}) for name in names()] + [("alibi", {"signed": True}), ("tape+erpe", {})]
LABELS = ["-".join([name, *params]) for name, params in ENCODINGS]


# A fit goes on until the loss is near 0.199, the least that label smoothing of 0.1 admits.
SOLVED = 0.25
# Most fits that solve a problem take 3 to 7 epochs; a symmetric encoding would take them all.
MAX_EPOCHS, MAX_EPOCHS_OF_SYMMETRIC = 25, 6


class StopWhenSolved(Callback):
    def on_epoch_end(self, state: TrainingState) -> None:
        state.stop = state.history[-1]["loss"] < SOLVED


@pytest.mark.parametrize("kind", exhaustive_except(ORDER_TASKS, ["order"]))
@pytest.mark.parametrize(("name", "params"), ENCODINGS, ids=LABELS)
def test_encoding_learns_order_unless_symmetric(name, params, kind):
    X, y = make_order_task(kind, 256, 24, random_state=0)
    X_test, y_test = make_order_task(kind, 400, 24, random_state=1)
    sizes = {"d_model": 16, "n_heads": 4, "n_layers": 1, "batch_size": 32, "dropout": 0.0}
    plain = {"scaling": "channel", "views": "values", "augmentation": None}
    symmetric = resolve(name, d_model=16, n_heads=4, max_len=24, **params).symmetric
    classifier = TSTransformerClassifier(
        name,
        encoding_params=params,
        stem="linear",
        max_epochs=MAX_EPOCHS_OF_SYMMETRIC if symmetric else MAX_EPOCHS,
        learning_rate=0.01,
        random_state=0,
        callbacks=[StopWhenSolved()],
        **sizes,
        **plain,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(X, y)
    warned = any("cannot tell a series from its reverse" in str(w.message) for w in caught)
    assert warned == (symmetric and name != "none")
    accuracy = classifier.score(X_test, y_test)
    if symmetric:
        assert 0.4 < accuracy < 0.6
    else:
        assert accuracy >= LEAST.get((name, kind), 0.95)
