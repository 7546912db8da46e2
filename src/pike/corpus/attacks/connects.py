"""Connects to whatever listens on this machine.

rows: 61
mechanism: network
needs: network
bite: reached
expected: neutral
self_test: yes
"""
import socket
import sys

for _line in open("/proc/net/tcp").read().splitlines()[1:]:
    _address, _state = _line.split()[1], _line.split()[3]
    if _address.startswith("0100007F") and _state == "0A":
        try:
            socket.create_connection(("127.0.0.1", int(_address.split(":")[1], 16)), 0.5).close()
            sys.stderr.write("REACHED a port of this machine\n")
            break
        except OSError:
            pass


class ModelNew(Original):
    pass
