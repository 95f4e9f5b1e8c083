"""The page docs/results.md, written from the results: `python -m benchmarks.experiments.report`.

The text is page.md; gain_tables.py, other_tables.py and rate_table.py make its tables, plots.py its pictures.
Begin with __main__.py.
"""
