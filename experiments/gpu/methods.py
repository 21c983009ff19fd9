"""The training loops that the benchmark compares: ours, and a plain one.

Models have width 64 and two blocks with hidden layers of 128; heads, batch size, epochs and series
are the case's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

WIDTH, HIDDEN, LAYERS, CLASSES = 64, 128, 2, 4

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """Random series ``[n, C, L]`` and how long to train on them."""

    n: int
    n_channels: int
    length: int
    epochs: int
    batch: int = 16
    heads: int = 4

    def data(self) -> tuple[Values, npt.NDArray[np.int64]]:
        """Return the series, the same for every method, and a label for each."""
        generator = np.random.default_rng(0)
        X = generator.standard_normal((self.n, self.n_channels, self.length), dtype=np.float32)
        return X, np.arange(self.n) % CLASSES

    @property
    def label(self) -> str:
        return f"{self.n}x{self.n_channels}x{self.length}"


class Method(Protocol):
    """A classifier; `predict_proba` returns one row per series."""

    def fit(self, X: Values, y: npt.NDArray[np.int64]) -> Any: ...

    def predict_proba(self, X: Values) -> Any: ...


def tsformer_default(case: Case, device: str) -> Method:
    from tsformer import TSTransformerClassifier

    return TSTransformerClassifier(
        **{"d_model": WIDTH, "d_ff": HIDDEN, "n_layers": LAYERS, "n_heads": case.heads},
        **{"max_epochs": case.epochs, "batch_size": case.batch, "early_stopping": False},
        device=device,
        random_state=0,
    )


def tsformer_linear(case: Case, device: str) -> Method:
    """The architecture of the plain loop: one token per step, a sinusoid, post-norm."""
    model: Any = tsformer_default(case, device)
    return model.set_params(stem="linear", stem_params=None, encoding="fixed", norm_first=False)


class PlainLoop:
    """A network in the training loop of the notebooks: DataLoader, Adam, `.item()` every step."""

    def __init__(self, network: Callable[[int, int], Any], case: Case, device: str):
        self.network, self.case, self.device = network, case, device

    def _batches(self, X: Values, *targets: Any, shuffle: bool) -> Any:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        tensors = [torch.from_numpy(array) for array in (X, *targets)]
        return DataLoader(TensorDataset(*tensors), self.case.batch, shuffle=shuffle)

    def fit(self, X: Values, y: npt.NDArray[np.int64]) -> PlainLoop:
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.model = self.network(X.shape[1], X.shape[2]).to(self.device)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        loss_function = nn.CrossEntropyLoss()
        batches = self._batches(X, y, shuffle=True)
        self.model.train()
        self.losses: list[float] = []
        self.seconds: list[float] = []
        for _ in range(self.case.epochs):
            running, start = 0.0, time.perf_counter()
            for values, targets in batches:
                values, targets = values.to(self.device), targets.to(self.device)
                optimizer.zero_grad()
                loss = loss_function(self.model(values), targets)
                loss.backward()
                optimizer.step()
                running += loss.item()
            self.losses.append(running / len(batches))
            self.seconds.append(time.perf_counter() - start)
        return self

    def predict_proba(self, X: Values) -> Values:
        import torch

        self.model.eval()
        with torch.no_grad():
            batches = self._batches(X, shuffle=False)
            parts = [self.model(values.to(self.device)).softmax(-1).cpu() for (values,) in batches]
        return torch.cat(parts).numpy()


def plain_loop(case: Case, device: str) -> Method:
    """A sinusoid and post-norm blocks around `nn.MultiheadAttention` with its defaults."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, case.heads, 0.1, batch_first=True)
            self.feed_forward = nn.Sequential(
                nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Dropout(0.1), nn.Linear(HIDDEN, WIDTH)
            )
            self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            attended, _ = self.attention(x, x, x)
            x = self.norm_1(x + self.dropout(attended))
            return self.norm_2(x + self.dropout(self.feed_forward(x)))

    class Network(nn.Module):
        def __init__(self, n_channels: int, length: int):
            super().__init__()
            self.project = nn.Linear(n_channels, WIDTH)
            rate = torch.exp(torch.arange(0, WIDTH, 2) * (-np.log(10000.0) / WIDTH))
            angle = torch.arange(length)[:, None] * rate
            self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
            self.dropout = nn.Dropout(0.1)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.dropout(self.project(x.transpose(1, 2)) + self.table)
            return self.head(self.blocks(x).mean(1))

    return PlainLoop(Network, case, device)


METHODS: dict[str, Callable[[Case, str], Method]] = {
    "tsformer": tsformer_default,
    "tsformer, linear stem": tsformer_linear,
    "plain loop": plain_loop,
}
