"""The model once more as a GGUF whose matrices are float32: for llama.cpp, so that all run equal weights."""

from pathlib import Path

from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, dequantize

from sim.gguf_file import open_gguf, take


def write_float32(source: Path, target: Path) -> None:
    """Copies all fields of `source`, and its tensors dequantized."""
    reader = open_gguf(source)
    writer = GGUFWriter(target, take(source, reader, "general.architecture"))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, inner = field.types[0], field.types[-1]
        sub = inner if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype("float32"), raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
