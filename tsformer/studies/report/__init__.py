"""A study's findings as text, tables and figures on one page."""
