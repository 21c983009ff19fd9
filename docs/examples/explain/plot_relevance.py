"""
Which values decided the class?
===============================

``explain`` gives each value a relevance: how much it speaks for the predicted class. In this
generated problem the answer is known: the class is in one window of the first channel, a sine that
starts upwards or downwards. The rest is noise.
"""

from tsformer import TSTransformerClassifier
from tsformer.data import make_window_task
from tsformer.explain import most_relevant_windows
from tsformer.plots import plot_relevance

X, y, decisive = make_window_task(160, random_state=0)
classifier = TSTransformerClassifier(
    d_model=8, n_heads=2, n_layers=1, max_epochs=30, learning_rate=0.01, random_state=0
)
classifier.fit(X[:120], y[:120])
print(f"accuracy {classifier.score(X[120:], y[120:]):.2f}")

# %%
# Relevance has the shape of the series, and adds up to the change of the logit from a series of
# channel means. :doc:`/explanations` compares the methods.

case = 121
relevance = classifier.explain(X[case : case + 1])[0]
print("most relevant:", most_relevant_windows(relevance, 1, width=8))
print("the window is at steps", decisive[case, 0].nonzero()[0][[0, -1]])

label = classifier.predict(X[case : case + 1])[0]
figure = plot_relevance(X[case], relevance, title=f"why the class is {label}")
figure
