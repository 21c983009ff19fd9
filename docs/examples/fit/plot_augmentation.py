"""
What training sees: augmentation
================================

In training, the default warps series in time and replaces a stretch by another series'. Prediction
uses the series unchanged. An augmentation is a function of a batch; here each is applied to the
same outline of a leaf. :doc:`/augmentation` has all of them.
"""

import matplotlib.pyplot as plt
import torch

from tsformer import load_dataset
from tsformer.augmentation import Batch, resolve

X, y = load_dataset("OSULeaf", split="train")
series = torch.tensor(X[[0, 60]], dtype=torch.float32).transpose(1, 2)  # [B, L, C]
options = {"warp": {}, "slice": {}, "cutmix": {}, "jitter": {"sigma": 0.3}}

figure, axes = plt.subplots(len(options), 1, figsize=(7, 9), sharex=True, layout="constrained")
for (name, params), ax in zip(options.items(), axes, strict=True):
    torch.manual_seed(0)
    changed = resolve(name, p=1.0, **params)(Batch(series, None, None, False)).values
    ax.plot(series[0, :, 0], color="0.6", linewidth=3, label="as it is")
    ax.plot(changed[0, :, 0], color="#D55E00", label="as training sees it")
    ax.set_title(name)
axes[0].legend(loc="lower right")
axes[-1].set_xlabel("step")
