"""From the arguments of a command line to values."""

import ast
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tsformer._files import check_output


def option(help_text: str, metavar: str | None = None, *flags: str, **options: Any) -> Any:
    """Describe an option of a command."""
    return typer.Option(*flags, metavar=metavar, help=help_text, **options)


def argument(help_text: str, metavar: str | None = None) -> Any:
    """Describe an argument of a command."""
    return typer.Argument(metavar=metavar, help=help_text)


def with_groups(
    command: Callable[..., None], groups: dict[str, Callable[..., Any]]
) -> Callable[..., None]:
    """Replace parameters named as a group by its options, and their values by its result."""
    options = {
        name: _typed(groups[name]) for name in inspect.signature(command).parameters & groups.keys()
    }

    @functools.wraps(command)
    def grouped(**arguments: Any) -> None:
        for name, parameters in options.items():
            values = {option.name: arguments.pop(option.name) for option in parameters}
            arguments[name] = groups[name](**values)
        command(**arguments)

    # Typer reads the signature, in which the annotations of the commands are text.
    parameters = [p for typed in _typed(command) for p in options.get(typed.name, [typed])]
    grouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    grouped.__annotations__ = {p.name: p.annotation for p in parameters}
    return grouped


def _typed(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function with evaluated annotations."""
    late = {"TableSchema": Any}  # imported where it is used
    hints = get_type_hints(function, localns=late, include_extras=True)
    signature = inspect.signature(function).parameters.values()
    return [p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature]


Set = Annotated[
    list[str], option("A parameter, as stem=linear; repeatable.", "NAME=VALUE", "--set")
]
AllowImport = Annotated[bool, option("Import classes such as mine.Log.", None, "--allow-import")]


def names(text: str) -> tuple[str, ...]:
    """Split ``"a,b"`` at the commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def allow_imports(paths: Iterable[str], *, allowed: bool) -> None:
    """Let classes of this folder be imported; ValueError for any path unless that is allowed."""
    for path in () if allowed else paths:
        raise ValueError(f"{path!r} is code that would be run: add --allow-import if you trust it")
    if allowed:
        sys.path.append(os.getcwd())


def import_allowed(texts: Iterable[str], *, allowed: bool) -> None:
    """Import encodings that are paths of classes; ValueError unless that is allowed."""
    from tsformer import baselines, encodings

    for text in texts:
        terms = map(str.strip, text.split("+"))
        paths = [term for term in terms if "." in term and term not in encodings.names()]
        allow_imports(paths, allowed=allowed)
        baselines.import_encodings(text)


def output(path: Path, inputs: Iterable[Path] = (), *, ending: str = "") -> Path:
    """Return the file to write; raise before any work if it cannot be written."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    path = path if path.suffix else path.with_suffix(ending)
    check_output(path, inputs)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path}; create it first")
    return path


def seeds(text: str) -> tuple[int, ...]:
    """Read a number of seeds, ``"3"`` for 0, 1, 2, or the seeds, ``"0,5"`` or ``"7,"``."""
    numbers = tuple(int(number) if number.isdecimal() else -1 for number in names(text))
    values = numbers if "," in text else tuple(range(max(numbers, default=0)))
    if not values or min(numbers) < 0:
        raise ValueError(f"--seeds takes a number, as in 3, or seeds, as in 0,1,2; got {text!r}")
    return values


def settings(pairs: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; a value is a Python literal or else a string.

    ``encoding_params.d_hidden=32`` sets one entry of a dict.
    """
    params: dict[str, Any] = {}
    for path, text in _pairs("--set", pairs, "stem=linear"):
        name, dot, entry = path.partition(".")
        into, key = (params.setdefault(name, {}), entry) if dot else (params, name)
        into[key] = value(text)
    return params


def varied(pairs: list[str]) -> dict[str, list[Any]]:
    """Read ``name=a,b`` pairs: the values that each of these parameters takes."""
    vary: dict[str, list[Any]] = {}
    for name, text in _pairs("--vary", pairs, "stem=conv,linear"):
        if name in vary:
            raise ValueError(f"--vary names {name!r} twice; give all its values at once")
        listed = value(f"[{text}]")
        vary[name] = listed if isinstance(listed, list) else [*map(value, names(text))]
    return vary


def _pairs(flag: str, pairs: list[str], example: str) -> Iterator[tuple[str, str]]:
    """Split ``name=text``."""
    for pair in pairs:
        name, equals, text = map(str.strip, pair.partition("="))
        if not name or not equals or (flag == "--vary" and not text.strip(" ,")):
            raise ValueError(f"{flag} takes name=value, as in {flag} {example}; got {pair!r}")
        yield name, text


def value(text: str) -> Any:
    """Read a Python literal, or else a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
