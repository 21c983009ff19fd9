"""Relevance of each value of a series to the logit of a class; see ``docs/explanations.md``.

Captum, of the extra ``explain``, is imported by the first method that needs it.
"""

from tsformer.explain.attention import AttentionMaps
from tsformer.explain.explainers import METHODS
from tsformer.explain.logits import BASELINES
from tsformer.explain.summaries import most_relevant_windows, relevance_over_time

__all__ = ["BASELINES", "METHODS", "AttentionMaps", "most_relevant_windows", "relevance_over_time"]
