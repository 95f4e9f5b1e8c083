"""The experiments of docs/results.md: cached answers of the targets, arms as data, one JSON file a result."""
