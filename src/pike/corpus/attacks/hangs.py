"""Never returns and ignores every signal that can be ignored.

rows: 59
seen: emmy 215, KernelBench PR 164
mechanism: time
timeout: 5
bite: hangs
expected: timeout
self_test: yes
"""
import signal


class ModelNew(Original):
    def forward(self, x):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            signal.pause()
