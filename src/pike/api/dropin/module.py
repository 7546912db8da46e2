"""A module that answers judged calls with the optimised code, and all others with the original.

Knows how to look like the original. Does not know when the optimised code answers (`optimised`).

The drop-in is an instance of the original's class. It shares the original's dictionaries of
parameters, buffers and submodules, so `state_dict`, `load_state_dict`, `parameters`, `.to()` and
`.train()` act on the original. Other attributes are read from the original and written to it. The
class's own methods, such as `generate`, call the drop-in. Hooks on the drop-in see every call.

The optimised copy follows changes of the original's weights. After any other change the original
answers (docs/concepts/drop-in.md has the whole list).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import update_wrapper
from types import FunctionType, new_class
from typing import Any

import torch
from torch import nn
from torch.fx import _symbolic_trace as fx

from pike.api.dropin.calls import JudgedCalls
from pike.api.dropin.optimised import Build, Form, OptimisedCopy
from pike.core.errors import UserError

_OWN = "_pike_copy"


class DropIn(nn.Module):
    """An optimised module in place of the original.

    Args:
        original: the module to stand in for; it is not copied.
        build: makes the optimised module from a private copy of the original.
        judged: the calls that the optimised module may answer.
        refused: why the original answers every call, empty if it need not.
        more: further optimised forms, for other calls.
    """

    def __new__(cls, original: nn.Module | None = None, *_: Any, **__: Any) -> DropIn:
        """Make an instance of the original's class too, so that `isinstance` and its methods work."""
        made: DropIn = object.__new__(cls if original is None else _class_for(type(original)))
        return made

    def __init_subclass__(cls) -> None:
        """Nothing: a class of the user may register its subclasses, and no drop-in belongs there."""

    def __init__(
        self, original: nn.Module, build: Build, judged: JudgedCalls, refused: str = "", more: tuple[Form, ...] = ()
    ) -> None:
        nn.Module.__init__(self)
        own = self.__dict__
        # The same dictionaries, not copies: whatever changes here changes there.
        own["_parameters"], own["_buffers"] = original._parameters, original._buffers
        own["_modules"] = original._modules
        own["_non_persistent_buffers_set"] = original._non_persistent_buffers_set
        own["training"] = original.training
        own["_compiled_call_impl"] = None
        own[_OWN] = OptimisedCopy(original, (Form(build, judged), *more), refused)

    __call__: Callable[..., Any] = nn.Module.__call__

    @property
    def original(self) -> nn.Module:
        """The module that this one stands in for."""
        return self._fast.original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a judged call with the optimised code, and any other with the original."""
        if torch.compiler.is_compiling() or torch._C._is_tracing() or fx._is_fx_tracing_flag:
            return _traced(self.original, self, args, kwargs)
        reason, answer = self._fast.answer(args, kwargs)
        if reason:
            answer = self.original(*args, **kwargs)  # what raises here too is the fault of the call, not of the code
            self._fast.left(reason)
        return answer

    def why_not(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Say why the original answers this call; empty if the optimised code does."""
        return self._fast.why_not(args, kwargs)

    def explain(self) -> str:
        """Say how many calls the optimised code answered, and why the original answered others."""
        return self._fast.explain()

    def refresh(self) -> None:
        """Make the optimised copy again at the next call, even if its code failed before."""
        self._fast.refresh()

    def checked_once(self) -> AbstractContextManager[None]:
        """Look for changes of the original before and after a block, instead of before each call.

        Raises:
            UserError: at the end of the block, if the original changed inside it.
        """
        return self._fast.checked_once()

    def train(self, mode: bool = True) -> DropIn:
        """Set the mode of the original; in training mode the original answers."""
        self.original.train(mode)
        self.__dict__["training"] = mode
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the original."""
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load into the original; the optimised copy follows at the next call."""
        result = self.original.load_state_dict(*args, **kwargs)
        self._fast.forget()
        return result

    def extra_repr(self) -> str:
        """The judged call and device."""
        judged = self._fast.judged
        calls = " and ".join(str(form.judged.call) for form in self._fast.forms)
        return f"judged on {calls} on {judged.gpu or judged.device}"

    def _apply(self, fn: Any, recurse: bool = True) -> DropIn:
        # .to(), .half(), .cuda(): weights may be new tensors on another device.
        apply: Any = self.original._apply
        apply(fn) if recurse else apply(fn, recurse)
        self._fast.forget()
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            # Any other attribute of the original, for example `.config`.
            return getattr(self.original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__" and issubclass(value, DropIn):  # as torch.nn.utils.parametrize does
            raise UserError("A drop-in cannot be parametrized: make the model again, and parametrize its .original")
        # What every module has of its own, hooks among it, stays here; the mode belongs to both.
        if name in self.__dict__ or name == "__class__":
            object.__setattr__(self, name, value)
        if name not in self.__dict__ or name == "training":
            setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> DropIn:
        original, *others = self._made_of()
        made = memo[id(self)] = DropIn(copy.deepcopy(original, memo), *others)
        made.__setstate__(copy.deepcopy(self._hooks(), memo))
        return made

    def __setstate__(self, hooks: dict[str, Any]) -> None:
        self.__dict__.update(hooks)

    def __prepare_scriptable__(self) -> nn.Module:
        return self.original  # torch.jit.script compiles the source of a class

    def __reduce_ex__(self, protocol: Any) -> Any:
        return DropIn, self._made_of(), self._hooks()

    def _hooks(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if "hook" in name}

    def _made_of(self) -> tuple[Any, ...]:
        fast = self._fast
        first, *others = fast.forms
        return fast.original, first.build, first.judged, fast.changed(), tuple(others)

    @property
    def _fast(self) -> OptimisedCopy:
        fast: OptimisedCopy = self.__dict__[_OWN]
        return fast


def _class_for(kind: type[nn.Module]) -> type[DropIn]:
    """A class of drop-ins that is a subclass of `kind` and looks like it; `DropIn` if that cannot be."""
    forward = FunctionType(DropIn.forward.__code__, DropIn.forward.__globals__)
    named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    named["forward"] = update_wrapper(forward, kind.forward)  # its signature is read, for example by transformers
    try:
        return new_class(kind.__name__, (DropIn, kind), exec_body=lambda body: body.update(named))
    except Exception:  # a class may refuse subclasses in any way
        return DropIn


def _traced(original: nn.Module, dropin: DropIn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The original's answer for a tracer: its code runs on the drop-in, whose submodules have the tracer's names."""
    special = "forward" in vars(original) or original._forward_hooks or original._forward_pre_hooks
    if special or isinstance(original, DropIn | torch.jit.ScriptModule):
        return original(*args, **kwargs)
    return type(original).forward(dropin, *args, **kwargs)
