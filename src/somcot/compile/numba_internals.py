"""All uses of Numba's internals, for the releases in which they are known.

Numba fully optimises every function, generates machine code and wraps it for Python before another function inlines
it, and then optimises both again. With nested functions most of the work is repeated, for code that never runs by
itself. Here a function has two forms. Other compiled functions see an `Inlined`: typed and lowered, but neither fully
optimised nor translated nor linked with its callees. Only functions called from Python become machine code: an
`EntryPoint` consists of its inlined form and a wrapper, and links each callee once. Functions that Numba compiles
implicitly, as for `np.empty`, are inlined too.
"""
# mypy: disable-error-code="no-untyped-call, misc, attr-defined, no-any-return, assignment"

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import importlib
import os
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias

from llvmlite import binding as llvm  # type: ignore[import-untyped]
from numba.core import config, ir, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.dispatcher import _FunctionCompiler
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.sigutils import normalize_signature
from numba.core.types import NamedTupleClass, unliteral

__all__ = [
    "EntryPoint", "Inlined", "Linked", "LinkedLibrary", "Prelinked", "StaleError", "Unlinked", "load",
    "never_unlinked", "only_unlinked", "refresh",
]  # fmt: skip

Numba: TypeAlias = Any  # contexts, types, libraries, states of its compiler: not typed in all releases

# --- Code libraries: unlinked code, and linked code that is translated.


class LinkedLibrary(JITCodeLibrary):
    """Code with all inlined functions, each once, to be optimised together."""

    entry = ""  # the function that other machine code may call

    def _optimize_functions(self, module: llvm.ModuleRef) -> None:
        module.data_layout = self._codegen._data_layout
        # Cheap optimisations are done here, so that they are not repeated in every function that inlines this one.
        passes, builder = self._codegen._function_pass_manager(opt=1, loop_vectorize=False, slp_vectorize=False)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """As in Numba, but without loop unrolling, which takes a quarter of the time and makes nothing faster."""
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
        """Link all unlinked callees once; Numba would link them again at every level."""
        # Depth-first in the order of Numba's lists, so that equal sources are always linked in the same order.
        waiting, seen = list(reversed(self._linking_libraries)), {self}
        while waiting:
            library = waiting.pop()
            if library in seen:
                continue
            seen.add(library)
            self._reload_init.update(library._reload_init)
            if isinstance(library, Unlinked):
                waiting += reversed(library._linking_libraries)
                self._final_module.link_in(library.alone, preserve=True)
            elif not isinstance(library, Prelinked):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._linking_libraries = []

    def finalize(self) -> None:
        """Generate machine code."""
        self.gather()
        if self.entry:
            self._final_module.get_function(self.entry).linkage = "external"
        super().finalize()

    def serialize_using_object_code(self) -> Numba:
        """Machine code and the names of its functions only: inlined code is never loaded from disk."""
        # Stubs stand for the functions: Numba's loader only needs their names.
        names = [f.name for f in self.get_defined_functions() if f.linkage == llvm.Linkage.external]
        stubs = "".join(f'\ndefine void @"{name}"() {{ ret void }}' for name in names)
        text = str(self._codegen._create_empty_module(self.name)) + stubs
        return self.name, "object", (self._get_compiled_object(), llvm.parse_assembly(text).as_bitcode())


class Unlinked(LinkedLibrary):
    """Code that waits to be linked into another function."""

    def finalize(self) -> None:
        """Do nothing: the code is not translated."""
        self._finalize_dynamic_globals()
        self._finalized = True

    @functools.cached_property
    def alone(self) -> llvm.ModuleRef:
        """The code without its callees, in a form that can be linked several times."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                # "linkonce_odr" allows the same definition in several modules; duplicates are dropped by the linker.
                function.linkage = "linkonce_odr"
        return self._final_module

    def _get_module_for_linking(self) -> llvm.ModuleRef:
        """For functions outside the package: the code with all its callees."""
        if self._shared_module is None:
            whole = LinkedLibrary(self._codegen, self.name)
            whole._final_module, whole._linking_libraries = self.alone.clone(), list(self._linking_libraries)
            whole.gather()
            self._reload_init |= whole._reload_init
            self._shared_module = whole._final_module
        return self._shared_module


class Prelinked:
    """Existing machine code, which Numba loads by `load` before the code that calls it."""

    _linking_libraries = ()

    def __init__(self, load: Numba) -> None:
        self._reload_init = {load}

    def _ensure_finalized(self) -> None:
        """It is."""


@contextlib.contextmanager
def only_unlinked(codegen: Numba) -> Iterator[None]:
    """Functions that Numba compiles within the block stay unlinked too; Numba's lock keeps other threads out."""
    with never_unlinked(codegen):
        codegen.create_library = functools.partial(Unlinked, codegen)
        codegen.set_env = lambda _name, _environment: None  # unlinked code has no address yet
        try:
            yield
        finally:
            del codegen.create_library, codegen.set_env


@contextlib.contextmanager
def never_unlinked(codegen: Numba) -> Iterator[None]:
    """Numba's default behaviour, even within `only_unlinked`."""
    # Instance attributes shadow the methods, so removing them restores Numba's behaviour.
    before = {name: codegen.__dict__.pop(name) for name in ("create_library", "set_env") if name in codegen.__dict__}
    try:
        yield
    finally:
        codegen.__dict__.update(before)


_seen = [0]


def refresh(context: Numba) -> None:
    """Install new registrations with Numba, if their number has changed; Numba calls this hundreds of times."""
    registries = [*context._registries, *context.typing_context._registries]
    n_entries = sum(len(entries) for r in registries for entries in vars(r).values() if isinstance(entries, list))
    if n_entries != _seen[0]:
        type(context).refresh(context)
        _seen[0] = n_entries


def load(cache: Numba, signature: Numba, context: Numba) -> Numba:
    """Machine code from disk, without what only compiling needs: Numba would import it all first, with SciPy's BLAS."""
    rtsys.initialize(context)  # memory of arrays
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, context)


# --- Inlining before optimisation.

# Passes that kernels do not need: closures, `with`, containers of mixed types, errors with values, annotated listings.
# Array expressions are not fused into one loop, so kernels write loops explicitly.
_LEFT_OUT = {
    untyped_passes.WithLifting, untyped_passes.InlineClosureLikes, untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction, untyped_passes.InlineInlinables, untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll, untyped_passes.LiteralPropagationSubPipelinePass, typed_passes.NopythonRewrites,
    typed_passes.AnnotateTypes, typed_passes.DumpParforDiagnostics, typed_passes.NoPythonSupportedFeatureValidation,
}  # fmt: skip
_TOKEN = uuid.uuid4().hex[:12]
# Operations that return an existing array.
_HANDS_ON = {"getattr", "getitem", "static_getitem", "typed_getitem", "cast", "build_tuple", "exhaust_iter", "getiter"}


def _owns(state: Numba) -> bool:
    """Whether the function may create or return an array. All others only borrow arrays that their callers own."""

    def counted(kind: Numba) -> bool:
        return state.targetctx.data_model_manager[kind].contains_nrt_meminfo()

    def made(value: Numba) -> bool:
        if not isinstance(value, ir.Expr):
            return isinstance(value, ir.Yield)
        if value.op == "call":
            function = state.typemap[value.func.name]
            # `reshape` and named tuples return the array they were given.
            return not isinstance(function, NamedTupleClass) and getattr(function, "typing_key", "") != "array.reshape"
        place = value.index if value.op in ("getitem", "typed_getitem") else None
        return value.op not in _HANDS_ON or (place is not None and counted(state.typemap[place.name]))

    assigned = [a for block in state.func_ir.blocks.values() for a in block.find_insts(ir.Assign)]
    return counted(state.return_type) or any(counted(state.typemap[a.target.name]) and made(a.value) for a in assigned)


class _Entry:
    """Placeholder for the address of a function that has none."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):
    """Lower without wrappers and machine code, and without reference counting if the function owns no arrays."""

    _name = "somcot_lowering"

    def run_pass(self, state: Numba) -> bool:
        # Its callers hold the arrays, so counting references to them would be wasted.
        if not _owns(state):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        changed: bool = super().run_pass(state)
        entry, lowered = _Entry(), state["cr"]
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return changed


class _HashedFlags(Flags):
    """Options with a cached hash, because Numba looks them up thousands of times."""

    def copy(self) -> Flags:
        return Flags(self)

    @functools.cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    __eq__ = Flags.__eq__


class _Options(Flags):
    """Options of one function; `copy` gives one object for all equal ones."""

    known: ClassVar[dict[str, _HashedFlags]] = {}

    def copy(self) -> _HashedFlags:
        hashed = _HashedFlags(self)
        hashed.discard("forceinline")  # code inlined from Numba is the same for all functions
        return self.known.setdefault(hashed.summary(), hashed)


class _Compiler(Compiler):
    def __init__(
        self, typing: Numba, target: Numba, library: Numba, args: Numba, result: Numba, flags: Numba, known: Numba
    ) -> None:
        super().__init__(typing, target, library, args, result, _Options(flags), known)

    def _compile_core(self) -> Numba:
        # Numba numbers functions per process, so code from disk needs names that differ from those compiled here.
        self.state.func_id.unique_id = f"{self.state.func_id.unique_id}p{os.getpid()}{_TOKEN}"
        context = self.state.targetctx
        context.refresh = functools.partial(refresh, context)
        with only_unlinked(context.codegen()):
            return super()._compile_core()

    def define_pipelines(self) -> list[Numba]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps = [step for step in passes.passes if step[0] not in _LEFT_OUT]
        passes.passes = [(_Lowering if step is typed_passes.NativeLowering else step, why) for step, why in steps]
        passes.finalize()
        return [passes]


class Inlined(CPUDispatcher):
    """A function for other compiled functions. Python may call it too: then it is compiled like any other."""

    def __init__(self, py_func: Numba, local_types: Numba = None, targetoptions: Numba = None) -> None:
        super().__init__(py_func, local_types, dict(targetoptions or {}), _Compiler)

    def add_overload(self, compiled: Numba) -> None:
        """Register the overload with Numba, not with Python."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    def get_call_template(self, args: Numba, kws: Numba) -> Numba:
        """Use one type for all integers; constants are propagated later."""
        return super().get_call_template([unliteral(a) for a in args], {k: unliteral(a) for k, a in kws.items()})

    @functools.cached_property
    def whole(self) -> Numba:
        """The same function, to be called from Python."""
        whole = EntryPoint(self.py_func, self.locals, self.targetoptions)
        whole.piece = self
        return whole

    def _compile_for_args(self, *_args: Numba, **_kwargs: Numba) -> Numba:
        return self.whole  # Numba calls what it gets here


class _Translator(_FunctionCompiler):
    """Generates machine code from an inlined function and a wrapper for Python."""

    whole: EntryPoint

    def _compile_core(self, args: Numba, _return_type: Numba) -> Numba:
        piece = self.whole.piece
        piece.compile(args)
        lowered = piece.overloads[tuple(args)]
        context, description = lowered.target_context, copy.copy(lowered.fndesc)
        description.env_name += "_whole"  # constants of the wrapper, which the piece in other kernels does not have
        environment = Environment.from_fndesc(description)
        if not context.data_model_manager[description.restype].contains_nrt_meminfo():
            context = context.subtarget(enable_nrt=False)  # Python keeps the arguments alive
        library = LinkedLibrary(context.codegen(), description.qualname)
        library.enable_object_caching()
        library.add_linking_library(lowered.library)
        library.entry = description.llvm_func_name
        with context.push_code_library(library):
            context.create_cpython_wrapper(library, description, environment, lowered.call_helper, True)
        entry = context.get_executable(library, description, environment)
        result = lowered._replace(
            library=library, entry_point=entry, fndesc=description, environment=environment,
            reload_init=list(library._reload_init), type_annotation="", metadata={},
        )  # fmt: skip
        for other in result._find_referenced_environments():
            context.codegen().set_env(other.env_name, other)
        return result


class StaleError(Exception):
    """Machine code on disk calls code that no longer exists."""


def _load(module: str, name: str, signature: Numba, symbol: str) -> None:
    """Load the machine code that other code on disk calls."""
    whole = getattr(importlib.import_module(module), name)
    whole.compile(signature)
    # Symbols contain the unique number of the compilation: another number means other code.
    if whole.overloads[signature].fndesc.mangled_name != symbol:
        raise StaleError(f"{name} was compiled again")


class EntryPoint(CPUDispatcher):
    """A function for Python. Other compiled functions see its `Inlined`."""

    def __init__(self, py_func: Numba, local_types: Numba = None, targetoptions: Numba = None) -> None:
        super().__init__(py_func, local_types, dict(targetoptions or {}))
        self._compiler = _Translator(py_func, self.targetdescr, self.targetoptions, self.locals, Compiler)
        self._compiler.whole = self

    def compile(self, signature: Numba) -> Numba:
        """Compile without garbage collection, which takes a sixth of the time among millions of small objects."""
        with global_compiler_lock:  # the settings changed here are global
            collecting = gc.isenabled()
            gc.disable()
            try:
                with never_unlinked(self.targetctx.codegen()):
                    return super().compile(signature)
            finally:
                if collecting:
                    gc.enable()

    @functools.cached_property
    def piece(self) -> Numba:
        """The same function, to be called from compiled functions."""
        return Inlined(self.py_func, self.locals, self.targetoptions)

    def get_call_template(self, args: Numba, kws: Numba) -> Numba:
        """The argument types at a call site."""
        return self.piece.get_call_template(args, kws)

    def get_overload(self, signature: Numba) -> Numba:
        """The code at a call site."""
        return self.piece.get_overload(signature)


class Linked(EntryPoint):
    """A large function that other compiled functions call without inlining it."""

    def __init__(self, py_func: Numba, local_types: Numba = None, targetoptions: Numba = None) -> None:
        # The code must not depend on which caller triggers the compilation.
        super().__init__(py_func, local_types, dict(targetoptions or {}) | {"fastmath": False})
        self._entries: dict[Numba, _Entry] = {}

    def get_call_template(self, args: Numba, kws: Numba) -> Numba:
        """The argument types at a call site."""
        return CPUDispatcher.get_call_template(self, [unliteral(a) for a in args], kws)

    def get_overload(self, signature: Numba) -> Numba:
        """The machine code at a call site, which has to be loaded first."""
        args = tuple(normalize_signature(signature)[0])
        if args not in self._entries:
            described = self.overloads[args].fndesc
            load = functools.partial(_load, self.__module__, self.__name__, args, described.mangled_name)
            self._entries[args] = _Entry()
            self.targetctx.insert_user_function(self._entries[args], described, [Prelinked(load)])
        return self._entries[args]
