"""Services for agents: proposals, telemetry, permission requests, claims, and emergency stops.

Other packages import `emergency_stop`, `stop_reserve` and the configuration structs.
"""
