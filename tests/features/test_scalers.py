"""Scaling of dense features and of sparse counts."""

from __future__ import annotations

import torch

from tsformer.features.random_convolutions import SparseScaler, StandardScaler


def test_a_constant_feature_is_0():
    x = torch.full((30, 1), 0.1)
    assert StandardScaler().fit(x)(x).abs().max() < 1e-6


def test_counts_are_scaled_as_defined():
    x = torch.tensor([[4.0, 0.0], [9.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    root = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    zeros = torch.tensor([0.5, 0.75])
    wanted = (root - root.mean(dim=0)) / (root.std(dim=0, correction=0) + zeros**4 + 1e-8)
    torch.testing.assert_close(SparseScaler().fit(x)(x), wanted.where(root > 0, 0.0))


def test_a_count_that_training_did_not_have_stays_small():
    scaler = SparseScaler().fit(torch.zeros(10, 1))
    assert scaler(torch.full((1, 1), 4.0)).item() == 2
