"""What the words and paths of an action say."""
