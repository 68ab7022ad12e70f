"""How people are told: what a message says, one file per channel, and one loop that delivers."""
