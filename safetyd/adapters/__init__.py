"""Guards for agents that are written with a framework.

Each module is for one framework and needs its package. It guards the place where the framework
runs tools, so that no tool can be forgotten. Import only the module that you need; the packages of
other frameworks need not be installed.
"""
