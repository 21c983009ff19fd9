"""Devices by name."""

import torch

from tsformer._checks import shortened


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the specified device; "auto" is cuda if available, else mps, else cpu."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
        if resolved.type == "meta":
            raise RuntimeError("tensors on it have no values")
    # torch raises any of these errors for a missing device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"device {shortened(device)} cannot be used here: {str(error).splitlines()[0][:100]}; "
            "choose 'auto', 'cpu', or a GPU that PyTorch sees"
        ) from error
    return resolved
