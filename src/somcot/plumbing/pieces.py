"""How compiled functions take in others: as plain code, which is optimised and translated once, with the whole.

Numba optimises every function to the end, translates it and wraps it for Python before another one takes it in, and
then optimises both together again. With functions that call functions most of the work is done several times over,
for code that nobody ever runs by itself. Here a function has two faces. What other compiled functions see is a
`Piece`: typed and lowered, nothing more. Only what Python calls becomes machine code.
"""
# mypy: disable-error-code="no-untyped-call, misc"

from __future__ import annotations

import functools
import gc
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.types import unliteral

__all__ = ["Piece", "Whole"]


class _Library(JITCodeLibrary):
    """Code that is waiting for the function that takes it in."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        # A little is done at once, so that it is not done in every function that takes this in.
        passes, builder = self._codegen._function_pass_manager(opt=1, loop_vectorize=False, slp_vectorize=False)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Entry:
    """Stands for the address of a function that has none."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Lower without wrappers and without machine code."""

    _name = "somcot_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        changed: bool = super().run_pass(state)
        entry, lowered = _Entry(), state["cr"]
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return changed


class _Compiler(Compiler):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if step is NativeLowering else step, why) for step, why in passes.passes]
        passes.finalize()
        return [passes]


class Piece(CPUDispatcher):
    """A function for other compiled functions. Python may call it too: then it is compiled like any other."""

    def __init__(self, py_func: Any, local_types: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, local_types, dict(targetoptions or {}), _Compiler)

    def add_overload(self, compiled: Any) -> None:
        """Known to Numba, not to Python."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """One type for all integers: what is known of a constant is found out later."""
        return super().get_call_template([unliteral(a) for a in args], {k: unliteral(a) for k, a in kws.items()})

    @functools.cached_property
    def whole(self) -> Any:
        """The same function, to be called from Python."""
        return Whole(self.py_func, self.locals, self.targetoptions)

    def _compile_for_args(self, *_args: Any, **_kwargs: Any) -> Any:
        return self.whole  # Numba calls what it gets here


class Whole(CPUDispatcher):
    """A function for Python. Other compiled functions see its `Piece`."""

    def __init__(self, py_func: Any, local_types: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, local_types, dict(targetoptions or {}))

    def compile(self, signature: Any) -> Any:
        """Compile without looking for garbage, which among millions of small objects is a sixth of the time."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(signature)
        finally:
            if collecting:
                gc.enable()

    @functools.cached_property
    def piece(self) -> Any:
        """The same function, to be called from compiled functions."""
        return Piece(self.py_func, self.locals, self.targetoptions)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Where the function is called: the types that it takes there."""
        return self.piece.get_call_template(args, kws)

    def get_overload(self, signature: Any) -> Any:
        """Where the function is called: the code."""
        return self.piece.get_overload(signature)
