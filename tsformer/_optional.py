"""Import an optional library, or name the extra that installs it."""

import importlib
import importlib.util
import shutil
import sys
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
    """Return the pip command that installs an extra into the running Python."""
    beside = Path(sys.executable).parent
    if importlib.util.find_spec("pip") is None:
        pip = f"uv pip install --python {sys.executable}"
    elif (found := shutil.which("pip")) and Path(found).parent == beside:
        pip = "pip install"
    else:
        pip = f"{sys.executable} -m pip install"
    home = Path(__file__).parents[1]
    try:
        distribution("tsformer")
    except PackageNotFoundError:
        return f'{pip} "{home}[{extra}]"'
    return f'{pip} "tsformer[{extra}]"'
