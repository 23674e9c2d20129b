"""What each kind of lane draws, what lies under the mouse on it, and its tooltips."""
