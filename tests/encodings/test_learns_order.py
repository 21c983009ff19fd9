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

#: A code made of the scales of a series moves along with it: which of two events came first shows
#: only at the ends. A trend it does see.
LEAST = {("wavelet", "order"): 0.4, ("wavelet", "lag"): 0.4, ("wavelet", "direction"): 0.7}
ENCODINGS = [(name, {}) for name in names()] + [("alibi", {"signed": True}), ("tape+erpe", {})]
SIZES = {"d_model": 16, "n_heads": 4, "n_layers": 1, "batch_size": 32, "dropout": 0.0}
PLAIN = {"stem": "linear", "scaling": "channel", "views": "values", "augmentation": None}


class StopWhenSolved(Callback):
    def on_epoch_end(self, state: TrainingState) -> None:
        state.stop = state.history[-1]["loss"] < 0.25  # near 0.199, the least of smoothed labels


@pytest.mark.parametrize("kind", exhaustive_except(ORDER_TASKS, ["order"]))
@pytest.mark.parametrize(("name", "params"), ENCODINGS, ids=str)
def test_encoding_learns_order_unless_symmetric(name, params, kind):
    X, y = make_order_task(kind, 256, 24, random_state=0)
    symmetric = resolve(name, d_model=16, n_heads=4, max_len=24, **params).symmetric
    budget = {"max_epochs": 6 if symmetric else 25, "learning_rate": 0.01, "random_state": 0}
    classifier = TSTransformerClassifier(
        name, encoding_params=params, callbacks=[StopWhenSolved()], **SIZES, **PLAIN, **budget
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(X, y)
    warned = any("cannot tell a series from its reverse" in str(w.message) for w in caught)
    assert warned == (symmetric and name != "none")
    accuracy = classifier.score(*make_order_task(kind, 400, 24, random_state=1))
    least, most = (0.4, 0.6) if symmetric else (LEAST.get((name, kind), 0.95), 1.0)
    assert least <= accuracy <= most
