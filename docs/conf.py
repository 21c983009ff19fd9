"""The site: `make docs` builds it into docs/_build/html, with warnings as errors."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `tools`, and tsformer of this checkout

# MLflow's log and bars would be outputs of the gallery.
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import tsformer
from tools import site

# autodoc looks at every attribute, names that were replaced among them.
warnings.filterwarnings("ignore", category=FutureWarning, module="sphinx")
# Pages show warnings of examples without paths of the machine that built them.
warnings.formatwarning = lambda text, kind, *_: f"{kind.__name__}: {text}\n"

project = "tsformer"
author = "tsformer developers"
copyright = f"2026, {author}"
version = release = tsformer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
autosummary_generate = True
autosummary_context = {"ordered_members": site.members}
suppress_warnings = ["config.cache"]  # the context has a function
autosummary_ignore_module_all = False
exclude_patterns = [
    "_build",
    "_templates",
    "examples",
    "gallery/**.ipynb",
    "gallery/**.py",
    "gallery/**.json",
]
default_role = "code"  # `x` in docstrings
smartquotes = False  # quotes in docstrings are code
toc_object_entries_show_parents = "hide"

# Links into other libraries' documentation need their inventories, which a build without network
# cannot fetch and no package ships in a version that is used here: with the variable alone.
if os.environ.get("TSFORMER_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", None),
    "pandas": ("https://pandas.pydata.org/docs/", None),
    "python": ("https://docs.python.org/3/", None),
    "sklearn": ("https://scikit-learn.org/stable/", None),
    "sktime": ("https://www.sktime.net/en/stable/", None),
    "torch": ("https://docs.pytorch.org/docs/stable/", None),
}
intersphinx_timeout = 20

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "none"  # the docstrings have types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = "sphinx.ext.intersphinx" in extensions

#: Folders of the gallery, in its order.
GROUPS = ("fit", "data", "trust", "explain", "encodings")
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "image_scrapers": ("tools.site.figures",),
    "capture_repr": (),
    "first_notebook_cell": "%matplotlib inline",  # shows figures that pyplot does not know
    "subsection_order": [f"examples/{group}" for group in GROUPS],
    "parallel": True,  # as many programs at once as Sphinx has jobs
    "reset_modules": ("matplotlib", "tools.site.one_thread"),
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # seconds of the machine that built the page
    "abort_on_example_error": True,
    "thumbnail_size": (560, 392),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("tsformer",),
    "download_all_examples": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "tsformer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "tsformer"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Without a section there is nothing to navigate in.
_ALONE = (
    *("index", "get_started", "encodings", "how_it_works", "faq", "changelog", "contributing"),
    "gallery/index",
)
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}


def setup(app: Any) -> None:
    # Before Sphinx looks for pages.
    environment = Path(app.doctreedir) / "environment.pickle"
    app.connect(
        "config-inited", lambda app, config: site.write_api(Path(app.srcdir) / "api", environment)
    )
    app.connect("config-inited", lambda app, config: site.draw_encodings(Path(app.srcdir)))
    app.connect("source-read", site.read)
    app.connect("autodoc-skip-member", site.skip_foreign)
    app.connect("autodoc-process-docstring", site.describe_data)
    app.connect("autodoc-process-docstring", site.group_parameters)
