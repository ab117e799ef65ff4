"""Prints the shell script that starts the project here: its only program or the one of its
own name, else server.py, main.py, app.py or __main__.py. With an argument it prints what pip
is to install: the project itself if it is a package, else what it depends on; or, with the argument
uv, whether uv is to install it: it is locked, unlocked, or has nothing of uv's."""

import pathlib
import shlex
import sys

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib



def read(manifest):
    return tomllib.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}


config = read(pathlib.Path("pyproject.toml"))
project = config.get("project", {})
poetry = config.get("tool", {}).get("poetry", {})
programs = project.get("scripts") or poetry.get("scripts") or {}

if sys.argv[1:] == ["uv"]:
    # pip knows nothing of uv's sources, and would ask an index for packages that they name.
    above = [at for at in [pathlib.Path.cwd(), *pathlib.Path.cwd().parents] if at.is_relative_to("/opt/server")]
    if any((at / "uv.lock").exists() for at in above):
        print("locked")
    elif project and any((at / "uv.toml").exists() or "uv" in read(at / "pyproject.toml").get("tool", {}) for at in above):
        print("unlocked")
    sys.exit()
if len(sys.argv) > 1:
    if programs or "build-system" in config:
        print(".")
    else:
        print("\n".join(project.get("dependencies", [])))
    sys.exit()

name = next(iter(programs)) if len(programs) == 1 else project.get("name", poetry.get("name"))
file = next((f for f in ("server.py", "main.py", "app.py", "__main__.py") if pathlib.Path(f).is_file()), None)
print("#!/bin/sh")
if name in programs:
    print("exec", shlex.quote(f"/opt/venv/bin/{name}"), '"$@"')
elif file:
    print("exec /opt/venv/bin/python", shlex.quote(str(pathlib.Path(file).resolve())), '"$@"')
else:
    print("echo 'the project names no program of its own: give it one under project.scripts, or give the server a command' >&2; exit 1")
