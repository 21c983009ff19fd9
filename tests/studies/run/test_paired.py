"""A study is paired: under one seed encodings meet the same weights and the same batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tsformer import TSTransformerClassifier
from tsformer.data import load_dataset
from tsformer.training import Callback, TrainingState

ENCODINGS = ["fixed", "learnable", "lspe", "tape", "rope", "erpe", "alibi", "tape+erpe"]


class Start(Callback):
    """Keeps the weights before the first step, and the order of the series in the first epoch."""

    def on_train_begin(self, state: TrainingState) -> None:
        named = state.model.state_dict().items()
        self.weights = {
            name: tensor.clone() for name, tensor in named if "encoding" not in name.split(".")
        }
        state.model.get_submodule("stem").register_forward_pre_hook(self._see)
        self.batches: list[Tensor] = []

    def _see(self, module: Any, arguments: tuple[Any, ...]) -> None:
        if module.training:
            self.batches.append(arguments[0].clone())


def start(encoding: str, seed: int) -> Start:
    X, y = load_dataset("BasicMotions", split="train")
    seen = Start()
    TSTransformerClassifier(
        encoding, d_model=8, n_heads=2, n_layers=1, max_epochs=1, random_state=seed,
        callbacks=[seen],
    ).fit(X, y)  # fmt: skip
    return seen


@pytest.fixture(scope="module")
def none() -> Start:
    return start("none", 1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_one_seed_is_one_start_for_all_encodings(encoding: str, none: Start) -> None:
    found = start(encoding, 1)
    assert none.weights.keys() <= found.weights.keys()
    assert len(none.weights) > 10
    for name, tensor in none.weights.items():
        assert torch.equal(found.weights[name], tensor), name
    assert len(found.batches) == len(none.batches) > 1
    for one, other in zip(found.batches, none.batches, strict=True):
        assert torch.equal(one, other)


def test_another_seed_is_another_start(none: Start) -> None:
    other = start("none", 2)
    assert any(not torch.equal(other.weights[name], none.weights[name]) for name in none.weights)
    assert not torch.equal(other.batches[0], none.batches[0])
