"""A study is paired: under one seed encodings meet the same weights and the same batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tsformer import TSTransformerClassifier
from tsformer.data import load_dataset
from tsformer.training import Callback, TrainingState


class Start(Callback):
    """Keeps the weights before the first step, and the batches of the first epoch."""

    def on_train_begin(self, state: TrainingState) -> None:
        weights = {n: w.clone() for n, w in state.model.state_dict().items()}
        self.weights = {n: w for n, w in weights.items() if "encoding" not in n.split(".")}
        self.batches: list[Tensor] = []
        state.model.get_submodule("stem").register_forward_pre_hook(self._see)

    def _see(self, module: Any, arguments: tuple[Any, ...]) -> None:
        if module.training:
            self.batches.append(arguments[0].clone())


def start(encoding: str, seed: int = 1) -> tuple[dict[str, Tensor], list[Tensor]]:
    seen, small = Start(), {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
    classifier = TSTransformerClassifier(encoding, **small, random_state=seed, callbacks=[seen])
    classifier.fit(*load_dataset("BasicMotions", split="train"))
    return seen.weights, seen.batches


@pytest.mark.slow
def test_one_seed_is_one_start_for_all_encodings_and_another_is_another():
    weights, batches = start("none")
    assert len(weights) > 10
    assert len(batches) > 1
    for encoding in ("lspe", "tape+erpe"):
        found, seen = start(encoding)
        for name, tensor in weights.items():
            assert torch.equal(found[name], tensor), name
        assert len(seen) == len(batches)
        assert all(map(torch.equal, seen, batches))
    other, seen = start("none", 2)
    assert any(not torch.equal(other[name], weights[name]) for name in weights)
    assert not torch.equal(seen[0], batches[0])
