"""The queries and commands of operators, each declared once, with the structs of their answers.

A declaration is the message itself: its tag is its name and its docstring is its help.
`question.py` has the base classes, `safetyd/operators/declarations.py` the complete list. This
package does not import the engine.
"""
