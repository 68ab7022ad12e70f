"""`safetyd verify --rehearse`: runs a real host with a stand-in for its model, on loopback.

`rehearse.py` leads the conversation, `headless_hosts.py` says how each host is started, and
`model_stand_in.py` serves the APIs of the other modules. Tests of real hosts use them, too.
"""
