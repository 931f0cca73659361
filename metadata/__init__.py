"""The metadata log on disk in Kafka's format: lock, recover, read, write.

Calls block on the disk.
"""
