"""Returns empty tensors and fills them when an alarm rings, in the main thread and without any other.

rows: 3
devices: cpu
mechanism: snapshot of a poisoned output
bite: accepted
expected: wrong-output
"""
import signal


class ModelNew(Original):
    due = ()

    def forward(self, x):
        y = torch.full_like(x, float("nan"))
        self.due = (*self.due[-40:], (x, y))
        signal.signal(signal.SIGALRM, self.later)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        return y

    @torch.no_grad()
    def later(self, *_):
        due, self.due = self.due, ()
        for x, y in due:
            y.copy_(super().forward(x))
