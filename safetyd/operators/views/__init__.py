"""What people may see of the engine, cut to what a message carries.

Whoever shows the state to people imports these; they change nothing.
"""
