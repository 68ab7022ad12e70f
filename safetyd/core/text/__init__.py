"""Text: folding and matching agents' words, and showing words and times safely.

Guards import it, and so does every module that shows an agent's words or a time.
"""
