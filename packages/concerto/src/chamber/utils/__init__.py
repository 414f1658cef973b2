"""What the rest of Chamber asks about the machine it runs on."""
