"""Strategies of hypothesis that make bad input: words, bytes, JSON trees, tables, HDF5 files, special files."""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORDS = (
    "", " ", "0", "-0", "1", "-1", "2", "1e9", "1e308", "1e400", "-1e308", "nan", "inf", "-inf", "NaN", "0x10",
    "1_000", "1__0", "٣", "½", "10" * 12, "9" * 5000, "-" + "9" * 400, str(2**31), str(2**63), str(2**64),
    str(-(2**63)), "0.1", ".", "~", "~nobody/x",
    "true", "false", "null", "None", "[]", "{}", "[[[[", "{'a': [1, {}]}", "(1,2)", "1,2,3", ",", ",,", ":", "1:",
    ":1", "100:10", "nan:nan", "-5:5", "1:2:3", "0:0", "inf:inf", "x" * 300, "x" * 5000, "/".join("x" * 90), "\u202e", "é",
    "日本語", "\udcff", "a\nb", "a\tb", "\r", "\x1b[31m", "%s%n", "$(id)", "`id`", "; id", "*", "?", "[", "[a-", "**",
    "{0.__class__}", "gs://", "gs://a", "gs://a b/c", "s3://", "s3:///x", "s3://A_B", "file:///etc/passwd", "http://[", "https://",
    "https://u:p@h/c", "pvc:", "pvc:../x", "-", "--", "---", "--=", "=", "a=b", "@file", "best", "latest", "\\", "C:\\x", "con",
    "runs", "runs/", "runs/mine", "runs/mine/run.yaml", "showers.h5", "store", "run.yaml", "missing", "missing/x.h5",
    "gcp/n1-standard-8+1xV100/us-central1/spot", "gcp/x", "////", "v100:0", "v100:-1", "v100:1e3", ":8", "metric<0.1",
    "metric<nan", "metric<", "<", "foo<1", "0m", "-1m", "99999999d", "1e30h", "20m", "pool=gpu", "pool=", "=gpu", "a=b,a=c",
)  # fmt: skip
"""What people and scripts type by mistake, and what an attacker tries."""

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 10**6, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, -0.5, 1e-300, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip

SCALARS: tuple[Any, ...] = (
    *NUMBERS, None, True, False, "", " ", "x", "1", "nan", "Infinity", "\x00", "\ud800", "x" * 5000, "../../other", "/etc/passwd",
    "2026-02-30", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-11-21", "a\nb", "日本", "1e400", "-5", "mine/../..",
)  # fmt: skip


def bad_values() -> st.SearchStrategy[Any]:
    """Values of a wrong kind or out of range, some nested."""
    leaves = st.sampled_from(SCALARS)
    nested = st.sampled_from(
        ([], {}, [None], [[]], {"a": {}}, {"": 1}, [1, "x", None], {"x": [1, {}]}, [float("nan")])
    )
    return st.one_of(leaves, leaves, nested, st.integers(), st.floats(), st.text(max_size=20))


def words() -> st.SearchStrategy[str]:
    """Texts of a command line; without NUL, which no command line can hold."""
    free = st.text(
        st.characters(blacklist_characters="\x00", blacklist_categories=("Cs",)), max_size=30
    )
    return st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from(WORDS),
        st.integers().map(str),
        st.floats().map(str),
        free,
    )


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes cut off, flipped, inserted, deleted, overwritten, doubled, or another file altogether."""
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    size = draw(st.integers(1, 16))
    bits = draw(st.lists(st.integers(0, max(len(content) * 8 - 1, 0)), min_size=1, max_size=4))
    flipped = bytearray(content)
    for bit in bits if content else ():
        flipped[bit // 8] ^= 1 << bit % 8
    filler = draw(st.sampled_from((b"\x00", b"\xff", b"\x80", b"9", b"[")))
    return draw(
        st.sampled_from(
            (
                content[:at],
                bytes(flipped),
                bytes(flipped),
                content[:at] + filler * size + content[at:],
                content[:at] + content[at + size :],
                content[:at] + filler * size + content[at + size :],
                content + content,
                draw(st.sampled_from(BAD_FILES)),
            )
        )
    )


BAD_FILES = (
    b"", b"\x00", b"\x00" * 4096, b"\xff\xfe", b"\xff" * 64, b"\xef\xbb\xbf", b"\n" * 100, b"null", b"[]", b"{}", b"true", b"0", b'""',
    b"[" * 3000, b"{\"a\":" * 3000, b"- " * 3000, b"9" * 5000, b"-" + b"9" * 5000, b"1e999999999", b'{"a": NaN}', b"\x89HDF\r\n\x1a\n",
    b"PK\x03\x04", b"PK\x05\x06" + b"\x00" * 18, b"\x1f\x8b\x08\x00", b"PAR1", b"a: &a [*a]", b"!!python/object/apply:os.system [id]",
    b"!!int x", b"!!float x", b"!!timestamp x", b"!!binary x", b"!!omap x", b"2026-02-30", b"2026-13-45T99:99:99Z", b"? [a]\n: b", b"{[1]: 2}",
    b"<<: 1", b"<<: [1]", b"<<: {a: 1}", b"a: !!set {1, 2}", b"a: b: c", b"\t", b"%YAML 9.9\n---\n", b"---\n---\n", b"*a", b"a: *b",
    b"&a a: *a", b"1: 2", b"true: 1", b"null: 1", b"[[a]]\nx = 1", b"a = 1979-99-99", b"a.b.c = 1\na = 2", b"x = 99999999999999999999999",
    b"a,b\n1", b'"', b'a,"b\n', b"n,seconds\n1,\x00\n", b"n,seconds\n" + b"9" * 5000 + b",1\n", "é".encode("latin-1"), "日本".encode("utf-16"),
)  # fmt: skip
"""Whole files that are no valid document, or a wrong one; from the faults found in November 2026."""


@st.composite
def changed_tree(draw: st.DrawFn, tree: Any) -> tuple[Any, str]:
    """A JSON tree with one or two entries replaced, removed, renamed or added, and what was changed."""
    found = json.loads(json.dumps(tree))
    notes = []
    for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
        places = list(_places(found))
        container, key, path = draw(st.sampled_from(places))
        kind = draw(
            st.sampled_from(("replace", "replace", "replace", "remove", "rename", "add", "whole"))
        )
        if kind == "whole":
            return draw(bad_values()), "whole document"
        if kind == "replace":
            container[key] = draw(bad_values())
        elif kind == "remove":
            del container[key]
        elif kind == "rename" and isinstance(container, dict):
            container[
                draw(st.sampled_from(("", "x", str(key) + "s", "__class__", "\x00", "x" * 300)))
            ] = container.pop(key)
        elif isinstance(container, dict):
            container[draw(st.text(max_size=8))] = draw(bad_values())
        else:
            container.append(draw(bad_values()))
        notes.append(f"{kind} {path}")
        if not found:
            break
    return found, ", ".join(notes)


def _places(tree: Any, path: str = "") -> Any:
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key, f"{path}.{key}".lstrip(".")
        if isinstance(value, dict | list):
            yield from _places(value, f"{path}.{key}")


def as_json(tree: Any) -> bytes:
    """Encodes a tree; lone surrogates and NaN stay."""
    return json.dumps(tree).encode()


def as_yaml(tree: Any) -> bytes:
    """Encodes a tree as YAML that our own loader did not write: JSON, in which YAML contains .nan and .inf."""
    text = (
        json.dumps(tree, ensure_ascii=False)
        .replace("-Infinity", "-.inf")
        .replace("Infinity", ".inf")
    )
    return text.replace("NaN", ".nan").encode("utf-8", "surrogatepass")


@st.composite
def changed_table(draw: st.DrawFn, content: bytes) -> bytes:
    """A CSV file with cells, columns or rows changed."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(rows) - 1))
        column = draw(st.integers(0, max(len(rows[row]) - 1, 0)))
        kind = draw(
            st.sampled_from(("cell", "cell", "cell", "cell", "drop", "extra", "repeat", "without"))
        )
        if kind == "cell" and rows[row]:
            rows[row][column] = draw(words())
        elif kind == "drop" and rows[row]:
            del rows[row][column]
        elif kind == "extra":
            rows[row].append(draw(words()))
        elif kind == "repeat":
            rows.append(list(rows[row]))
        elif len(rows) > 1:
            del rows[row]
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogateescape") + b"\n"


DTYPES = (
    "u1",
    "i4",
    "i8",
    "f2",
    "f8",
    ">f4",
    "c8",
    "S3",
    "?",
    "str",
    "vlen",
    "compound",
    "reference",
    "enum",
)


class Hdf5Change(NamedTuple):
    """One change of a file in the public layout.

    Attributes:
        subject: What it changes; two changes of one file have different subjects, because the first
            may leave nothing that the second can change.
    """

    subject: str
    name: str
    apply: Callable[[h5py.File], None]


def hdf5_change() -> st.SearchStrategy[Hdf5Change]:
    """Changes of the structure, the values or the attributes of a file in the public layout."""
    name = st.sampled_from(("ECAL", "energy", "theta", "mtheta"))
    return st.one_of(
        st.builds(_drop, name),
        st.builds(_group, name),
        st.builds(_dtype, name, st.sampled_from(DTYPES)),
        st.builds(_reshape, name, st.sampled_from(((), (0,), (1,), (8,), (8, 1), (8, 0), (2, 9), (8, 9, 9), (0, 9, 9, 25), (8, 9, 9, 25, 1), (8, 0, 9, 25), (8, 1, 1, 1)))),
        st.builds(_fill, name, st.sampled_from((0.0, -1.0, np.nan, np.inf, -np.inf, 1e-30, 1e30, 3e38))),
        st.builds(_one, name, st.sampled_from((0.0, -1.0, np.nan, np.inf, 1e30))),
        st.builds(_attribute, st.sampled_from(("", "ECAL", "energy")), st.sampled_from(("cloudgan_ecal_per_gev", "source", "x" * 300, "é", "cloudgan_version")), st.sampled_from((0, -1, 1e-300, np.nan, np.inf, "50", "x", b"x", [50.0, 100.0], [], np.zeros((3, 3)), "empty", "reference", 10**300, True, "long"))),
        st.builds(_extra, st.sampled_from(("bins", "a/b", "é", "x" * 200, "..", "energy2")), st.sampled_from((*DTYPES, "f4"))),
        st.builds(_link, name, st.sampled_from(("soft", "external", "loop"))),
        st.builds(_virtual, name),
    )  # fmt: skip


def _values(dtype: str, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    if dtype == "str":
        return np.full(shape, "x", h5py.string_dtype())
    if dtype == "compound":
        return np.zeros(shape, [("a", "f4"), ("b", "i4")])
    if dtype == "enum":
        return np.zeros(shape, h5py.enum_dtype({"A": 0, "B": 1}, "i"))
    return np.arange(count).reshape(shape).astype(dtype)


def _drop(name: str) -> Hdf5Change:
    return Hdf5Change(name, f"without {name}", lambda file: file.__delitem__(name))


def _group(name: str) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        del file[name]
        file.create_group(name)["x"] = 1

    return Hdf5Change(name, f"{name} is a group", change)


def _create(file: h5py.File, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    if dtype == "vlen":
        file.create_dataset(name, shape, h5py.vlen_dtype(np.float32))
    elif dtype == "reference":
        file.create_dataset(name, shape, h5py.ref_dtype)
    elif dtype in {"str", "enum"}:
        kind = h5py.string_dtype() if dtype == "str" else h5py.enum_dtype({"A": 0}, "i")
        file.create_dataset(name, shape, kind)
    else:
        file[name] = _values(dtype, shape)


def _dtype(name: str, dtype: str) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        shape = file[name].shape
        del file[name]
        _create(file, name, dtype, shape)

    return Hdf5Change(name, f"{name} as {dtype}", change)


def _reshape(name: str, shape: tuple[int, ...]) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = np.ones(shape, np.float32)

    return Hdf5Change(name, f"{name} has shape {shape}", change)


def _fill(name: str, value: float) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        file[name][...] = value

    return Hdf5Change(name, f"{name} is {value}", change)


def _one(name: str, value: float) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        file[name][5] = value

    return Hdf5Change(name, f"{name} of event 5 is {value}", change)


def _attribute(name: str, key: str, value: Any) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        if name and not isinstance(file.get(name, getlink=True), h5py.HardLink):
            return  # another change removed it, or made it a link
        owner = file[name] if name else file
        special = {"empty": h5py.Empty("f4"), "reference": file.ref, "long": "x" * 60000}
        given = special.get(value, value) if isinstance(value, str) else value
        owner.attrs[key] = float(given) if isinstance(given, int) and given > 2**62 else given

    label = f"attribute {key:.30} of {name or 'file'} is {value!r:.40}"
    return Hdf5Change(f"attributes of {name}", label, change)


def _extra(name: str, dtype: str) -> Hdf5Change:
    label = f"extra {name:.30} as {dtype}"
    return Hdf5Change("extra", label, lambda file: _create(file, name, dtype, (8,)))


def _link(name: str, kind: str) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        del file[name]
        links = {"soft": h5py.SoftLink("/missing"), "loop": h5py.SoftLink(f"/{name}")}
        file[name] = links.get(kind) or h5py.ExternalLink("/etc/passwd", "/x")

    return Hdf5Change(name, f"{name} is a {kind} link", change)


def _virtual(name: str) -> Hdf5Change:
    def change(file: h5py.File) -> None:
        shape = file[name].shape
        del file[name]
        layout = h5py.VirtualLayout(shape, np.float32)
        layout[...] = h5py.VirtualSource("missing.h5", "x", shape)
        file.create_virtual_dataset(name, layout, fillvalue=np.nan)

    return Hdf5Change(name, f"{name} is a virtual dataset of a missing file", change)


def changed_hdf5(content: bytes, change: Callable[[h5py.File], None]) -> bytes:
    """Applies a change to the bytes of an HDF5 file."""
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        change(file)
    return buffer.getvalue()


@st.composite
def changed_npz(draw: st.DrawFn, content: bytes) -> tuple[bytes, str]:
    """A NumPy archive with one member damaged, replaced, removed or added; the archive itself is valid."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(members)))
    kind = draw(
        st.sampled_from(("damage", "remove", "rename", "array", "array", "add", "pickle", "method"))
    )
    method = zipfile.ZIP_STORED
    if kind == "damage":
        members[name] = draw(damaged(members[name]))
    elif kind == "remove":
        del members[name]
    elif kind == "rename":
        members[
            draw(
                st.sampled_from(("x", "../x.npy", "meta.json", "generator/99.npy", "generator/00"))
            )
        ] = members.pop(name)
    elif kind == "array":
        members[name] = _npy(draw(st.sampled_from(ARRAYS)))
    elif kind == "add":
        members["generator/77.npy"] = _npy(draw(st.sampled_from(ARRAYS)))
    elif kind == "pickle":
        buffer = io.BytesIO()
        np.save(buffer, np.array([{}], object), allow_pickle=True)
        members[name] = buffer.getvalue()
    else:
        method = draw(st.sampled_from((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for member, each in members.items():
            archive.writestr(member, each)
    return buffer.getvalue(), f"{kind} {name}"


ARRAYS = (
    np.float32(1), np.zeros(0, np.float32), np.full((2, 3), np.nan, np.float32), np.full((2, 3), np.inf, np.float32), np.ones((3, 2), np.float32),
    np.ones((2, 3), "f8"), np.ones((2, 3), "c8"), np.ones((2, 3), "S3"), np.ones((2, 3), "?"), np.ones((2, 3), "i8"), np.zeros((2, 3), "M8[s]"),
    np.zeros((2, 3), [("a", "f4")]), np.frombuffer(b"{}", np.uint8), np.frombuffer(b"[" * 3000, np.uint8), np.full(4, "x"), np.ones((1,) * 32),
)  # fmt: skip


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _as_fifo(path: Path) -> None:
    os.mkfifo(path)


def _as_folder(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "x").touch()


def _to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _as_loop(path: Path) -> None:
    path.symlink_to(path.name)


def _as_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


SPECIAL_FILES: dict[str, Callable[[Path], None]] = {
    "FIFO": _as_fifo,
    "folder": _as_folder,
    "link to /dev/zero": _to("/dev/zero"),
    "link to /dev/full": _to("/dev/full"),
    "link to /dev/null": _to("/dev/null"),
    "link to /proc/self/mem": _to("/proc/self/mem"),
    "dangling link": _to("missing"),
    "link to itself": _as_loop,
    "sparse file of 1 TiB": _as_sparse,
}


def special(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Replaces a file by a special one."""

    def write(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            for each in sorted(path.rglob("*"), reverse=True):
                each.rmdir() if each.is_dir() else each.unlink()
            path.rmdir()
        path.unlink(missing_ok=True)
        make(path)

    return write
