"""Ways to damage or forge the files of a run on disk."""

import io
import json
import os
import random
import zipfile
from functools import partial

import numpy as np

from tiburon.results.store import signed

WRONG = (None, -1, 0, 10**18, 1.5, 1e308, float("nan"), "x", "../../x", True, [], {}, [[1], "a"])
"""What is put in place of values in JSON."""

EACH = 2
"""How many of these are tried at each place, another choice at every one."""

LABELS = 10
"""One in so many damages of arrays that only other programs read is tried."""


def damages(store):
    """Return functions that damage a store, by a name for each.

    Args:
        store: Path of a good store, whose files are looked at.
    """
    found = {}
    files = sorted(p.relative_to(store).as_posix() for p in store.rglob("*") if p.is_file())
    for name in files:
        content = (store / name).read_bytes()
        for label, change in _byte_damages(content, files, store).items():
            found[f"{name}: {label}"] = _on_file(name, change)
        for label, change in _file_damages().items():
            found[f"{name}: {label}"] = _on_file(name, change)
        if name.endswith("zarr.json"):
            every = LABELS if _is_label(name) else 1
            for label, text in list(_json_damages(json.loads(content)))[::every]:
                found[f"{name}: {label}"] = _on_file(name, _writing(text))
        if name == "zarr.json":
            found |= _header_damages(json.loads(content))
        if name.endswith("progress.npz"):
            found |= _progress_damages(name, content)
    return found


def _is_label(name):
    """Return whether an array holds names along a dimension, or units."""
    array = name.split("/")[0]
    return array.endswith("_unit") or array in ("position", "velocity", "actuator")


def _on_file(name, change):
    return lambda store: change(store / name)


def _writing(make, *arguments):
    """Return a change that makes the content of a file only when it is written."""

    def change(file):
        content = make(*arguments)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def _byte_damages(content, files, store):
    rng = random.Random(len(content))
    flipped = bytearray(content)
    for _ in range(3):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    other = (store / rng.choice(files)).read_bytes()
    made = {
        "empty": b"",
        "one byte": content[:1],
        "half": content[: len(content) // 2],
        "cut by one": content[:-1],
        "zeros": bytes(len(content)),
        "random": rng.randbytes(max(1, len(content))),
        "flipped bits": bytes(flipped),
        "longer": content + b"\0garbage",
        # chunks carry no name: one in the place of another is not noticed
        "of another": b"" if len(other) == len(content) else other,
        "many brackets": b"[" * 200_000,
    }
    return {
        label: _writing(bytes, changed) for label, changed in made.items() if changed != content
    }


def _file_damages():
    def delete(file):
        file.unlink()

    def directory(file):
        file.unlink()
        file.mkdir()

    def sparse(file):
        # costs no disk, but would cost memory
        with file.open("r+b") as stream:
            stream.truncate(2**40)

    def pipe(file):
        file.unlink()
        os.mkfifo(file)

    def device(file):
        file.unlink()
        file.symlink_to("/dev/zero")

    def dangling(file):
        file.unlink()
        file.symlink_to("nothing")

    found = {"deleted": delete, "a directory": directory, "a terabyte": sparse}
    if hasattr(os, "mkfifo"):
        found |= {"a pipe": pipe, "a device": device, "a dangling link": dangling}
    return found


def _json_damages(data):
    """Iterate over makers of changed JSON texts: every part missing, or something else."""
    for path in _places(data):
        label = "/".join(map(str, path))
        yield f"without {label}", partial(_changed, data, path, None, delete=True)
        for wrong in random.Random(label).sample(WRONG, EACH):
            yield f"{label} = {wrong!r}", partial(_changed, data, path, wrong)


def _places(data, path=()):
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from _places(value, (*path, key))


def _changed(data, path, value, *, delete=False):
    copy = json.loads(json.dumps(data))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    if delete:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return json.dumps(copy)


def _header_damages(data):
    """Return forged headers: what is said of the run is changed, with a checksum that fits."""
    header = json.loads(data["attributes"]["run"])
    found = {}

    def forged(text):
        attributes = {**data["attributes"], **signed("run", text())}
        return json.dumps({**data, "attributes": attributes})

    for label, text in _json_damages(header):
        found[f"header: {label}"] = _on_file("zarr.json", _writing(forged, text))
    return found


def _progress_damages(name, content):
    """Return forged checkpoints: notes and arrays are changed, in files that are whole."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {key: file[key] for key in file.files}
    notes = json.loads(str(arrays["notes"]))
    found = {}

    def saved(changed, save=np.savez):
        buffer = io.BytesIO()
        save(buffer, **changed)
        return buffer.getvalue()

    def with_notes(text):
        return saved({**arrays, "notes": np.array(text())})

    def add(label, changed):
        found[f"progress: {label}"] = _on_file(name, _writing(saved, changed))

    for label, text in _json_damages(notes):
        found[f"progress: {label}"] = _on_file(name, _writing(with_notes, text))
    for key, array in arrays.items():
        add(f"without {key}", {k: a for k, a in arrays.items() if k != key})
        for kind in ("f4", "i8", "c16", "S9", "bool"):
            if key != "notes":
                add(f"{key} as {kind}", {**arrays, key: np.zeros(array.shape, kind)})
        add(f"{key} flat", {**arrays, key: array.reshape(-1)[:1]})
        add(f"{key} long", {**arrays, key: np.concatenate([array.reshape(-1)] * 3)})
    packed = {**arrays, "more": np.zeros(10**7)}
    found["progress: packed"] = _on_file(name, _writing(saved, packed, np.savez_compressed))
    found["progress: claims much"] = _on_file(name, _writing(_claiming, content))
    return found


def _claiming(content):
    """Return an .npz file with an array whose header claims 745 GiB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        array = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**11,)}
        np.lib.format.write_array_header_1_0(array, header)
        new.writestr("array.much.npy", array.getvalue())
    return buffer.getvalue()
