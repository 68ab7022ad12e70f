"""How often agents may propose."""
