"""Runs as files of other tools: Parquet tables, and MCAP logs for Foxglove and ROS."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.errors import DomainError, MissingExtraError, RunFileError
from tiburon.results.dataset import table_of
from tiburon.results.quantities import shown_model
from tiburon.viewer.motion import Track, sample_motion
from tiburon.written_file import replacing

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

EXTRA = "logs"


def write_parquet(run: "Trajectory", path: Path) -> None:
    """Write a table with units in the metadata of its fields.

    Raises:
        MissingExtraError: If pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtraError("pyarrow", EXTRA, "to_parquet") from None
    frame = table_of(run)
    units = {"time": "s", **frame.attrs["units"]}
    table = pyarrow.Table.from_pandas(frame.reset_index(), preserve_index=False)
    fields = [
        field.with_metadata({"unit": units[field.name]}) if units.get(field.name) else field
        for field in table.schema
    ]
    schema = pyarrow.schema(fields, metadata={"model": run.model.name, "software": "tiburon"})
    with replacing(path, RunFileError) as stream:
        parquet.write_table(table.cast(schema), stream)


NANOSECONDS = 1e9

FRAME_TRANSFORMS: dict[str, Any] = {
    "title": "foxglove.FrameTransforms",
    "type": "object",
    "properties": {
        "transforms": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "timestamp": {
                        "type": "object",
                        "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}},
                    },
                    "parent_frame_id": {"type": "string"},
                    "child_frame_id": {"type": "string"},
                    "translation": {
                        "type": "object",
                        "properties": {k: {"type": "number"} for k in "xyz"},
                    },
                    "rotation": {
                        "type": "object",
                        "properties": {k: {"type": "number"} for k in "xyzw"},
                    },
                },
            },
        }
    },
}
"""Schema of the poses of bodies, as Foxglove names it."""


def write_mcap(run: "Trajectory", path: Path) -> None:
    """Write the run of one robot as a log: columns on ``/state``, poses of bodies on ``/tf``.

    Raises:
        DomainError: If it is a batch, or starts before time 0, which logs cannot say.
        MissingExtraError: If mcap is not installed.
    """
    if run.batch:
        raise DomainError(
            "run", "that of one robot", f"a batch of shape {run.batch}", advice="run.part(case=...)"
        )
    if len(run) and run.time[0] < 0.0:
        raise DomainError("run", "times of at least 0 s", f"a start at {run.time[0]:g} s")
    try:
        from mcap.writer import Writer
    except ModuleNotFoundError:
        raise MissingExtraError("mcap", EXTRA, "to_mcap") from None
    columns = [(column, run.array(column.key)) for column in run.header.columns]
    # rows after the end of a robot are NaN, which JSON does not have
    good = np.isfinite(run.q).all(axis=-1)
    times = run.time[good]
    motion = (
        sample_motion(Track(shown_model(run), times, run.q[good]), times, 1) if good.any() else None
    )
    bodies = [body.name for body in run.model.bodies]
    with replacing(path, RunFileError) as stream:
        writer: Any = Writer(stream)
        writer.start(profile="", library="tiburon")
        state = _channel(writer, "/state", "tiburon.State", _state_schema(columns))
        poses = _channel(writer, "/tf", "foxglove.FrameTransforms", FRAME_TRANSFORMS)
        for number, row in enumerate(np.flatnonzero(good)):
            stamp = round(float(run.time[row]) * NANOSECONDS)
            message = {column.name: _named(column, values[row]) for column, values in columns}
            _add(writer, state, stamp, number, {"time": float(run.time[row]), **message})
            assert motion is not None
            placed = motion.poses[number].reshape(len(bodies), 7)
            transforms = [_transform(stamp, *one) for one in zip(bodies, placed, strict=True)]
            _add(writer, poses, stamp, number, {"transforms": transforms})
        writer.finish()


def _channel(writer: Any, topic: str, name: str, schema: dict[str, Any]) -> int:
    number = writer.register_schema(name, "jsonschema", json.dumps(schema).encode())
    return int(writer.register_channel(topic, "json", number))


def _add(writer: Any, channel: int, stamp: int, number: int, message: dict[str, Any]) -> None:
    data = json.dumps(message, allow_nan=False).encode()
    writer.add_message(channel, stamp, data, stamp, number)


def _state_schema(columns: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the schema of a row, with units."""
    properties: dict[str, Any] = {"time": {"type": "number", "description": "s"}}
    for column, _ in columns:
        if column.labels is None:
            properties[column.name] = {"type": "number", "description": str(column.units)}
            continue
        units = column.units
        listed = [units] * len(column.labels) if isinstance(units, str) else units
        parts = {
            label: {"type": "number", "description": unit}
            for label, unit in zip(column.labels, listed, strict=True)
        }
        properties[column.name] = {"type": "object", "properties": parts}
    return {"title": "tiburon.State", "type": "object", "properties": properties}


def _named(column: Any, values: Any) -> Any:
    """Return the values of a column in one row by name; None for what is not finite."""
    found = [float(x) if np.isfinite(x) else None for x in np.ravel(values)]
    return found[0] if column.labels is None else dict(zip(column.labels, found, strict=True))


def _transform(stamp: int, body: str, pose: Any) -> dict[str, Any]:
    w, x, y, z, *origin = (float(value) for value in pose)
    return {
        "timestamp": {"sec": stamp // 10**9, "nsec": stamp % 10**9},
        "parent_frame_id": "world",
        "child_frame_id": body,
        "translation": dict(zip("xyz", origin, strict=True)),
        "rotation": {"x": x, "y": y, "z": z, "w": w},
    }
