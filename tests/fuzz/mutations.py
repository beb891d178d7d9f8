"""Strategies of hypothesis that make bad input: words, bytes, JSON trees, tables, HDF5 files, special files."""

import io
import json
import operator
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

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


def damaged(content: bytes, *, of: bool = True) -> st.SearchStrategy[bytes]:
    """Bytes cut off, flipped, inserted, deleted, overwritten, doubled or, with `of`, another file altogether."""

    def damage(kind: str, at: int, fill: bytes, bits: list[int], other: bytes) -> bytes:
        start = content[:at]
        if kind == "flip":
            flipped = bytearray(content)
            for bit in bits if content else ():
                flipped[bit // 8] ^= 1 << bit % 8
            return bytes(flipped)
        return {
            "cut": start,
            "insert": start + fill + content[at:],
            "delete": start + content[at + len(fill) :],
            "overwrite": start + fill + content[at + len(fill) :],
            "double": content * 2,
            "another": other,
        }[kind]

    last = max(len(content) - 1, 0)
    kinds = ("flip", "flip", "cut", "insert", "delete", "overwrite", "double")
    return st.builds(
        damage,
        st.sampled_from((*kinds, "another") if of else kinds),
        st.integers(0, last),
        st.builds(
            operator.mul,
            st.sampled_from((b"\x00", b"\xff", b"\x80", b"9", b"[")),
            st.integers(1, 16),
        ),
        st.lists(st.integers(0, last * 8), min_size=1, max_size=4),
        st.sampled_from(BAD_FILES),
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
def changed_tree(draw: st.DrawFn, tree: Any) -> Any:
    """A JSON tree with one or two entries replaced, removed, renamed or added."""
    found = json.loads(json.dumps(tree))
    for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
        container, key = draw(st.sampled_from(list(_places(found))))
        kinds = ("replace", "replace", "replace", "remove", "rename", "add", "whole")
        kind = draw(st.sampled_from(kinds))
        if kind == "whole":
            return draw(bad_values())
        if kind == "replace":
            container[key] = draw(bad_values())
        elif kind == "remove":
            del container[key]
        elif isinstance(container, list):
            container.append(draw(bad_values()))
        elif kind == "rename":
            names = ("", "x", f"{key}s", "__class__", "\x00", "x" * 300)
            container[draw(st.sampled_from(names))] = container.pop(key)
        else:
            container[draw(st.text(max_size=8))] = draw(bad_values())
        if not found:
            break
    return found


def _places(tree: Any) -> Any:
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def as_json(tree: Any) -> bytes:
    """Encodes a tree; lone surrogates and NaN stay."""
    return json.dumps(tree).encode()


def as_yaml(tree: Any) -> bytes:
    """Encodes a tree as YAML that our own loader did not write: JSON, in which YAML contains .nan and .inf."""
    text = json.dumps(tree, ensure_ascii=False)
    for name in ("-Infinity", "Infinity", "NaN"):
        text = text.replace(name, {"NaN": ".nan"}.get(name, name.replace("Infinity", ".inf")))
    return text.encode("utf-8", "surrogatepass")


@st.composite
def changed_table(draw: st.DrawFn, content: bytes) -> bytes:
    """A CSV file with cells, columns or rows changed."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from(rows))
        column = draw(st.integers(0, max(len(row) - 1, 0)))
        kind = draw(st.sampled_from(("cell", "cell", "cell", "drop", "extra", "repeat", "without")))
        if kind == "cell" and row:
            row[column] = draw(words())
        elif kind == "drop" and row:
            del row[column]
        elif kind == "extra":
            row.append(draw(words()))
        elif kind == "repeat":
            rows.append(list(row))
        elif len(rows) > 1:
            rows.remove(row)
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogateescape") + b"\n"


KINDS = {
    "str": h5py.string_dtype(),
    "vlen": h5py.vlen_dtype(np.float32),
    "reference": h5py.ref_dtype,
    "enum": h5py.enum_dtype({"A": 0, "B": 1}, "i"),
    "compound": np.dtype([("a", "f4"), ("b", "i4")]),
} | {name: np.dtype(name) for name in ("u1", "i4", "i8", "f2", "f8", ">f4", "c8", "S3", "?")}
SHAPES = (
    (), (0,), (1,), (8,), (8, 1), (8, 0), (2, 9), (8, 9, 9), (0, 9, 9, 25), (8, 9, 9, 25, 1), (8, 0, 9, 25), (8, 1, 1, 1),
)  # fmt: skip
VALUES = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e-30, 1e30, 3e38)
ATTRIBUTES = (
    0, -1, 1e-300, np.nan, np.inf, "50", "x", b"x", [50.0, 100.0], [], np.zeros((3, 3)), h5py.Empty("f4"), 1e300, True, "x" * 60000,
)  # fmt: skip
LINKS = {
    "soft": h5py.SoftLink("/missing"),
    "external": h5py.ExternalLink("/etc/passwd", "/x"),
}


@st.composite
def changed_hdf5(draw: st.DrawFn, content: bytes) -> bytes:
    """A file in the public layout with its structure, its values or its attributes changed."""
    buffer = io.BytesIO(content)
    subjects = draw(st.sets(st.sampled_from(("ECAL", "energy", "theta", "mtheta")), max_size=2))
    with h5py.File(buffer, "r+") as file:
        for name in subjects:
            _change(draw, file, name)
        if not subjects:
            keys = ("cloudgan_ecal_per_gev", "source", "x" * 300, "é", "cloudgan_version")
            owner = file[draw(st.sampled_from(("/", "ECAL", "energy")))]
            value = draw(st.sampled_from((*ATTRIBUTES, "reference")))
            owner.attrs[draw(st.sampled_from(keys))] = file.ref if value == "reference" else value
            extra = draw(st.sampled_from(("bins", "a/b", "é", "x" * 200, "..", "energy2")))
            file.create_dataset(extra, (8,), KINDS[draw(st.sampled_from(sorted(KINDS)))])
    return buffer.getvalue()


def _change(draw: st.DrawFn, file: h5py.File, name: str) -> None:
    kinds = ("drop", "group", "dtype", "shape", "fill", "one", "link", "loop", "virtual")
    kind, shape = draw(st.sampled_from(kinds)), file[name].shape
    if kind in {"fill", "one"}:
        file[name][... if kind == "fill" else 5] = draw(st.sampled_from(VALUES))
        return
    values = file[name][...]
    del file[name]
    if kind == "group":
        file.create_group(name)["x"] = 1
    elif kind == "dtype":
        dtype = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        is_number = h5py.check_dtype(vlen=dtype) is None and dtype.kind in "uifcSb"
        file.create_dataset(name, shape, dtype, data=values.astype(dtype) if is_number else None)
    elif kind == "shape":
        file[name] = np.ones(draw(st.sampled_from(SHAPES)), np.float32)
    elif kind == "link":
        file[name] = LINKS[draw(st.sampled_from(sorted(LINKS)))]
    elif kind == "loop":
        file[name] = h5py.SoftLink(f"/{name}")
    elif kind == "virtual":
        layout = h5py.VirtualLayout(shape, np.float32)
        layout[...] = h5py.VirtualSource("missing.h5", "x", shape)
        file.create_virtual_dataset(name, layout, fillvalue=np.nan)


@st.composite
def changed_npz(draw: st.DrawFn, content: bytes) -> bytes:
    """A NumPy archive with one member damaged, replaced, removed or added; the archive itself is valid."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(members)))
    kinds = ("damage", "remove", "rename", "array", "array", "add", "method")
    kind, method = draw(st.sampled_from(kinds)), zipfile.ZIP_STORED
    if kind == "damage":
        members[name] = draw(damaged(members[name]))
    elif kind == "remove":
        del members[name]
    elif kind == "rename":
        names = ("x", "../x.npy", "meta.json", "generator/99.npy", "generator/00")
        members[draw(st.sampled_from(names))] = members.pop(name)
    elif kind == "method":
        method = draw(st.sampled_from((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    else:
        array = io.BytesIO()
        np.save(array, draw(st.sampled_from(ARRAYS)), allow_pickle=True)
        members[name if kind == "array" else "generator/77.npy"] = array.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for member, each in members.items():
            archive.writestr(member, each)
    return buffer.getvalue()


ARRAYS = (
    np.float32(1), np.zeros(0, np.float32), np.full((2, 3), np.nan, np.float32), np.full((2, 3), np.inf, np.float32), np.ones((3, 2), np.float32),
    np.ones((2, 3), "f8"), np.ones((2, 3), "c8"), np.ones((2, 3), "S3"), np.ones((2, 3), "?"), np.ones((2, 3), "i8"), np.zeros((2, 3), "M8[s]"),
    np.zeros((2, 3), [("a", "f4")]), np.frombuffer(b"{}", np.uint8), np.frombuffer(b"[" * 3000, np.uint8), np.full(4, "x"), np.ones((1,) * 32), np.array([{}], object),
)  # fmt: skip


def _as_folder(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "x").touch()


def _to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _as_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


SPECIAL_FILES: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "folder": _as_folder,
    "link to /dev/zero": _to("/dev/zero"),
    "link to /dev/full": _to("/dev/full"),
    "link to /dev/null": _to("/dev/null"),
    "link to /proc/self/mem": _to("/proc/self/mem"),
    "dangling link": _to("missing"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "sparse file of 1 TiB": _as_sparse,
}


def special(kind: str) -> Callable[[Path], None]:
    """Replaces a file by a special one."""

    def write(path: Path) -> None:
        path.unlink(missing_ok=True)
        SPECIAL_FILES[kind](path)

    return write
