"""Bytes per element of torch's storages and safetensors' dtypes."""

from __future__ import annotations

STORAGE_BYTES = {
    "DoubleStorage": 8,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
    "BFloat16Storage": 2,
    "ComplexDoubleStorage": 16,
    "ComplexFloatStorage": 8,
    "QUInt8Storage": 1,
    "QInt8Storage": 1,
    "QInt32Storage": 4,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
    "UntypedStorage": 1,
}
"""By the name in a tensor's persistent id (torch 2.13, `torch.storage`)."""
SAFETENSORS_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E5M2FNUZ", "F8_E4M3FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""By the header's dtype (safetensors 0.8, `tensor.rs`)."""
FLOATS = frozenset({"F16", "BF16", "F32", "F64"})
"""Types whose data have no zeros in the middle of a row by their nature, as masks do."""
