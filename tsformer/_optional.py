"""Import an optional library, or name the extra that installs it."""

import importlib
from types import ModuleType

__all__ = ["require"]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise an ImportError that names the extra to install.

    Parameters
    ----------
    module : str
        Dotted name of the module, such as ``"matplotlib.figure"``.
    extra : str
        The extra of this package that installs it, such as ``"plots"``.
    purpose : str
        What needs it, as the subject of the error message: ``"drawing a figure"``.

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
            raise  # the library is installed but broken: its own error is more informative
        raise ImportError(
            f"{purpose} needs {library}, which is not installed; install it with: "
            f'pip install "tsformer[{extra}]"'
        ) from error
