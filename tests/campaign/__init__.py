"""The campaign: many nasty cases against independent answers; `make campaign` runs it in full, `make test` a slice."""
