"""Old names of `tsformer.training` work for one version, with a FutureWarning."""

from __future__ import annotations

import pytest
from small_problem import cross_entropy, equal, make_model, make_panel, make_plan, weights_of

import tsformer.training
from tsformer.training import NonFiniteLossError, train_ensemble


def test_diverged():
    with pytest.warns(FutureWarning, match=r"training.Diverged was renamed .*NonFiniteLossError"):
        assert tsformer.training.Diverged is NonFiniteLossError
    with pytest.raises(AttributeError, match="has no attribute 'diverged'"):
        _ = tsformer.training.diverged


@pytest.mark.parametrize("together", [True, False])
def test_train_members(together):
    panel, targets = make_panel()
    plans = [make_plan(n_epochs=1, seed=seed) for seed in range(2)]
    old, new = ([make_model(), make_model()] for _ in range(2))
    with pytest.warns(FutureWarning, match=r"train_members.* was renamed to train_ensemble"):
        histories = tsformer.training.train_members(
            old, panel, targets, cross_entropy, plans, together=together
        )
    train_ensemble(new, panel, targets, cross_entropy, plans, vectorized=together)
    assert [len(history) for history in histories] == [1, 1]
    for one, other in zip(old, new, strict=True):
        assert equal(weights_of(one), weights_of(other))
