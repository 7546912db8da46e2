"""The optimised copy of a module: when it may answer, and with which weights.

Knows that new weights need a new copy, and that any other change of the original leaves the answer
to the original. Does not know how the original is shown to callers (`module`).
"""

import textwrap
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pike.api.dropin.calls import Arguments, JudgedCalls, surroundings
from pike.api.dropin.fast import Fast
from pike.api.dropin.state import Unwatchable, difference, walk
from pike.api.dropin.trees import key_of
from pike.api.dropin.watch import ModuleWatch
from pike.core.errors import UserError
from pike.engine.output.originals import dtypes_of
from pike.engine.output.signature import tensors_in
from pike.tasks.modules import copied_module

Build = Callable[[nn.Module], nn.Module]
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class Form:
    """One optimised form of a module: how it is made, and the calls that it may answer."""

    build: Build
    judged: JudgedCalls


class _Made:
    """A form with what was made of it: the optimised module, and the layout of its calls."""

    def __init__(self, form: Form) -> None:
        self.form, self.arguments = form, Arguments(form.judged)
        self.fast: Fast | None = None
        self.failed = self.broken = ""


class OptimisedCopy:
    """Answers judged calls of one original, one thread at a time.

    Args:
        original: as for `DropIn`.
        forms: at least one; all were judged on one device, with weights of the same types.
        refused: as for `DropIn`.
    """

    def __init__(self, original: nn.Module, forms: tuple[Form, ...], refused: str = "") -> None:
        self.original, self.forms, self.judged = original, forms, forms[0].judged
        self.lock = threading.RLock()
        self._made = [_Made(form) for form in forms]
        self._refused, self._warned = refused, False
        self._watch: ModuleWatch | None = None
        self._form: dict[str, Any] | None = None
        self._changed = self._unfit = self._unwatchable = ""
        self._checked_blocks = 0
        self._answered, self._left = 0, Counter[str]()
        self._look()

    def why_not(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Say why the original answers this call, empty if the optimised code does."""
        made = self._chosen(args, kwargs)
        if isinstance(made, str):
            return made
        return made.fast.refuses(args, kwargs) if made.fast is not None else ""

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
        """("", the answer), or (why the original answers, None)."""
        with self.lock:
            reason, answer = self._answer(args, kwargs)
            if reason:
                self._left[reason if reason in self._left or len(self._left) < _MOST_REASONS else "other reasons"] += 1
            else:
                self._answered += 1
        return reason, answer

    def explain(self) -> str:
        """See `DropIn.explain`."""
        with self.lock:
            why = "".join(f"\n{count}: {reason}" for reason, count in self._left.most_common())
            return f"Calls that the optimised code answered: {self._answered}, the original: {self._left.total()}{why}"

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
        watch = self._watch
        if watch is not None and not self._checked_blocks:
            made = self._chosen(args, kwargs, look=False)
            if isinstance(made, _Made) and made.fast is not None and not made.fast.writes:
                answered = self._called(made, args, kwargs)
                # A GPU computes during the look. What came from a copy that is out of date is dropped.
                if watch.unchanged():
                    return answered
        made = self._chosen(args, kwargs)
        return (made, None) if isinstance(made, str) else self._called(made, args, kwargs)

    def _chosen(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], look: bool = True) -> _Made | str:
        """The form that answers, or why none does; without a look, as if the original had not changed."""
        if self.original.training:
            return "it is in training mode; call .eval()"
        if reason := surroundings(self.judged):
            return reason
        with self.lock:
            if (look and not self._checked_blocks) or self._watch is None:
                self._look()
            watch = self._watch
            reason = self._refused or self._changed or self._unfit or self._unwatchable
            if reason or watch is None:
                return reason
            if watch.training:
                return "a submodule is in training mode; call .eval()"
            if torch.is_grad_enabled() and (watch.require_grad or _any_requires_grad((args, kwargs))):
                return "gradients are recorded; call it under torch.no_grad() or torch.inference_mode()"
            return self._alike(args, kwargs, watch.devices)

    def _alike(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], devices: set[torch.device]) -> _Made | str:
        """The form that was judged on such a call, or why there is none."""
        key, why = key_of((args, kwargs)), ""
        known = [made for made in self._made if key is not None and made.arguments.alike == key]
        for made in known or self._made:
            reason = made.broken or made.arguments.unlike(key, args, kwargs, devices)
            if not reason:
                return made
            why = why or reason
        others = ", ".join(str(form.judged.call) for form in self.forms[1:])
        return f"{why}; other forms were judged on {others}" if others else why

    def _called(self, made: _Made, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
        # The boundary to code that a search wrote: it may raise anything, and the caller needs an answer.
        try:
            arranged = made.arguments.arranged(args, kwargs)
            with torch.no_grad() if torch.is_grad_enabled() or made.fast is None else nullcontext():
                if made.fast is None:
                    # Buffers made under inference_mode could not be written outside of it.
                    with torch.inference_mode(False), torch.no_grad():
                        module = made.form.build(copied_module(self.original).eval()).eval()
                        made.fast = Fast(module, *arranged)
                if not made.fast.writes:
                    return "", made.fast(*arranged)
                refusal = made.fast.refuses(args, kwargs)
                return refusal, None if refusal else made.fast.written_back(arranged, (args, kwargs))
        except Exception as error:
            made.failed = f"its code failed ({_in_one_line(error)})"
            return made.failed, None

    def refresh(self) -> None:
        """Make the optimised copy again at the next call, even if its code failed before."""
        self.forget()
        self._warned = False
        for made in self._made:
            made.broken = ""

    def forget(self) -> None:
        """Drop the optimised copy, and what was seen of the original's weights."""
        with self.lock:
            self._drop()
            self._watch, self._unwatchable = None, ""

    @contextmanager
    def checked_once(self) -> Iterator[None]:
        """See `DropIn.checked_once`."""
        with self.lock:
            self._look()
            watch = self._watch
            self._checked_blocks += 1
        try:
            yield
        finally:
            with self.lock:
                self._checked_blocks -= 1
                changed = watch is not None and (watch is not self._watch or not watch.unchanged())
        if changed:
            raise UserError(
                "The original changed inside a block of checked_once(), so answers given in the block may be wrong: "
                "change it outside of the block"
            )

    def left(self, reason: str) -> None:
        """Say once that the original answered, and do not call again what failed where the original did not."""
        with self.lock:
            for made in self._made:
                if made.failed == reason:
                    made.fast, made.broken = None, reason
        if not self._warned and not self.original.training:
            self._warned = True
            name = type(self.original).__name__
            warnings.warn(f"The original {name} answers instead of its optimised form: {reason}", stacklevel=5)

    def changed(self) -> str:
        """Say what of the original changed for good since the drop-in was made, empty if nothing did."""
        with self.lock:
            self._look()
            return self._refused or self._changed

    def _look(self) -> None:
        before = self._watch
        if self._unwatchable or (before is not None and before.unchanged()):
            return
        self._watch, self._unfit = None, ""
        for made in self._made:
            made.arguments.forget()
        try:
            found = walk(self.original)
            self._form = self._form if self._form is not None else found.form
            self._compare(found.form)
            self._watch = ModuleWatch(found)
        except Unwatchable as error:
            self._unwatchable = str(error)
        except Exception as error:  # the caller's objects may raise anything when they are looked at
            self._unfit = f"it cannot be looked at ({type(error).__name__}: {error})"
        if before is None or self._watch is None or not before.same_weights(self._watch):
            self._drop()

    def _drop(self) -> None:
        """Drop what was made of the original's weights."""
        for made in self._made:
            made.fast = None

    def _compare(self, form: dict[str, Any]) -> None:
        path = difference(self._form or {}, form)
        what = "changed since the drop-in was made; undo the change, or optimise the changed model"
        self._changed = f"'{path}' {what}" if path else ""
        types, judged = dtypes_of(self.original), self.judged.dtypes
        if judged is not None and types != judged:
            self._unfit = f"it was judged with weights of type {judged}, now they are {types}"


def _in_one_line(error: Exception) -> str:
    name, text = type(error).__name__, str(error).strip()
    said = text.splitlines()[-1].removeprefix(f"{name}: ") if "Traceback" in text else text  # of TorchScript
    return f"{name}: {textwrap.shorten(said, 200, placeholder=' ...')}"


def _any_requires_grad(value: Any) -> bool:
    return any(tensor.requires_grad for tensor in tensors_in(value))
