"""The NPU pane: pictures over time and by kind, and tables beside them."""
