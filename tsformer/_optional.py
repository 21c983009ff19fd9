"""Import a library that only some features need, or say which extra installs it."""

import importlib
from types import ModuleType

__all__ = ["require"]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise an ImportError that names the extra to install.

    Parameters
    ----------
    module : str
        Dotted name of the module, as in ``"matplotlib.figure"``.
    extra : str
        The extra of this package that brings it, as in ``"plots"``.
    purpose : str
        What needs it, to open the error message: ``"drawing a figure"``.

    Raises
    ------
    ImportError
        If the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is there and broken: its own error says more than ours
        raise ImportError(
            f"{purpose} needs {library}, which is not installed; install it with: "
            f'pip install "tsformer[{extra}]"'
        ) from error
