"""Compare: what another run takes more or less than that of this tab."""
