"""Building blocks of experiments on the host: `builders` starts paired workers as processes."""
