"""Schedules of the intents of users, as the configuration group `intent`. Imports interfaces, config, tensor."""
