"""Devices by name."""

import difflib

import torch

from tsformer._checks import shortened


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
        why_not = _why_not(device, error)
        choose = " Choose" if why_not.endswith("?") else "; choose"
        raise ValueError(
            f"device {shortened(device)} cannot be used here: {why_not}{choose} from: "
            f"{', '.join(map(repr, _devices_here()))}"
        ) from error
    return found


def _devices_here() -> list[str]:
    """Return the valid values of `device` on this machine."""
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = ["cuda", *(f"cuda:{i}" for i in range(n_gpus) if n_gpus > 1)] if n_gpus else []
    others = ["mps"] if torch.backends.mps.is_available() else []
    return ["auto", "cpu", *gpus, *others]


def _why_not(device: object, error: Exception) -> str:
    """Explain why a device cannot be used."""
    if not isinstance(device, (str, torch.device)):
        return f"a device is named by a string, not by {type(device).__name__}"
    kind = str(device).partition(":")[0].strip().lower()
    near = difflib.get_close_matches(kind, (*_MISSING, "cpu"), n=1, cutoff=0.7)
    meant = _ALSO_CALLED.get(kind, near[0] if near else "")
    missing = "" if meant in _devices_here() else _MISSING.get(meant, "")
    if not meant or str(device).startswith(meant):
        return missing or str(error).splitlines()[0][:100]
    return f"did you mean {meant!r}?" + (f" That is not there either: {missing}" if missing else "")


#: Common names of devices, and PyTorch's names.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "hip": "cuda", "metal": "mps"}
#: Reasons for a missing device.
_MISSING = {
    "cuda": f"PyTorch {torch.__version__} sees no GPU of NVIDIA or AMD",
    "mps": f"PyTorch {torch.__version__} sees no GPU of Apple",
}
