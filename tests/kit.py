"""The C library as an installer leaves it, and the compilers of those who use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import need, run
from facility import binaries

SOURCES = Path(__file__).resolve().parent.parent / "crates" / "capi"
STRICT_C = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1")
STRICT_FORTRAN = ("-std=f2018", "-Wall", "-Wextra", "-Wno-compare-reals", "-Werror", "-O1")


@dataclass(frozen=True)
class Kit:
    """The library as an installer leaves it, and a place for programs."""

    prefix: Path

    def flags(self, *words: str) -> list[str]:
        """Ask pkg-config."""
        env = {"PKG_CONFIG_PATH": str(self.prefix / "pkgconfig")}
        return run("pkg-config", *words, "backplane", env=env).out.split()

    def c(self, source: Path, *more: str, is_static: bool = False) -> Path:
        """Compile a C program."""
        need("gcc", "pkg-config")
        program = self.prefix / (source.stem + ("-static" if is_static else ""))
        libraries = self.flags("--libs")
        if is_static:
            libraries = [str(self.prefix / "lib" / "libbackplane.a"), *self.flags("--libs", "--static")[2:]]
        run("gcc", *STRICT_C, *more, *self.flags("--cflags"), "-o", program, source, *libraries)
        return program

    def fortran(self, source: Path) -> Path:
        """Compile a FORTRAN program with the module."""
        need("gfortran", "pkg-config")
        program = self.prefix / f"{source.stem}-fortran"
        module = SOURCES / "fortran" / "rfio.f90"
        run("gfortran", *STRICT_FORTRAN, f"-J{self.prefix}", "-o", program, module, source, *self.flags("--libs"))
        return program


def lay_out(prefix: Path) -> Kit:
    """Lay the library out as an installer does."""
    built = [binaries() / name for name in ("libbackplane.so", "libbackplane.a")]
    absent = [str(file) for file in built if not file.exists()]
    if absent:
        pytest.fail(f"{', '.join(absent)} is not built: `cargo build -p capi`", pytrace=False)
    for name in ("lib", "pkgconfig"):
        (prefix / name).mkdir()
    for file in built:
        (prefix / "lib" / file.name).symlink_to(file)
    (prefix / "include").symlink_to(SOURCES / "include")
    text = (SOURCES / "backplane.pc.in").read_text()
    for key, value in {"prefix": prefix, "libdir": prefix / "lib", "version": "0.1.0"}.items():
        text = text.replace(f"@{key}@", str(value))
    (prefix / "pkgconfig" / "backplane.pc").write_text(text)
    return Kit(prefix)
