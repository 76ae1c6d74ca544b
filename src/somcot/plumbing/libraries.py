"""Where compiled code is kept: code that waits to be taken in, and code that is gathered and translated.

Both are Numba's libraries with the work left out that is done again later: a piece is neither optimised to the end nor
translated nor linked with what it calls. A whole links each of its pieces once.
"""
# mypy: disable-error-code="no-untyped-call, misc, attr-defined"

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import binding as llvm  # type: ignore[import-untyped]
from numba.core import config
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags

__all__ = ["Apart", "Gathered", "Waiting", "never_waiting", "only_waiting", "refresh"]


class Gathered(JITCodeLibrary):
    """Code with all that it takes in, each piece once, to be optimised together."""

    entry = ""  # the function that other machine code may call

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        # A little is done at once, so that it is not done in every function that takes this in.
        passes, builder = self._codegen._function_pass_manager(opt=1, loop_vectorize=False, slp_vectorize=False)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """As Numba does it, but bodies of loops are not copied: a quarter of the work, which makes nothing faster."""
        codegen = self._codegen
        first, its = codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap")
        tuning = llvm.create_pipeline_tuning_options(speed_level=int(config.OPT))
        tuning.loop_vectorization, tuning.slp_vectorization = bool(config.LOOP_VECTORIZE), bool(config.SLP_VECTORIZE)
        tuning.loop_unrolling = False
        builder = llvm.create_pass_builder(codegen._tm, tuning)
        last = builder.getModulePassManager()
        last.add_refprune_pass(_parse_refprune_flags())
        first.run(self._final_module, its)
        last.run(self._final_module, builder)

    def gather(self) -> None:
        """Link in what is waiting and what that takes in: Numba would link it in again at every level."""
        waiting, seen = list(reversed(self._linking_libraries)), {self}
        while waiting:
            library = waiting.pop()
            if library in seen:
                continue
            seen.add(library)
            self._reload_init.update(library._reload_init)
            if isinstance(library, Waiting):
                waiting += reversed(library._linking_libraries)
                self._final_module.link_in(library.alone, preserve=True)
            elif not isinstance(library, Apart):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._linking_libraries = []

    def finalize(self) -> None:
        """Make machine code of it."""
        self.gather()
        if self.entry:
            self._final_module.get_function(self.entry).linkage = "external"
        super().finalize()

    def serialize_using_object_code(self) -> Any:
        """Machine code and no more than the names of its functions: what others take in never comes from the disk."""
        names = [f.name for f in self.get_defined_functions() if f.linkage == llvm.Linkage.external]
        stubs = "".join(f'\ndefine void @"{name}"() {{ ret void }}' for name in names)
        text = str(self._codegen._create_empty_module(self.name)) + stubs
        return self.name, "object", (self._get_compiled_object(), llvm.parse_assembly(text).as_bitcode())


class Waiting(Gathered):
    """Code that is waiting for the function that takes it in."""

    def finalize(self) -> None:
        """Leave it as it is."""
        self._finalize_dynamic_globals()
        self._finalized = True

    @functools.cached_property
    def alone(self) -> Any:
        """The code without what it takes in, such that it may be taken in several times."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """For functions that are not the package's: the code with all that it takes in."""
        if self._shared_module is None:
            whole = Gathered(self._codegen, self.name)
            whole._final_module, whole._linking_libraries = self.alone.clone(), list(self._linking_libraries)
            whole.gather()
            self._reload_init |= whole._reload_init
            self._shared_module = whole._final_module
        return self._shared_module


class Apart:
    """Machine code that is there already. Who calls it has it loaded before its own: Numba does what `load` says."""

    _linking_libraries = ()

    def __init__(self, load: Any) -> None:
        self._reload_init = {load}

    def _ensure_finalized(self) -> None:
        """It is."""


@contextlib.contextmanager
def only_waiting(codegen: Any) -> Iterator[None]:
    """Whatever Numba compiles meanwhile is left waiting as well; its lock keeps other threads out."""
    with never_waiting(codegen):
        codegen.create_library = functools.partial(Waiting, codegen)
        codegen.set_env = lambda _name, _environment: None  # there is no place for it yet
        try:
            yield
        finally:
            del codegen.create_library, codegen.set_env


@contextlib.contextmanager
def never_waiting(codegen: Any) -> Iterator[None]:
    """Numba as it is, also in the midst of `only_waiting`."""
    before = {name: codegen.__dict__.pop(name) for name in ("create_library", "set_env") if name in codegen.__dict__}
    try:
        yield
    finally:
        codegen.__dict__.update(before)


_seen = [0]


def refresh(context: Any) -> None:
    """Install what was registered with Numba since the last time; it looks hundreds of times, mostly in vain."""
    registries = [*context._registries, *context.typing_context._registries]
    found = sum(len(entries) for r in registries for entries in vars(r).values() if isinstance(entries, list))
    if found != _seen[0]:
        type(context).refresh(context)
        _seen[0] = found
