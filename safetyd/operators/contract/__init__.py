"""Questions and commands of operators, each declared once, with the structs of their answers.

A declaration is the message itself: its tag is its name, its docstring its help. `question.py`
has the base classes and `safetyd/operators/declarations.py` the list of all. Every room above may
import this package; it knows nothing of the engine.
"""
