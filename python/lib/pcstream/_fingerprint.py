"""A digest of a scheme in Python: of the code that would run and of its values.

Idea: what the user wrote counts by value: classes with their bases and attributes, functions as bytecode with the globals,
defaults and closures that they use. What is installed counts by name and version, any other object as what pickle makes of
it. Names of files and numbers of lines do not count, so a notebook that is run again finds its results. A module that is used
as one may be handed on and asked for anything, so its whole file counts, and by value what is asked of it in sight.

Invariants: equal digests mean that all code and values that can be seen are equal; an object that cannot be compared with
another is refused, never left out. What code looks up by a name that it computes, or reads from
files or the environment, cannot be seen.
"""

from __future__ import annotations

import copy
import copyreg
import dis
import functools
import hashlib
import importlib.metadata
import platform
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Values that their text tells from all others of the type.
_ATOMS = (type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis), type(NotImplemented))
#: What is made in C and has a name.
_NAMED = (
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
#: Attributes of classes that say where they were written, or that Python and its library keep for themselves.
_KEPT = frozenset(
    "__abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __dataclass_fields__"
    " __dataclass_params__ __dict__ __doc__ __firstlineno__ __module__ __slotnames__ __static_attributes__ __weakref__"
    " _abc_impl".split()
)
#: What a script, and a notebook, is called here and in the processes of multiprocessing.
_MAIN = ("__main__", "__mp_main__")
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


class UnknownError(Exception):
    """Something that cannot be compared with others of its type."""


def of(value: object) -> str:
    """The digest of an object, of its class, and of all that both use."""
    try:
        # As pickle does, this separates what the object holds from globals of its module.
        apart = copy.deepcopy(value)
    except Exception as error:
        raise UnknownError(f"it cannot be copied: {error}") from error
    try:
        return _Walk(type(value).__module__.partition(".")[0]).of(apart)
    except RecursionError:
        raise UnknownError("it is nested too deeply") from None


class _Walk:
    """Goes through everything that an object uses, once."""

    def __init__(self, own: str) -> None:
        #: The package whose code counts by value wherever it lies.
        self._own = own
        self._hash = hashlib.blake2b(digest_size=16)
        # By identity; the objects are kept, so that no other gets theirs.
        self._seen: dict[object, tuple[int, object]] = {}
        self._path: list[str] = []

    def of(self, value: object) -> str:
        self._add(value)
        return self._hash.hexdigest()

    def _emit(self, *parts: object) -> None:
        self._hash.update(repr(parts).encode(errors="surrogatepass"))

    def _first(self, key: object, value: object) -> bool:
        """Whether something comes for the first time; otherwise says which it was."""
        if key in self._seen:
            self._emit("again", self._seen[key][0])
            return False
        self._seen[key] = len(self._seen), value
        return True

    def _at(self, name: str, value: object, names: frozenset[str] = frozenset()) -> None:
        """Something that has a name; of a module, the attributes ``names`` are used."""
        self._emit("at", name)
        self._path.append(name)
        if isinstance(value, types.ModuleType):
            self._module(value, names)
        else:
            self._add(value)
        self._path.pop()

    def _add(self, value: object) -> None:
        kind = type(value)
        if isinstance(value, bytes) and kind is bytes:
            self._emit("bytes", len(value))
            self._hash.update(value)
        elif kind in _ATOMS:
            self._emit(kind.__name__, value)
        elif kind is tuple or kind is frozenset or kind is set or self._first(id(value), value):
            self._composed(value)

    def _composed(self, value: Any) -> None:
        if type(value) in (tuple, list):
            self._emit(type(value).__name__, len(value))
            for one in value:
                self._add(one)
        elif type(value) in (set, frozenset):
            self._emit(type(value).__name__, *sorted(_Walk(self._own).of(one) for one in value))
        elif type(value) in (dict, types.MappingProxyType):
            self._emit("dict", len(value))
            for key, one in value.items():
                self._add(key)
                self._at(repr(key) if type(key) in _ATOMS else "a key", one)
        else:
            self._code_of(value)

    def _code_of(self, value: Any) -> None:
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None) if callable(value) else None
        if isinstance(value, types.ModuleType):
            self._module(value, frozenset())
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._bytecode(value)
        elif isinstance(value, (staticmethod, classmethod)):
            self._parts(value, value.__func__)
        elif isinstance(value, property):
            self._parts(value, value.fget, value.fset, value.fdel)
        elif isinstance(value, functools.cached_property):
            self._parts(value, value.func)
        elif isinstance(inner, types.FunctionType) and self._by_name(type(value).__module__):
            # What numba compiles, what a cache wraps.
            self._parts(value, inner, getattr(value, "targetoptions", None))
        elif isinstance(value, _NAMED):
            of = getattr(value, "__self__", None)
            self._named(_module_of(value), value.__qualname__)
            self._add(None if isinstance(of, types.ModuleType) else of)
        else:
            self._object(value)

    def _parts(self, value: object, *parts: object) -> None:
        for part in (type(value), *parts):
            self._add(part)

    def _named(self, module: str, name: str) -> None:
        if module in _MAIN:
            self._emit("named", name)
            return
        version = _version(module.partition(".")[0]) if self._by_name(module) else _file_digest(module)
        self._emit("named", module, name, version)

    def _by_name(self, module: str) -> bool:
        return module.partition(".")[0] != self._own and _installed(module)

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> None:
        if self._by_name(module.__name__):
            self._named(module.__name__, "")
        elif self._first((id(module), names), module):
            self._emit("module", module.__name__, _file_digest(module.__name__))
            for name in sorted(names & vars(module).keys()):
                self._at(name, vars(module)[name], names)

    def _class(self, cls: type) -> None:
        if self._by_name(cls.__module__):
            self._named(cls.__module__, cls.__qualname__)
            return
        self._emit("class", cls.__qualname__)
        for base in (type(cls), *cls.__bases__):
            self._add(base)
        inherited: dict[str, object] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(vars(base))
        for name, value in sorted(vars(cls).items()):
            # Clusters leave away what is inherited, too.
            if name not in _KEPT and inherited.get(name, cls) is not value:
                self._at(f"{cls.__name__}.{name}", value)

    def _function(self, function: types.FunctionType) -> None:
        module = function.__module__ or ""
        if self._by_name(module) and _is_called(module, function.__qualname__, function):
            self._named(module, function.__qualname__)
            return
        code = function.__code__
        self._emit("function")
        self._add(code)
        self._add(function.__defaults__)
        self._add(function.__kwdefaults__)
        self._add(vars(function))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._at(name, cell.cell_contents)
            except ValueError:
                self._emit("empty cell")
        if any(one.opname == "IMPORT_NAME" for part in _nested(code) for one in dis.get_instructions(part)):
            raise UnknownError(f"{code.co_name}() imports when it runs; do it at the top of the module")
        used = frozenset(name for part in _nested(code) for name in part.co_names)
        for name in sorted(_globals(code) & function.__globals__.keys() - {"__name__"}):
            self._at(name, function.__globals__[name], used)

    def _bytecode(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._emit("code", platform.python_version(), code.co_code, counts, names)
        self._emit(getattr(code, "co_exceptiontable", b""))
        self._add(code.co_consts)

    def _object(self, value: Any) -> None:
        if any(cls.__module__ == "_ctypes" for cls in type(value).__mro__):
            raise UnknownError(self._unknown(value))
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            made = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            raise UnknownError(self._unknown(value)) from error
        if isinstance(made, str):
            module = _module_of(value)
            if not self._by_name(module) or not _is_called(module, made, value):
                raise UnknownError(self._unknown(value))
            self._named(module, made)
            return
        self._emit("object", len(made))
        for part in made:
            self._add(list(part) if isinstance(part, Iterator) else part)

    def _unknown(self, value: object) -> str:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return f"{' > '.join(self._path) or 'it'} is a {kind}, which cannot be compared with another"


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and that of the functions and classes within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _globals(code: types.CodeType) -> set[str]:
    return {one.argval for part in _nested(code) for one in dis.get_instructions(part) if one.opname in _GLOBALS}


def _is_called(module: str, name: str, value: object) -> bool:
    """Whether that name leads to this very object, and not to what it wraps."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _module_of(value: object) -> str:
    of = getattr(value, "__objclass__", value)
    return getattr(of, "__module__", None) or type(value).__module__


def _installed(module: str) -> bool:
    """Whether a module is of Python, of this package, or of another that was installed."""
    top = module.partition(".")[0]
    if top in _MAIN:
        return False
    if top in sys.stdlib_module_names or top == "pcstream":
        return True
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


@functools.cache
def _version(package: str) -> str:
    """What tells an installed package from others of its name; the build of this one counts elsewhere."""
    if package in sys.stdlib_module_names:
        return platform.python_version()
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", None) or _file_digest(package))


def _file_digest(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest() if file else ""
    except OSError:
        return ""
