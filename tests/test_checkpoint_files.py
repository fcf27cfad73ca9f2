"""Claims about checkpoint files: they are safetensors, and anything else is refused with a reason."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt import model
from minigpt.checkpoint import CheckpointError, load_model, read_tensors, save_model, write_tensors

PARAMETERS = model.initial_parameters(3)
METADATA = {"format": "reasoned", "steps": "500", "seed": "3", "backend": "numpy"}
MODEL_FILE = save_model(PARAMETERS, METADATA)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_the_safetensors_package_reads_what_we_write(tmp_path):
    theirs = safetensors.numpy.load(MODEL_FILE)
    ours = model.views(model.COURSE_SHAPE, PARAMETERS)
    assert theirs.keys() == ours.keys()
    for name, tensor in ours.items():
        assert theirs[name].dtype == np.float32
        assert (theirs[name] == tensor).all()
    path = tmp_path / "model.safetensors"
    path.write_bytes(MODEL_FILE)
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == {**METADATA, "version": "1"}


def test_we_read_what_the_safetensors_package_writes():
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([1, -1], dtype=np.int64),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "scalar": np.array(2.5, dtype=np.float64),
    }
    read, metadata = read_tensors(safetensors.numpy.save(tensors, {"key": "value · à"}))
    assert metadata == {"key": "value · à"}
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        assert (read[name] == tensor).all()


def test_a_model_survives_the_round_trip_bit_for_bit():
    parameters, metadata = load_model(MODEL_FILE)
    assert parameters.tobytes() == PARAMETERS.tobytes()
    assert metadata == {**METADATA, "version": "1"}
    assert save_model(parameters, METADATA) == MODEL_FILE


def test_data_is_aligned_to_8_bytes():
    (length,) = struct.unpack("<Q", MODEL_FILE[:8])
    assert length % 8 == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "8-byte header length"),
        (b"\0" * 7, "8-byte header length"),
        (struct.pack("<Q", 1 << 40) + b"{}", "file cut or damaged"),
        (struct.pack("<Q", 0), "file cut or damaged"),
        (MODEL_FILE[:-1], "cut or damaged"),
        (MODEL_FILE + b"\0", "cut or damaged"),
        (file_of(b"not json"), "not JSON"),
        (file_of(b"\xff\xfe"), "not JSON"),
        (file_of([1, 2]), "must be a JSON object"),
        (file_of(b'{"a":1,"a":2}'), "twice"),
        (file_of({"__metadata__": {"a": 1}}), "strings to strings"),
        (file_of({"a": 3}), "exactly dtype, shape and data_offsets"),
        (file_of({"a": {**entry(), "extra": 1}}, b"\0" * 8), "exactly dtype, shape and data_offsets"),
        (file_of({"a": entry(dtype="F16")}, b"\0" * 8), "dtype 'F16'"),
        (file_of({"a": entry(dtype=[1])}, b"\0" * 8), r"dtype \[1\]"),
        (file_of({"a": entry(shape=(-2,))}, b"\0" * 8), "whole numbers"),
        (file_of({"a": entry(shape=(True, 2))}, b"\0" * 8), "whole numbers"),
        (file_of({"a": entry(shape=(3,))}, b"\0" * 8), "needs 12 bytes"),
        (file_of({"a": entry(shape=(1 << 62, 1 << 62))}, b"\0" * 8), "needs"),
        (file_of({"a": entry(offsets=(8, 0))}, b"\0" * 8), "needs 8 bytes"),
        (file_of({"a": entry(offsets=(0,))}, b"\0" * 8), r"expected \[begin, end\]"),
        (file_of({"a": entry(), "b": entry()}, b"\0" * 8), "overlap or a hole"),
        (file_of({"a": entry(offsets=(8, 16))}, b"\0" * 16), "overlap or a hole"),
        (file_of({"a": entry(), "b": entry(offsets=(12, 20))}, b"\0" * 20), "overlap or a hole"),
    ],
)
def test_malformed_files_are_refused_with_the_reason(data, message):
    with pytest.raises(CheckpointError, match=message):
        read_tensors(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("norm.gain"), "missing \\['norm.gain'\\]"),
        (lambda tensors: tensors.update(extra=np.zeros(2, np.float32)), "unexpected \\['extra'\\]"),
        (lambda tensors: tensors.update({"norm.gain": np.ones(15, np.float32)}), "must be float32 \\(16,\\)"),
        (lambda tensors: tensors.update({"norm.gain": np.ones(16, np.float64)}), "must be float32"),
        (lambda tensors: tensors.update({"norm.gain": np.full(16, np.nan, np.float32)}), "not finite"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(change, message):
    tensors = dict(model.views(model.COURSE_SHAPE, PARAMETERS.copy()))
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        load_model(write_tensors(tensors, {"version": "1"}))


def test_a_checkpoint_of_another_version_is_refused():
    with pytest.raises(CheckpointError, match="version '2'"):
        load_model(write_tensors(model.views(model.COURSE_SHAPE, PARAMETERS), {"version": "2"}))


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bytes_never_do_worse_than_a_refusal(data):
    with pytest.raises(CheckpointError):
        load_model(data)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_byte_in_the_header_is_refused_or_harmless(data):
    (length,) = struct.unpack("<Q", MODEL_FILE[:8])
    position = data.draw(st.integers(0, 8 + length - 1))
    damaged = bytearray(MODEL_FILE)
    damaged[position] = data.draw(st.integers(0, 255))
    try:
        parameters, _ = load_model(bytes(damaged))
    except CheckpointError:
        return
    assert parameters.tobytes() == PARAMETERS.tobytes()
