"""What a proposal touches, found once: its command, patches, paths and addresses.

Guards, cards and grants read these facts and do not search a proposal themselves.
"""
