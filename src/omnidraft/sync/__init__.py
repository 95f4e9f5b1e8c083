"""Share adapters, n-gram caches and traces between devices and a training side (spec/15-sync.md).

Begin with push.py and pull.py, the side of a device, and publish.py, the training side. store.py is the
store, channel.py its names, release.py and push_record.py the records, installed.py the files on a device.
"""
