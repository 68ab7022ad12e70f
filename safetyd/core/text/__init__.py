"""Text: folding and matching of agents' words; safe display of words and times for people.

Guards import it, and every module that shows words of an agent or a time.
"""
