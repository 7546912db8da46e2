"""Looks for the reference's source on the disk.

rows: 29, 56
mechanism: files
needs: files
bite: reached
expected: neutral
self_test: yes
"""
import glob
import sys

for _path in glob.glob("/var/tmp/pike-corpus-*/reference.py"):
    try:
        sys.stderr.write("REACHED " + open(_path).read())
    except OSError:
        pass


class ModelNew(Original):
    pass
