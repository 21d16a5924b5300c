"""What determines the bytes of a stage's output, and the hashes by which it is compared.

Nothing here depends on when, where or by how many workers a run was made: no times, no absolute paths.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Identity:
    """Everything that determines the bytes of a stage's output.

    config: plain JSON. metadata: provenance, for the metadata of the Parquet files. schemas: the hash of the schema of
    each output table, by name. code: the hash of the sources that make the rows (see engine.code). inputs: the hash of
    each input table (or file), by name. sharded: the input that is read shard by shard; empty if there is none.
    """

    stage: str
    config: Mapping[str, Any]
    metadata: Mapping[str, str]
    schemas: Mapping[str, str]
    code: str
    inputs: Mapping[str, str]
    sharded: str = ""

    def key(self, shard: str = "") -> str:
        """The key of an output shard, a sha256: shards with equal keys have equal bytes.

        shard: the sha256 of the shard of the input `sharded` from which it is made; the other inputs enter the key
        with the hash of the whole table. Empty: all inputs do.
        """
        whole = {table: digest for table, digest in self.inputs.items() if not shard or table != self.sharded}
        parts = [self.stage, self.config, self.metadata, self.schemas, self.code, whole, shard]
        return hashlib.sha256(_canonical(parts)).hexdigest()

    def provenance(self) -> dict[str, str]:
        """How a shard was made, for its Parquet metadata: `metadata`, stage, config (JSON) and the hash of the code."""
        return {**self.metadata, "stage": self.stage, "config": _canonical(self.config).decode(), "code": self.code}


def difference(old: Identity, new: Identity) -> str:
    """The first difference between two identities: `seed was 1, is now 2`; empty if there is none."""
    for name in ("stage", "config", "metadata"):
        was, now = getattr(old, name), getattr(new, name)
        if isinstance(was, str):
            was, now = {name: was}, {name: now}
        for entry in sorted({*was, *now}):
            if was.get(entry) != now.get(entry):
                return f"{entry} was {_shown(was.get(entry))}, is now {_shown(now.get(entry))}"
    for table in sorted({*old.inputs, *new.inputs}):
        if old.inputs.get(table) != new.inputs.get(table):
            return f"its input {table} has changed"
    for table in sorted({*old.schemas, *new.schemas}):
        if old.schemas.get(table) != new.schemas.get(table):
            return f"the columns of {table} have changed"
    return "another version of negcap's code wrote it" if old.code != new.code else ""


def _shown(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) and value else json.dumps(value)


def hash_schema(schema: pa.Schema) -> str:
    """The hash of a schema: its name and version, and the names, types, nullability and descriptions of its columns.

    Other metadata (the provenance of a shard, what Parquet adds) is ignored.
    """
    return hash_value([_metadata(schema), [_column(column) for column in schema]])


def _column(column: pa.Field) -> list[Any]:
    import pyarrow as pa

    nested = [column.type.field(i) for i in range(column.type.num_fields)]
    if pa.types.is_list(column.type):  # Parquet calls the values element, Arrow item
        nested = [nested[0].with_name("item")]
    type = column.type.id if nested else str(column.type)
    return [column.name, type, column.nullable, _metadata(column), [_column(child) for child in nested]]


def _metadata(described: pa.Schema | pa.Field) -> dict[str, str]:
    metadata = described.metadata or {}
    return {name: metadata.get(name.encode(), b"").decode() for name in ("table", "schema_version", "description")}


def hash_value(value: Any) -> str:
    """The sha256 of a plain JSON value, in hex; the order of keys does not matter."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
