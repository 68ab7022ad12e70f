"""Money: what is spent, set aside and left."""
