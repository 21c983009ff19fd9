"""Each encoding, behind a stem that sees single steps, learns problems that need order or cannot.

What is symmetric is at chance by construction; what is not must learn, but for `LEAST`. A newly
registered encoding is tested the day it is registered.
"""

from __future__ import annotations

import warnings

import pytest

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.data.synthetic import ORDER_TASKS
from tsformer.encodings import names, resolve

# What is asked of the others. A code made of the scales of the series itself moves along with the
# series: far apart, which came first shows at the ends alone, and these two are neither excluded
# nor promised. A trend it sees, over seeds with .87 to .98.
LEAST = {("wavelet", "order"): 0.4, ("wavelet", "lag"): 0.4, ("wavelet", "direction"): 0.7}

ENCODINGS = [(name, {}) for name in names()] + [("alibi", {"signed": True}), ("tape+erpe", {})]
LABELS = ["-".join([name, *params]) for name, params in ENCODINGS]


@pytest.mark.parametrize("kind", ORDER_TASKS)
@pytest.mark.parametrize(("name", "params"), ENCODINGS, ids=LABELS)
def test_learns_what_its_properties_allow(name, params, kind):
    X, y = make_order_task(kind, 512, 24, random_state=0)
    X_test, y_test = make_order_task(kind, 400, 24, random_state=1)
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 1, "batch_size": 64, "dropout": 0.0}
    classifier = TSTransformerClassifier(
        name,
        encoding_params=params,
        stem="linear",
        max_epochs=25,
        learning_rate=0.005,
        random_state=0,
        **sizes,
    )
    symmetric = resolve(name, d_model=32, n_heads=4, max_len=24, **params).symmetric
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
