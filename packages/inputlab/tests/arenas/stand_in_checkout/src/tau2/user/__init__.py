"""Stand-in for a package of tau2; see `tau2.data_model.message`."""
