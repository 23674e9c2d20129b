"""The columnar trace model: arrays with fixed meaning and no behaviour."""
