"""From scores to findings: statistics, gains, costs, and the figures of each."""
