"""Finds which of our functions change the database, by the SQL they run: `python -m tests.architecture.writers`.

A database function writes if its body does, or if it calls one that does; PostgreSQL itself keeps STABLE and IMMUTABLE
ones from writing. A Python function writes if its SQL does, or if it calls one that does. Calls are resolved by imports
and by the annotations of parameters and fields; a receiver of unknown type is assumed to be of the class with its name.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.architecture.source import PACKAGE, SRC, statements, trees

SQL = PACKAGE / "store/sql"
DEFINED = re.compile(
    r"CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) fairpost\.(\w+)(?P<head>.*?)AS \$(\w*)\$(?P<body>.*?)\$\3\$(?P<tail>[^;]*)",
    re.I | re.S,
)
COMMENT = re.compile(r"--[^\n]*")
CHANGES = re.compile(
    r"\b(INSERT INTO|DELETE FROM|TRUNCATE|MERGE INTO|(?<!FOR )(?<!FOR NO KEY )(?<!DO )UPDATE (?:ONLY )?[a-z])"
)
ALTERS = re.compile(r"\b((?:CREATE|ALTER|DROP) (?:TABLE|ROLE|SCHEMA|INDEX|FUNCTION|DATABASE)|GRANT \w+|REVOKE \w+)")
RUNS = {"execute", "fetch", "fetchrow", "fetchval", "row", "value"}
CALLED = re.compile(r"\bfairpost\.(\w+)\s*\(")
COPIES = {"copy_records_to_table", "copy_to_table"}


@cache
def sql_writers() -> frozenset[str]:
    bodies: dict[str, str] = {}
    for path in sorted(SQL.rglob("*.sql"), key=lambda path: ("migrations" not in path.parts, path)):
        for found in DEFINED.finditer(path.read_text("utf-8")):
            is_stable = re.search(r"\b(STABLE|IMMUTABLE)\b", found["head"] + found["tail"])
            bodies[found[1]] = "" if is_stable else COMMENT.sub("", found["body"])
    writing = {name for name, body in bodies.items() if CHANGES.search(body) or ALTERS.search(body)}
    while more := {name for name, body in bodies.items() if writing & set(CALLED.findall(body))} - writing:
        writing |= more
    return frozenset(writing)


@cache
def writes(sql: str) -> bool:
    return CHANGES.search(sql) is not None or bool(sql_writers() & set(CALLED.findall(sql)))


@dataclass
class Class:
    module: str
    name: str
    fields: dict[str, str] = field(default_factory=dict)  # to classes, by their full names
    bases: list[str] = field(default_factory=list)
    methods: set[str] = field(default_factory=set)

    @property
    def is_protocol(self) -> bool:
        return "typing.Protocol" in self.bases


@dataclass
class Function:
    """`calls` has full names, with the line."""

    module: str
    name: str
    line: int
    does_write: bool = False
    has_sql: bool = False  # it writes with its own SQL
    is_action: bool = False
    calls: dict[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class House:
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    returns: dict[str, str] = field(default_factory=dict)

    @cache  # noqa: B019 - there is one house
    def by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self.classes:
            found.setdefault(name.rpartition(".")[2].lower(), []).append(name)
        return found

    def does_write(self, name: str) -> bool:
        """For a class, returns whether creating an instance writes. For a protocol, whether any class that implements
        it does."""
        function = self.functions.get((self.method(name, "__init__") or "") if name in self.classes else name)
        if function is None:
            return False
        class_, _, method = name.rpartition(".")
        return function.does_write or any(self.does_write(each) for each in self._fitting(class_, method))

    @cache  # noqa: B019 - there is one house
    def _fitting(self, protocol: str, method: str) -> list[str]:
        """Returns this method of every matching class, by full name."""
        asked = self.classes.get(protocol)
        if asked is None or not asked.is_protocol:
            return []
        fitting = [
            name
            for name, each in self.classes.items()
            if not each.is_protocol and all(self.method(name, wanted) for wanted in asked.methods)
        ]
        return [found for name in fitting if (found := self.method(name, method))]

    def method(self, class_: str, name: str) -> str | None:
        """Returns the method by its full name, in the class or a base class."""
        found = self.classes.get(class_)
        if found is None:
            return None
        if name in found.methods:
            return f"{class_}.{name}"
        return next((each for base in found.bases if (each := self.method(base, name))), None)

    def field(self, class_: str, name: str) -> str | None:
        found = self.classes.get(class_)
        if found is None:
            return None
        if name in found.fields:
            return found.fields[name]
        if (method := self.method(class_, name)) is not None:
            returned = self.returns.get(method)
            return class_ if returned == "typing.Self" else returned
        return next((each for base in found.bases if (each := self.field(base, name))), None)


class _Module:
    def __init__(self, path: Path, tree: ast.Module) -> None:
        parts = path.relative_to(SRC).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.tree = tree
        self.names: dict[str, str] = {}
        self.sql: set[str] = set()  # module constants with SQL that writes
        for node in statements(self.tree.body):
            match node:
                case ast.Import(names=names):
                    self.names |= {each.asname or each.name.split(".")[0]: each.name for each in names if each.asname}
                case ast.ImportFrom(module=str(module), names=names):
                    self.names |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
        for node in self.tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self.names[name] = f"{self.name}.{name}"
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if any(
                    writes(text) for text in _texts(value)
                ):
                    self.sql.add(name)

    def type_of(self, annotation: ast.expr | None) -> str | None:
        """Returns our class that an annotation names, or None if it is not ours."""
        match annotation:
            case ast.Constant(value=str(text)):
                return self.type_of(ast.parse(text, mode="eval").body)
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return f"{self.names.get(module, module)}.{name}"
            case ast.BinOp(left=left, right=right):
                return self.type_of(left) or self.type_of(right)
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
                return self.type_of(first)
            case ast.Subscript(value=ast.Name(id="AsyncIterator" | "Iterator" | "Awaitable"), slice=inner):
                return self.type_of(inner)
        return None


def _texts(node: ast.AST) -> Iterator[str]:
    """Yields strings. An f-string counts as one."""
    match node:
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else " x " for part in values)
            return
        case ast.Constant(value=str(text)):
            yield text
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


@cache
def house(more: str = "") -> House:
    """Parses the package as it is; with `more`, also the source of one more command."""
    modules = [_Module(path, tree) for path, tree in trees().items()]
    modules += [_Module(PACKAGE / "cli/more.py", ast.parse(more))] if more else []
    by_name = {module.name: module for module in modules}
    for module in modules:
        module.names = {name: _origin(target, by_name) for name, target in module.names.items()}
    known = House()
    for module in modules:
        for node in module.tree.body:
            _declare(known, module, node)
    for module in modules:
        for node in module.tree.body:
            _follow(known, module, node)
    _spread(known)
    return known


def _origin(target: str, modules: Mapping[str, _Module]) -> str:
    """Returns where a name that one module imports from another is defined."""
    owner, _, name = target.rpartition(".")
    further = modules[owner].names.get(name, target) if owner in modules else target
    return target if further == target else _origin(further, modules)


def _declare(known: House, module: _Module, node: ast.stmt, within: str = "") -> None:
    match node:
        case ast.ClassDef(name=name, bases=bases, body=body):
            class_ = Class(module.name, name, bases=[base for each in bases if (base := module.type_of(each))])
            known.classes[f"{module.name}.{name}"] = class_
            for each in body:
                match each:
                    case ast.AnnAssign(target=ast.Name(id=field_), annotation=annotation):
                        if type_ := module.type_of(annotation):
                            class_.fields[field_] = type_
                    case ast.FunctionDef(name=method) | ast.AsyncFunctionDef(name=method):
                        class_.methods.add(method)
                        _declare(known, module, each, f"{name}.")
                        class_.fields |= _assigned(known, module, each) if method == "__init__" else {}
        case ast.FunctionDef(name=name, returns=returns) | ast.AsyncFunctionDef(name=name, returns=returns):
            if type_ := module.type_of(returns):
                known.returns[f"{module.name}.{within}{name}"] = type_


def _assigned(known: House, module: _Module, init: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    types = _parameters(module, init)
    found = {}
    for node in ast.walk(init):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name(id=given)):
                if given in types:
                    found[name] = types[given]
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call(func=ast.Name(id=class_))
            ):
                if class_ in module.names:
                    found[name] = module.names[class_]
    return found


def _parameters(module: _Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {each.arg: type_ for each in given if (type_ := module.type_of(each.annotation))}


def _follow(known: House, module: _Module, node: ast.stmt, class_: str = "") -> None:
    match node:
        case ast.ClassDef(name=name, body=body):
            for each in body:
                _follow(known, module, each, name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            whole = f"{class_}.{name}" if class_ else name
            function = Function(module.name, whole, node.lineno, is_action=_is_action(node))
            types = {"self": f"{module.name}.{class_}", "cls": f"{module.name}.{class_}"} if class_ else {}
            _Walk(known, module, function, types).visit(node)
            known.functions[function.whole] = function
        case _:
            known.functions.setdefault(f"{module.name}.<module>", Function(module.name, "<module>", 1))
            _Walk(known, module, known.functions[f"{module.name}.<module>"], {}).visit(node)


def _is_action(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
    return any(isinstance(each, ast.Name) and each.id == "action" for each in decorators)


class _Walk(ast.NodeVisitor):
    def __init__(self, known: House, module: _Module, function: Function, types: dict[str, str]) -> None:
        self.known, self.module, self.function, self.types = known, module, function, types

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.types |= _parameters(self.module, node)
        for each in [*node.decorator_list, *node.args.defaults, *[d for d in node.args.kw_defaults if d], *node.body]:
            self.visit(each)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is not SQL
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._note(isinstance(node.value, str) and writes(node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._note(any(writes(text) for text in _texts(node)))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """A statement that alters counts where it is run; elsewhere, it is text to show."""
        match node.func:
            case ast.Attribute(attr=name) if name in RUNS and node.args:
                self._note(any(ALTERS.search(text) for text in _texts(node.args[0])))
        self.generic_visit(node)

    def _note(self, has_sql: bool) -> None:
        self.function.has_sql |= has_sql
        self.function.does_write |= has_sql

    def visit_Assign(self, node: ast.Assign) -> None:
        match node.targets:
            case [ast.Name(id=name)]:
                if type_ := self.type_of(node.value):
                    self.types[name] = type_
        self.generic_visit(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        for item in node.items:
            match item.optional_vars:
                case ast.Name(id=name):
                    if type_ := self.type_of(item.context_expr):
                        self.types[name] = type_
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._note(node.id in self.module.sql)
        target = self.module.names.get(node.id)
        if target is not None and target.startswith("fairpost."):
            self._call(target, node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        match node.value:
            case ast.Name(id=name) if name not in self.types and name in self.module.names:
                target = self.module.names[name]
                self._call(self.known.method(target, node.attr) or f"{target}.{node.attr}", node.lineno)
                return
        self._note(node.attr in COPIES)
        receiver = self.type_of(node.value) or self._named_like(node.value)
        if receiver is not None and (method := self.known.method(receiver, node.attr)):
            self._call(method, node.lineno)
        self.visit(node.value)

    def _named_like(self, node: ast.expr) -> str | None:
        """A `store` of unknown type is a Store, a `courier` a Courier: the only class of ours with that name."""
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found = self.known.by_name().get(name.replace("_", ""), [])
                return found[0] if len(found) == 1 else None
        return None

    def _call(self, name: str, line: int) -> None:
        self.function.calls.setdefault(name, line)

    def type_of(self, node: ast.expr) -> str | None:
        match node:
            case ast.Await(value=value):
                return self.type_of(value)
            case ast.Name(id=name):
                return self.types.get(name)
            case ast.Attribute(value=value, attr=name):
                owner = self.type_of(value)
                return owner and self.known.field(owner, name)
            case ast.Call(func=ast.Name(id=name)):
                target = self.module.names.get(name, "")
                return target if target in self.known.classes else self.known.returns.get(target)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owned), attr=name)) if owned in self.module.names:
                if (class_ := self.module.names[owned]) in self.known.classes:
                    return self.known.field(class_, name)
                target = f"{self.module.names[owned]}.{name}"
                return target if target in self.known.classes else self.known.returns.get(target)
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                owner = self.type_of(value)
                return owner and self.known.field(owner, name)
        return None


def _spread(known: House) -> None:
    """Propagates writing to callers. Calling a class calls its __init__."""
    changed = True
    while changed:
        changed = False
        for function in known.functions.values():
            if not function.does_write and any(known.does_write(name) for name in function.calls):
                function.does_write = changed = True


def writers(known: House) -> list[str]:
    return sorted(name for name in known.functions if known.does_write(name))


def room(name: str) -> str:
    """Returns the part that a full name belongs to: `store`, `dev.bench`."""
    parts = name.split(".")
    return ".".join(parts[1:3]) if parts[1:2] == ["dev"] else "".join(parts[1:2])


def calls_to_writers(known: House, rooms: Collection[str]) -> dict[str, list[str]]:
    """Returns what the parts use that writes and is not an action, by full name, with the places that use it. A part's
    own SQL counts as used by itself."""
    found: dict[str, list[str]] = {}
    for function in known.functions.values():
        if room(function.module) not in rooms or function.is_action:
            continue
        if function.has_sql:
            found.setdefault(function.whole, []).append(f"{function.whole}:{function.line}")
        for name, line in function.calls.items():
            called = known.functions.get(name)
            is_other = called is None or not called.is_action
            if is_other and room(name) not in {*rooms, "actions"} and known.does_write(name):
                found.setdefault(name, []).append(f"{function.whole}:{line}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(writers(house())) + "\n")
