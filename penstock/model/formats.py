"""What the bytes of a topic are: Avro, JSON, XML, Protobuf, Debezium's changes, or your own.

Whatever the format, the contract's schema is an Avro record: one language for types. A format only
says how bytes become the values that are then fitted to it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["Avro", "Custom", "Debezium", "Format", "Json", "Protobuf", "Xml"]


@dataclass(frozen=True)
class Format:
    """The base of all formats."""

    word: ClassVar[str] = ""
    registered: ClassVar[bool] = False  # the schema registry holds this stream's schema
    reserved: ClassVar[tuple[str, ...]] = ()  # columns the format adds to the declared ones

    def problems(self, columns: list[str]) -> list[str]:
        taken = [name for name in self.reserved if name in columns]
        return [f"{', '.join(taken)} is what {self.word} adds itself; rename it"] if taken else []

    def describe(self) -> dict[str, Any]:
        """What the fingerprint holds of it."""
        return {"format": self.word}


@dataclass(frozen=True)
class Avro(Format):
    """Avro in Confluent's framing: a zero byte, four bytes of schema id, the body."""

    word: ClassVar[str] = "avro"
    registered: ClassVar[bool] = True


@dataclass(frozen=True)
class Json(Format):
    """One JSON object a message, UTF-8.

    Times are ISO 8601 text or integers in the unit of their type, dates ISO text or days, decimals
    numbers or text, bytes base64.
    """

    word: ClassVar[str] = "json"


@dataclass(frozen=True)
class Xml(Format):
    """One XML document a message, with one ``row_tag`` element, at its root or below.

    A child element is a field, a repeated one a list, an attribute a field if no child has its
    name. Documents with a DOCTYPE are refused: entities are how XML is used to attack its readers.
    """

    row_tag: str = "row"

    word: ClassVar[str] = "xml"

    def problems(self, columns: list[str]) -> list[str]:
        found = super().problems(columns)
        if not self.row_tag or not self.row_tag.replace("_", "a").replace("-", "a").isalnum():
            found.append(f"row_tag {self.row_tag!r} is no element's name")
        return found

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "row_tag": self.row_tag}


@dataclass(frozen=True)
class Protobuf(Format):
    """A Protobuf message, bare.

    Args:
        message: the message's full name in the descriptor.
        descriptor: a FileDescriptorSet, as ``protoc --include_imports --descriptor_set_out`` makes
            it; or leave it out and give
        fields: the message's fields as proto3 writes them, ``"string ticker = 1"``.
    """

    message: str
    descriptor: bytes = b""
    fields: tuple[str, ...] = ()

    word: ClassVar[str] = "protobuf"

    def problems(self, columns: list[str]) -> list[str]:
        from penstock.model.contract_protobuf import descriptor_problems

        return super().problems(columns) + descriptor_problems(self, columns)

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.descriptor).hexdigest()[:16] if self.descriptor else ""
        told = {"message": self.message, "descriptor": digest, "fields": list(self.fields)}
        return {**super().describe(), **told}

    @classmethod
    def from_base64(cls, message: str, text: str) -> Protobuf:
        """For a descriptor that is kept as text beside the definition."""
        return cls(message, base64.b64decode(text))


@dataclass(frozen=True)
class Custom(Format):
    """Anything else: a pure function from bytes to a mapping of fields.

    Whatever it raises sets the row apart as ``undecodable``. Its byte code is part of the
    fingerprint, as a transform's is.
    """

    decoder: Callable[[bytes], Mapping[str, Any]]

    word: ClassVar[str] = "custom"

    def problems(self, columns: list[str]) -> list[str]:
        found = super().problems(columns)
        return found if callable(self.decoder) else [*found, "the custom decoder is no function"]


@dataclass(frozen=True)
class Debezium(Format):
    """Changes of a Postgres table as Debezium writes them: JSON without schemas.

    The declared columns come from ``after``, of a delete from ``before`` (the source table needs
    REPLICA IDENTITY FULL). Tombstones and logical messages are skipped: no rows, no errors.
    """

    word: ClassVar[str] = "debezium"
    reserved: ClassVar[tuple[str, ...]] = (
        "_op", "_deleted", "_truncated", "_snapshot", "_lsn", "_committed_at",
    )  # fmt: skip
