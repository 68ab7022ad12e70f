class Down(Exception):
    """Nobody can be asked; the text says why and what to do."""


class Lost(Down):
    """The connection broke after something was sent on it."""


class Unheard(Down):
    """The server found nobody who listens."""
