"""Builds the contenders. A peer is built again only when its sources or its compiler changed."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CXX_FLAGS = ["-O3", "-DNDEBUG", "-std=c++20", "-pthread"]


@dataclass
class Contender:
    name: str
    program: Path | None = None  # None: it could not be built
    names: list = field(default_factory=list)
    trouble: str = ""


class Unavailable(Exception):
    """A peer that this machine cannot build, with the reason."""


class Builder:
    def __init__(self, root, out):
        self.root = root
        self.out = out
        self.peers = root / "bench" / "peers"

    def command(self, args, cwd=None, env=None):
        done = subprocess.run(args, cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            log = self.out / "build.log"
            log.write_text(f"$ {' '.join(map(str, args))}\n{done.stdout}")
            lines = [line for line in done.stdout.splitlines() if "error" in line]
            first = lines[0] if lines else (done.stdout.strip().splitlines() or ["no output"])[-1]
            raise Unavailable(f"{first.strip()[:150]} (all of it: {log})")
        return done.stdout

    def cached(self, name, compiler, sources, build):
        """Runs build(program) unless the program is there for these sources and this compiler."""
        digest = hashlib.sha256(self.command(compiler).encode())
        digest.update(Path(__file__).read_bytes())
        for path in sorted(sources):
            digest.update(path.name.encode() + path.read_bytes())
        program = self.out / name
        stamp = self.out / f"{name}.stamp"
        if program.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
            return program
        stamp.unlink(missing_ok=True)
        build(program)
        stamp.write_text(digest.hexdigest())
        return program

    def cxx(self, name, libraries=(), header=None):
        if header and not Path("/usr/include", header).exists():
            raise Unavailable(f"{header} is missing; scripts/setup --bench installs it")
        files = list((self.peers / name).glob("*.[ch]pp"))
        units = sorted(path for path in files if path.suffix == ".cpp")
        protocol = self.root / "bench" / "suite" / "protocol.hpp"

        def build(program):
            self.command(["g++", *CXX_FLAGS, f"-I{self.root}/bench", f"-I{self.peers}", *units,
                          "-o", program, *(f"-l{library}" for library in libraries)])
        return self.cached(name, ["g++", "--version"], [*files, protocol], build)

    def go(self):
        if not shutil.which("go"):
            raise Unavailable("no Go compiler; scripts/setup --bench installs it")
        folder = self.peers / "go"
        env = {"GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": str(self.out / "go-cache")}

        def build(program):
            self.command(["go", "build", "-o", program, "."], folder, env)
        return self.cached("go", ["go", "version"], list(folder.glob("*.go")), build)

    def tokio(self):
        """From the crates of the distribution, in a copy of the sources: cargo leaves a lock file
        beside them."""
        registry = Path("/usr/share/cargo/registry")
        cargo = shutil.which("cargo", path="/usr/bin") or shutil.which("cargo")
        if not cargo or not list(registry.glob("tokio-1*")):
            raise Unavailable("no cargo or no tokio crate; scripts/setup --bench installs them")
        folder = self.peers / "tokio"
        files = [path for path in folder.rglob("*") if path.is_file()]

        def build(program):
            copy = self.out / "tokio-build"
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            config = copy / ".cargo" / "config.toml"
            config.parent.mkdir(exist_ok=True)
            config.write_text('[source.crates-io]\nreplace-with = "debian"\n'
                              f'[source.debian]\ndirectory = "{registry}"\n')
            env = {"CARGO_HOME": str(self.out / "cargo-home"),
                   "CARGO_TARGET_DIR": str(copy / "target")}
            if Path("/usr/bin/rustc").exists():
                env["RUSTC"] = "/usr/bin/rustc"
            self.command([cargo, "build", "--release", "--offline"], copy, env)
            shutil.copy2(copy / "target" / "release" / "tokio-contender", program)
        return self.cached("tokio", [cargo, "--version"], files, build)

    def ours(self, target):
        return self.root / "build" / "release" / "bin" / target

    def build_ours(self):
        self.command([self.root / "scripts" / "build", "release", "weft_bench_suite"])

    def all(self, wanted, say):
        """The contenders, those that could not be built included."""
        recipes = {
            "weft": lambda: self.ours("suite_weft"),
            "limit": lambda: self.ours("suite_limit"),
            "boost_fiber": lambda: self.cxx("boost_fiber", ["boost_fiber", "boost_context"],
                                            "boost/fiber/all.hpp"),
            "go": self.go,
            "tokio": self.tokio,
            "asio": lambda: self.cxx("asio", [], "boost/asio.hpp"),
            "threads": lambda: self.cxx("threads"),
        }
        found = []
        for name, recipe in recipes.items():
            if wanted and name not in wanted and name not in ("weft", "limit"):
                continue
            contender = Contender(name)
            try:
                contender.program = recipe()
                contender.names = self.command([contender.program, "--list"]).split()
            except (Unavailable, OSError) as error:
                contender.program = None
                contender.trouble = str(error)
                say(f"{name}: left out: {error}")
            found.append(contender)
        return found
