"""Devices and their training side share adapters, n-gram caches and traces through a store; spec/sync.md."""
