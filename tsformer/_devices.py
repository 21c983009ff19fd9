"""Devices by name."""

import difflib

import torch

from tsformer._checks import shortened

#: Common names of devices, and PyTorch's names.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "hip": "cuda", "metal": "mps"}
#: Reasons for a missing device.
_MISSING = {
    "cuda": f"PyTorch {torch.__version__} sees no GPU of NVIDIA or AMD",
    "mps": f"PyTorch {torch.__version__} sees no GPU of Apple",
}


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the specified device; "auto" is cuda if available, else mps, else cpu."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
        if found.type == "meta":
            raise RuntimeError("tensors on it have no values")
    # torch raises any of these errors for a missing device
    except (RuntimeError, AssertionError, TypeError) as error:
        n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        gpus = ["cuda", *(f"cuda:{i}" for i in range(n_gpus) if n_gpus > 1)] if n_gpus else []
        here = ["auto", "cpu", *gpus, *["mps"] * torch.backends.mps.is_available()]
        kind = str(device).partition(":")[0].strip().lower()
        near = difflib.get_close_matches(kind, (*_MISSING, "cpu"), n=1, cutoff=0.7)
        meant = _ALSO_CALLED.get(kind, near[0] if near else "")
        missing = "" if meant in here else _MISSING.get(meant, "")
        reason = missing or str(error).splitlines()[0][:100]
        given: object = device
        if not isinstance(given, (str, torch.device)):
            reason = f"a device is named by a string, not by {type(device).__name__}"
        elif meant and not str(device).startswith(meant):
            either = f"? That is not there either: {missing}" if missing else ""
            reason = f"did you mean {meant!r}{either}"
        raise ValueError(
            f"device {shortened(device)} cannot be used here: {reason}; choose from: "
            f"{', '.join(map(repr, here))}"
        ) from error
    return found
