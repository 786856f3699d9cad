# SPDX-License-Identifier: MIT OR Apache-2.0
"""The digest of all that the result of a module of tests can depend on: files of this checkout, and the machine.

Of the checkout, all files count that git does not ignore, but two kinds:

- Python modules count if the module of tests imports them, at its top, in a function, or through other modules. If one of these starts an
  interpreter, imports by a computed name or reads the source, the modules that it may reach count: see `_Module`.
- A page of documentation counts if its path is in one of the test's modules; all pages count if `docs` or `.md` is.

Tests of a project of its own, as that of the crates, depend on its files alone: see `PROJECTS`.

Any doubt makes a digest of more files: a test that runs again costs time, one that is left out wrongly hides a failure.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path

STATED: dict[str, tuple[str, ...]] = {
    "swapstone.parts.vm.artifacts.images": (),  # reads the text of modules that it imports
    "swapstone.parts.build.artifacts.sdk": (),  # as above
    "swapstone.core.artifacts.tool_versions": (),  # reads the interpreter's file
    "swapstone.cli.main": ("src/",),  # imports each command by name
    "swapstone.cli.shell_completion": ("src/swapstone/core/session/",),  # as above
    "swapstone.core.model.parts": (),  # imports what parts provide: see `_Module`
    "swapstone.core.report.render": ("src/swapstone/core/report/render/",),  # imports each renderer by name
    "swapstone.core.wire.output_reading": (),  # loads what a part from elsewhere names
    "swapstone.core.run.subject_kinds": (),  # as above
    "swapstone.core.session.record_cache": (),  # the digest of the code in the name of a cache's file
    "swapstone.parts.boards.targets.labgrid_session": (
        "src/swapstone/parts/boards/targets/labgrid_worker.py",
    ),  # started as a file
    "swapstone.parts.cluster.content_store": ("src/swapstone/parts/cluster/sftp_files.py",),  # imported by fsspec
    "swapstone.parts.cluster.shared_runs": (),  # imports what the user names
    "swapstone": (),  # imports the names of the Python API when they are used
    "tests.conftest": (),  # names files of tests
    "tests.programs": (),  # names programs that it does not start
    "tests.unit.agent.test_trial_environment_and_facts": (),  # starts Python for other code
    "tests.unit.artifacts.test_libstdcxx": (),  # names folders of its own
    "tests.unit.tools.test_mutate": (),  # its slow tests change a project of their own
    "tests.unit.tools.test_reuse": (),  # as above
    "tools.mutate": (),  # the project that it changes is named by its caller
    "tests.reuse": (),  # names files of tests
    "tests.input_digests": (),  # this module
    "tests.unit.artifacts.conftest": (),  # names the cache
    "tests.e2e.cli": ("src/", "tests/e2e/fork_server.py"),  # starts the command line
    "tests.e2e.fork_server": ("src/", "tests/no_sync.py", "tests/preloaded.py", "tests/uncompared_snapshots.py"),
    "tests.preloaded": ("src/",),  # imports all of it
}
"""Paths of the modules that a module imports or starts by a computed name; it is not searched for other names of files."""

PROJECTS = {"tests/e2e/test_crates.py": ("crates/", "docs/netstack-tests.md", "tests/rust_toolchain.py")}
"""Modules that run the tests of a project of its own, which depend on these files and folders, on the module and on the machine alone."""

PACKAGES = {"swapstone": "src/swapstone/", "tests": "tests/", "tools": "tools/", "benchmarks": "benchmarks/"}
"""The packages of this repository and their folders."""

MANIFESTS = "src/swapstone/parts/*/part.toml"

_ALL = ""
_PARTS = "swapstone.core.model.parts"
_COMMAND = re.compile(r"\.?/?swapstone|python[0-9.]*(\s.*)?", re.DOTALL)
_OF_INTERPRETER = re.compile(r"-m|.*(-m|import|from)\s+swapstone(?![\w.-]).*", re.DOTALL)
_DOTTED = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
_COMPUTED = frozenset({"import_module", "__import__", "run_module", "run_path", "iter_modules", "getsource"})

_VARIABLES = re.compile(
    r"SWAPSTONE_|PYTEST_|HYPOTHESIS_|PYTHON(?!PATH)|LC_|LANG|LD_|PATH$|CC$|CXX$|AR$|"
    r"C\w*FLAGS|LDFLAGS|RUST|CARGO|OMP_|OPENBLAS_|QEMU_|TZ$|"
    r"TERM$|COLUMNS$|LINES$|NO_COLOR|FORCE_COLOR|TMPDIR$|SOURCE_DATE_EPOCH|MALLOC_|GLIBC_"
)
_KERNEL_FILES = (
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/proc/sys/fs/pipe-max-size",
    "/proc/sys/vm/overcommit_memory",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.controllers",
)


class _Module:
    """What one Python file names.

    Attributes:
        imports: names of modules, which may not exist: each name of an import may be that of a module.
        paths: paths of files and folders that exist; those of folders end with a slash, and that of all is empty.
        pages: texts with `docs` or `.md`.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        known: Container[str],
        named: Callable[[str], set[str]],
        provided: Mapping[str, set[str]],
    ) -> None:
        """Read a file.

        Args:
            name: of the module, with dots.
            path: of the file.
            known: names of all modules.
            named: returns the paths that a text names.
            provided: the modules that `swapstone.core.model.parts.provided` imports, by kind.
        """
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        searched, ours = name not in STATED, name.startswith("swapstone")
        self._provided = provided
        self.imports = _with_packages(name)
        self.paths = set(STATED.get(name, ()))
        self.pages = set[str]()
        constant = set[int]()
        texts: list[str] = []
        starts = False
        for node in _executed(ast.parse(path.read_text())):
            match node:
                case ast.Import():
                    self.imports |= {each for alias in node.names for each in _with_packages(alias.name)}
                    if any(alias.name == "swapstone" for alias in node.names):
                        self.paths.add("src/")
                case ast.ImportFrom():
                    parents = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
                    base = ".".join([*parents, *([node.module] if node.module else [])])
                    self._add_import(base, {alias.name for alias in node.names}, known, searched=searched)
                case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(text))]):
                    self.imports |= _with_packages(text)
                    constant.add(id(node.func))
                case ast.Call(func=ast.Name(id="provided") | ast.Attribute(attr="provided"), args=[kind, *_]):
                    self._add_parts(kind.value if isinstance(kind, ast.Constant) else _ALL)
                case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
                    starts = True
                case ast.Attribute(attr=used) | ast.Name(id=used) if (
                    searched and used in _COMPUTED and id(node) not in constant
                ):
                    self.paths.add(_ALL)
                case ast.Constant(value=str(text)):
                    texts.append(text)
        if searched:
            self.imports |= {
                each for text in texts for dotted in _DOTTED.findall(text) for each in _with_packages(dotted)
            }
            if starts and any(_OF_INTERPRETER.fullmatch(text) for text in texts):
                self.paths.add("src/")
        if not ours:
            self.pages |= {text for text in texts if ".md" in text or "docs" in text}
            self.paths |= {path for text in texts if searched for path in named(text)}

    def _add_import(self, base: str, names: set[str], known: Container[str], *, searched: bool) -> None:
        """Add `from base import names`."""
        self.imports |= {*_with_packages(base), *(f"{base}.{name}" for name in names)}
        if base == "swapstone" and any(f"swapstone.{name}" not in known for name in names - {"__version__"}):
            self.paths.add("src/")
        if searched and not names.isdisjoint(_COMPUTED):
            self.paths.add(_ALL)
        if searched and base == _PARTS and not names.isdisjoint({"load", "parts_of"}):
            self._add_parts(_ALL)

    def _add_parts(self, kind: object) -> None:
        """Add what parts provide of a kind, or of all kinds."""
        self.imports |= {each for name, found in self._provided.items() if kind in {name, _ALL} for each in found}


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Return the parts of a module without docstrings and what only a type checker executes, each before its own parts."""
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.AST):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                waiting += value
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)


def _with_packages(name: str) -> set[str]:
    """Return a module's name and those of the packages that contain it, which its import executes."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


class InputDigests:
    """The digests of a checkout's modules of tests.

    Attributes:
        modules: the paths of all Python modules.
    """

    def __init__(self, top: Path, outside: str) -> None:
        """List and read the files.

        Args:
            top: the checkout.
            outside: the digest of the machine, `outside()`.

        Raises:
            OSError: git is missing, or a file can't be read.
            subprocess.CalledProcessError: git refuses to list the files.
        """
        self._top = top
        self._outside = outside
        self._files = listed_files(top)
        self._paths: dict[str, str] = {}
        for package, folder in PACKAGES.items():
            for path in self._files:
                if path.startswith(folder) and path.endswith(".py") and (top / path).is_file():
                    parts = Path(path.removeprefix(folder)).with_suffix("").parts
                    self._paths[".".join((package, *parts)).removesuffix(".__init__")] = path
        self._names = {path: name for name, path in self._paths.items()}
        self.modules = self._names.keys()
        self._folders = {f"{folder}/" for path in self._names for folder in Path(path).parents if folder.name}
        self._pages = frozenset(path for path in self._files if path.endswith(".md"))
        self._common = self._digest(set(self._files) - self._names.keys() - self._pages)
        self._read: dict[str, _Module] = {}
        self._provided: dict[str, set[str]] = {}
        for manifest in top.glob(MANIFESTS):
            for kind, places in tomllib.loads(manifest.read_text()).get("provides", {}).items():
                modules = {each for place in places for each in _with_packages(place.partition(":")[0])}
                self._provided.setdefault(kind, set()).update(modules)

    def of(self, path: str) -> str:
        """Return the digest of a module of tests in hexadecimal digits, by its path below the checkout."""
        if path in PROJECTS:
            return _sha256(
                (self._outside, self._digest(each for each in self._files if each.startswith((path, *PROJECTS[path]))))
            )
        modules, pages = self.inputs(path)
        return _sha256((self._outside, self._common, self._digest(modules | pages)))

    def inputs(self, path: str) -> tuple[set[str], set[str]]:
        """Return the paths of the Python modules and of the pages that count for a module of tests."""
        # pytest imports the conftest.py of each folder
        waiting = [path, *(str(folder / "conftest.py") for folder in Path(path).parents)]
        reached: set[str] = set()
        named: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path not in reached:
                reached.add(path)
                waiting += self._next(path) - reached
                named |= self._read[path].pages if path in self._read else set()
        pages = named if named <= self._pages else self._pages
        return reached & self._names.keys(), set(pages)

    @functools.cache  # noqa: B019 - one object a run
    def _next(self, path: str) -> frozenset[str]:
        """Return the modules in a folder, or what a module names."""
        if path not in self._names:
            return frozenset(
                each for each in self._names if each.startswith(path) and (path == _ALL or path.endswith("/"))
            )
        folder = Path(path).parent
        module = _Module(
            self._names[path], self._top / path, self._paths, lambda text: self._named(text, folder), self._provided
        )
        self._read[path] = module
        return frozenset({*module.paths, *(self._paths[name] for name in module.imports if name in self._paths)})

    def _named(self, text: str, folder: Path) -> set[str]:
        """Return the paths that a text names, in a module of this folder: files and folders of modules, or programs that import them."""
        if "*" in text and ".py" in text:
            return {_ALL}
        if _COMMAND.fullmatch(text):
            return {"src/"}
        word = text.partition(" ")[0]
        path = word.strip("./")
        beside = str(folder / word)
        found = {each for each in (path, beside, f"{path}/") if each in self._names or each in self._folders}
        if path.startswith(("tools/", "benchmarks/")) and path in self._files:
            module = path.replace("-", "_") + ".py"  # what the program starts
            found.add(module if module in self._names else _ALL)
        return found

    def _digest(self, names: Iterable[str]) -> str:
        return _sha256(part for name in sorted(names) for part in (name, self._content(name)))

    @functools.cache  # noqa: B019 - one object a run
    def _content(self, name: str) -> str:
        path = self._top / name
        if path.is_symlink():
            return f"link {path.readlink()}"
        if not path.is_file():
            return "absent"
        return f"{path.stat().st_mode & 0o111:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def listed_files(top: Path) -> list[str]:
    """Return the paths of all files in a checkout that git does not ignore.

    Raises:
        OSError: git is missing.
        subprocess.CalledProcessError: it refuses to list them.
    """
    return sorted({name for name in _git(top, "ls-files", "-z", "-c", "-o", "--exclude-standard").split("\0") if name})


def commit(top: Path) -> str:
    """Return the name of the commit that is checked out; the errors are those of `listed_files`."""
    return _git(top, "rev-parse", "HEAD").strip()


def _git(top: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", top, *arguments], capture_output=True, text=True, check=True).stdout


def outside() -> str:
    """Return the digest of what the tests find on this machine: kernel, processor, rights, installed programs, environment.

    Raises:
        OSError: Debian's list of packages can't be read.
        subprocess.CalledProcessError: as above.
    """
    return _sha256(_facts())


def _facts() -> Iterator[str]:
    yield from (*platform.uname()[2:5], sys.version, f"user {os.geteuid()}")
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if re.match("processor|vendor_id|model|stepping|microcode|flags|Features|CPU ", line) and "MHz" not in line:
            yield line
    yield from (
        line for line in Path("/proc/self/status").read_text().splitlines() if re.match("Cap|Seccomp:|NoNew", line)
    )
    yield from (
        f"{name} {resource.getrlimit(getattr(resource, name))}" for name in dir(resource) if name.startswith("RLIMIT_")
    )
    yield f"kvm {os.access('/dev/kvm', os.R_OK | os.W_OK)}"
    for name in _KERNEL_FILES:
        try:
            yield f"{name} {Path(name).read_text()}"
        except OSError as error:
            yield f"{name} {error.strerror}"
    yield from (f"{name}={value}" for name, value in sorted(os.environ.items()) if _VARIABLES.match(name))
    yield from sorted(f"{each.name} {each.version}" for each in importlib.metadata.distributions())
    packages = ["dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version} ${db:Status-Status}\n"]
    yield subprocess.run(packages, capture_output=True, text=True, check=True).stdout
    for folder in os.get_exec_path():
        yield folder
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name) if Path(folder).is_dir() else []
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                yield f"{entry.name} leads to nothing"
            else:
                yield f"{entry.name} {status.st_size} {status.st_mtime_ns}"
    if shutil.which("rustc"):  # what rustup starts is not on PATH
        yield subprocess.run(["rustc", "-Vv"], capture_output=True, text=True, check=False).stdout


def _sha256(parts: Iterable[str]) -> str:
    """Return the digest of texts. Each is preceded by its length, so that other parts of the same text have another digest."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape")
        digest.update(b"%d " % len(data))
        digest.update(data)
    return digest.hexdigest()
