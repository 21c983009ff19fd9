"""The API reference has every public class and function."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import tsformer
from tools import api_pages

PAGES = api_pages.pages()
PACKAGES = [
    name
    for _, name, is_package in pkgutil.walk_packages(tsformer.__path__, "tsformer.")
    if is_package and name != "tsformer.cli" and hasattr(import_module(name), "__all__")
]


@pytest.mark.parametrize("package", ["tsformer", *PACKAGES])
def test_every_name_has_a_page(package: str) -> None:
    listed = PAGES[f"{package}.rst"]
    for name in import_module(package).__all__:
        home = api_pages.homes()[f"{package}.{name}"]
        assert f":doc:`{name} <{home}>`" in listed
        assert f"{name}\n{'=' * len(name)}\n" in PAGES[f"{home}.rst"]
    assert f"   {package}\n" in PAGES["index.rst"].partition(".. toctree::")[2]


def test_there_are_packages() -> None:
    assert {"tsformer.encodings", "tsformer.plots", "tsformer.studies"} < set(PACKAGES)
    assert sum(".. autoclass::" in text for text in PAGES.values()) > 60
    assert sum(".. autofunction::" in text for text in PAGES.values()) > 50


def test_an_object_has_one_page_where_its_path_is_shortest() -> None:
    homes = api_pages.homes()
    classifier = "TSTransformerClassifier"
    assert homes[f"tsformer.estimators.{classifier}"] == f"tsformer.{classifier}"
    assert f"tsformer.estimators.{classifier}.rst" not in PAGES
    # Of the same name, and not the same.
    assert homes["tsformer.encodings.available"] != homes["tsformer.augmentation.available"]


def test_inherited_methods_are_there_and_those_of_other_libraries_are_not() -> None:
    page = PAGES["tsformer.TSTransformerClassifier.rst"]
    for method in ("fit", "predict", "predict_proba", "explain", "save", "calibrate"):
        assert f".. automethod:: TSTransformerClassifier.{method}\n" in page
    assert "automethod:: TSTransformer.state_dict" not in PAGES["tsformer.TSTransformer.rst"]


def test_pages_that_did_not_change_are_not_written_again(tmp_path: Path) -> None:
    api_pages.write(tmp_path)
    page, old = tmp_path / "tsformer.load.rst", tmp_path / "tsformer.gone.rst"
    old.write_text("no longer public", encoding="utf-8")
    before = page.stat().st_mtime_ns
    api_pages.write(tmp_path)
    assert page.stat().st_mtime_ns == before
    assert not old.exists()
