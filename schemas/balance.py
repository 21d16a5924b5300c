"""balance: how much each entry's chances are corrected so that it enters captions as often as it leaves them."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

BALANCE = schema(
    "balance",
    2,
    field("kind", pa.string(), "kind of the entry, as in lexicon"),
    field("entry", pa.string(), "the entry, as in lexicon"),
    field("plural", pa.bool_(), "whether the weight is that of a noun's plural"),
    field("weight", pa.float64(), "multiplies its chances to replace, divides its chances to be replaced"),
)
