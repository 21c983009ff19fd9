"""Import an optional library, or name the extra that installs it."""

import importlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise an ImportError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is installed but broken: its own error is more informative
        raise ImportError(
            f"{purpose} needs {library}, which is not installed; install it with: "
            f"{install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra."""
    package = "tsformer"
    try:
        distribution(package)
    except PackageNotFoundError:  # not installed, and on no package index: name the folder
        package = str(Path(__file__).parents[1])
    return f'pip install "{package}[{extra}]"'
