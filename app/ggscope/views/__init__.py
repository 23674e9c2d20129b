"""Windows onto a session, one file per view; views never call each other."""
