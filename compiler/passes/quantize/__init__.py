"""Quantization: the states of a quantized value, and one pass for each change of state.

Normal form (canonical QDQ): codes are 8-bit integers, or constants of 4 bits; each is made by a
Quantize or stored, and each is read through `Dequantize(scale, zero_point, axis, group)`. A
Dequantize is below the operations that only move elements: an operation that computes, or a
result, reads it. A Quantize is directly behind the operation that computes its input.

| state | form |
|---|---|
| written | Convert, Subtract, Multiply, Round and Select of an exporter; FakeQuantize |
| raised | Quantize and Dequantize anywhere; MatMulInteger and ConvInteger |
| unsigned | codes after ReLU are u8 without a zero point |
| sunk | the normal form |
| picked | a large constant table is gathered as codes, and the rows are dequantized |
| integer | the product of two dequantized operands: an i32 product of codes, then one Multiply |
| requantized | Quantize has no scale: the constants of its input are divided by it |
| plain | float operations; no kernel reads the codes |

| from | to | pass |
|---|---|---|
| written | raised | `recognize_qdq` |
| written | raised | `recognize_fake_quantize` |
| raised | raised | `fold_constants_but_quantized`: folds all but weights that a product may read |
| raised | unsigned | `convert_i8_to_u8` |
| unsigned | sunk | `sink_dequantize` |
| sunk | picked | `gather_quantized_table` |
| sunk | integer | `lower_to_integer_matmul` |
| integer | requantized | `fold_requantize_scales` |
| any | plain | `fold_constants`: constants that no product reads as codes |
| any | plain | `decompose_unsupported_quantized`: operations without a kernel |

The pipeline runs the passes in this order. `legality.integer_product_failure` alone decides which
products have a kernel on codes.
"""
