"""Checkpoints in the safetensors format, written and read strictly, with the standard library and NumPy.

The format: a little-endian u64 header length, a JSON header, the tensors' bytes. The `safetensors` package does not
load in the browser; tests hold this module to it in both directions. Source: the format's README, version 0.8.
"""

from __future__ import annotations

import json
import struct

import numpy as np

from minigpt.model import COURSE_SHAPE, ModelShape, parameter_count, views

FORMAT_VERSION = "1"
LARGEST_HEADER = 100_000_000
LARGEST_FILE = 512_000_000
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class CheckpointError(ValueError):
    """The bytes are not a checkpoint this course can use; the message says what was expected."""


def write_tensors(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a safetensors file: deterministic, tensors in the order given, data aligned to 8 bytes."""
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    buffers, offset = [], 0
    for name, tensor in tensors.items():
        dtype = tensor.dtype.newbyteorder("<")
        if dtype not in NAMES:
            raise CheckpointError(f"tensor {name!r} has dtype {tensor.dtype}: expected one of {', '.join(DTYPES)}")
        data = np.ascontiguousarray(tensor, dtype=dtype).tobytes()
        header[name] = {
            "dtype": NAMES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        buffers.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(buffers)


def _unique_keys(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise CheckpointError(f"the header names something twice: {sorted(keys)}")
    return dict(pairs)


def _read_header(data: bytes) -> tuple[dict, int]:
    if len(data) < 8:
        raise CheckpointError(f"a safetensors file starts with an 8-byte header length; there are {len(data)} bytes")
    if len(data) > LARGEST_FILE:
        raise CheckpointError(f"the file has {len(data)} bytes; at most {LARGEST_FILE} are read")
    (length,) = struct.unpack("<Q", data[:8])
    if not 2 <= length <= min(LARGEST_HEADER, len(data) - 8):
        raise CheckpointError(f"the header says it has {length} bytes, but {len(data) - 8} follow: file cut or damaged")
    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=_unique_keys)
    except CheckpointError:
        raise
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"the header must be a JSON object, got {type(header).__name__}")
    return header, 8 + length


def _is_whole(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_entry(name: str, entry) -> tuple[np.dtype, tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"tensor {name!r} must have exactly dtype, shape and data_offsets")
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise CheckpointError(f"tensor {name!r} has dtype {entry['dtype']!r}: expected one of {', '.join(DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_is_whole, shape)):
        raise CheckpointError(f"tensor {name!r} has shape {shape!r}: expected a list of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_whole, offsets)):
        raise CheckpointError(f"tensor {name!r} has data_offsets {offsets!r}: expected [begin, end]")
    size = dtype.itemsize
    for length in shape:
        size *= length
    if offsets[1] - offsets[0] != size:
        raise CheckpointError(
            f"tensor {name!r} needs {size} bytes, its offsets {offsets} hold {offsets[1] - offsets[0]}"
        )
    return dtype, tuple(shape), offsets[0], offsets[1]


def read_tensors(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata of a safetensors file, all of it validated before anything is allocated.

    Raises CheckpointError for a damaged header, unknown dtype, wrong size, overlap, hole or trailing bytes.
    """
    header, start = _read_header(data)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError("__metadata__ must map strings to strings")
    entries = {name: _check_entry(name, entry) for name, entry in header.items()}
    reached = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != reached:
            raise CheckpointError(f"tensor {name!r} begins at byte {begin}, expected {reached}: an overlap or a hole")
        reached = end
    if reached != len(data) - start:
        raise CheckpointError(f"the tensors take {reached} bytes, the file holds {len(data) - start}: cut or damaged")
    tensors = {}
    for name, (dtype, shape, begin, end) in entries.items():
        flat = np.frombuffer(data[start + begin : start + end], dtype=dtype)
        tensors[name] = flat.reshape(shape).astype(dtype.newbyteorder("="))
    return tensors, metadata


def save_model(parameters: np.ndarray, metadata: dict[str, str], shape: ModelShape = COURSE_SHAPE) -> bytes:
    """A model's checkpoint: its named tensors, and metadata strings (format, steps, seed, backend …)."""
    return write_tensors(views(shape, parameters), {**metadata, "version": FORMAT_VERSION})


def load_model(data: bytes, shape: ModelShape = COURSE_SHAPE) -> tuple[np.ndarray, dict[str, str]]:
    """Flat float32 parameters and metadata. Raises CheckpointError unless all the model's tensors are there, finite."""
    tensors, metadata = read_tensors(data)
    if metadata.get("version") != FORMAT_VERSION:
        raise CheckpointError(
            f"the checkpoint has version {metadata.get('version')!r}, this course reads {FORMAT_VERSION!r}"
        )
    vector = np.zeros(parameter_count(shape), dtype=np.float32)
    targets = views(shape, vector)
    if set(tensors) != set(targets):
        missing, extra = sorted(set(targets) - set(tensors)), sorted(set(tensors) - set(targets))
        raise CheckpointError(f"the checkpoint is of another model: missing {missing}, unexpected {extra}")
    for name, target in targets.items():
        tensor = tensors[name]
        if tensor.dtype != np.float32 or tensor.shape != target.shape:
            raise CheckpointError(f"tensor {name!r} must be float32 {target.shape}, got {tensor.dtype} {tensor.shape}")
        if not np.isfinite(tensor).all():
            raise CheckpointError(f"tensor {name!r} holds values that are not finite: the training had broken down")
        target[...] = tensor
    return vector, metadata
