"""Puts this folder on the path, so that tests in the folders below it find `small_problem`."""
