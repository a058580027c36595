"""Attention: canonicalize the operations between two products, then match five nodes.

Normal form: `MatMul(Softmax(mask(MatMul(q, k))), v)`, all of one batch [lead...]. Rules rewrite
what exporters write towards it; `match_step` guards each, so nothing else changes:

| written | rewritten to | rule |
|---|---|---|
| (q k) * s | (q * s) k | `scales.scale_queries` |
| (scores + mask) * s | scores * s + mask * s | `scales.scale_masked_scores` |
| (tanh(...) * s) * t | tanh(...) * (s * t) | `scales.merge_scales` |
| max(scores + mask, floor) | scores + max(mask, floor) | `masks.raise_mask` |
| (scores + a) + b | scores + (a + b) | `masks.join_masks` |
| split(op(scores)) | op(split(scores)) | `batch_axes.hoist_split` |
| op(merge(scores)) | merge(op(scores)) | `batch_axes.sink_merge` |

A mask stays as it is written, added or chosen by booleans (`masks.Mask`): the operation takes both,
and booleans are smaller. A causal mask may be there as well, which becomes an attribute. Optional
are a cap (tanh(scores) * cap), a sink (a column that joins the softmax) and zeros in rows that see
nothing. `fuse.fuse_products` matches the form; afterwards `fuse.absorb_scale` makes an attribute of
the scale, `grouped_query.share_heads` reads repeated keys and values where they are,
`quantized_scores.take_codes` takes the bytes of dequantised queries and keys, and
`sink_dequantize_rows.sink_dequantize_rows` moves codes of keys and values before they are floats.
"""
