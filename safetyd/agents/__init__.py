"""What agents use: proposals, telemetry, permission requests and claims, and the emergency stop.

Other packages import `emergency_stop`, its reserve file, and the configuration structs.
"""
