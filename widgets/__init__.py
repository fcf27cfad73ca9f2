"""The course's widgets: one folder each, with its `experiment.py`, its Catalan `labels.toml` and an optional view."""
