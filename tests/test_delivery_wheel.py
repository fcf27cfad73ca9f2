"""The wheel that pages load: the course's Python, complete, the same bytes at every build."""

import base64
import csv
import hashlib
import os
import subprocess
import sys
import zipfile

import pytest

from builder.errors import BuildError
from builder.wheel import build_wheel, describe_wheel


@pytest.fixture
def course(tmp_path):
    """A project with the two packages and a bit of what must not ship."""
    root = tmp_path / "project"
    files = {
        "pyproject.toml": '[project]\nname = "raona"\nversion = "0.1.0"\nrequires-python = ">=3.11"\n',
        "minigpt/__init__.py": "width = 16\n",
        "minigpt/__pycache__/x.py": "",
        "widgets/__init__.py": "",
        "widgets/cot/labels.toml": "title = 'x'\n",
        "widgets/_runtime/storage.json": "{}\n",
        "widgets/_runtime/ui/widget.ts": "export {};\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_two_builds_give_the_same_bytes_whatever_the_clock_and_the_order(course, tmp_path, monkeypatch):
    first = build_wheel(tmp_path / "a", root=course)
    for path in course.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    second = build_wheel(tmp_path / "b", root=course)
    assert first.read_bytes() == second.read_bytes()
    assert first.parent.name == second.parent.name


def test_a_changed_course_gets_another_address(course, tmp_path):
    before = build_wheel(tmp_path, root=course)
    (course / "minigpt" / "__init__.py").write_text("width = 32\n", encoding="utf-8")
    assert build_wheel(tmp_path, root=course).parent != before.parent


def test_the_wheel_has_python_and_its_data_and_nothing_else(course, tmp_path):
    with zipfile.ZipFile(build_wheel(tmp_path, root=course)) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert names == [
        "minigpt/__init__.py",
        "widgets/__init__.py",
        "widgets/_runtime/storage.json",
        "widgets/cot/labels.toml",
    ]


def test_the_record_lists_every_file_with_its_hash(course, tmp_path):
    with zipfile.ZipFile(build_wheel(tmp_path, root=course)) as archive:
        rows = list(csv.reader(archive.read("raona-0.1.0.dist-info/RECORD").decode().splitlines()))
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            if digest:
                data = archive.read(name)
                value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={value}", str(len(data)))


def test_the_real_course_imports_from_its_wheel(tmp_path):
    wheel = build_wheel(tmp_path)
    code = (
        "import minigpt, widgets\nfrom widgets._runtime import registry\n"
        "assert 'cot' in registry.discover()\nassert '.whl' in minigpt.__file__ + widgets.__file__"
    )
    unpacked = tmp_path / "unpacked.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    environment = {**os.environ, "PYTHONPATH": os.fspath(unpacked)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_manifest_entry_is_relative_to_the_site(course, tmp_path):
    wheel = build_wheel(tmp_path / "dist" / "runtime", root=course)
    entry = describe_wheel(wheel, tmp_path / "dist")
    assert entry["url"] == f"runtime/{wheel.parent.name}/raona-0.1.0-py3-none-any.whl"
    assert entry["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_a_folder_without_the_packages_is_an_error(course, tmp_path):
    (course / "minigpt" / "__init__.py").unlink()
    with pytest.raises(BuildError, match="minigpt has no __init__"):
        build_wheel(tmp_path, root=course)
