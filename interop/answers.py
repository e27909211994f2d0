"""Reads answers of the native protocol and prints their values as CQL literals."""
import datetime
import ipaddress
import struct
import uuid

CODES = {
    0x0000: "ServerError",
    0x000A: "ProtocolError",
    0x1000: "Unavailable",
    0x1003: "TruncateError",
    0x1100: "WriteTimeout",
    0x1200: "ReadTimeout",
    0x1300: "ReadFailure",
    0x1400: "FunctionFailure",
    0x1500: "WriteFailure",
    0x2000: "SyntaxError",
    0x2100: "Unauthorized",
    0x2200: "Invalid",
    0x2300: "ConfigurationError",
    0x2400: "AlreadyExists",
}
NUMBERS = {2: ">q", 5: ">q", 9: ">i", 0x13: ">h", 0x14: ">b"}
# The types whose empty value is not null: ascii, blob and text.
WITH_EMPTY = {1, 3, 0xD}


class Reader:
    """Reads the parts of a response's body in order."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def number(self, form="i"):
        (number,) = struct.unpack_from(">" + form, self.body, self.at)
        self.at += struct.calcsize(">" + form)
        return number

    def take(self, length):
        self.at += length
        return self.body[self.at - length:self.at]

    def string(self):
        return self.take(self.number("H")).decode()

    def value(self):
        """Returns a [value]: bytes, or None for null."""
        length = self.number()
        return None if length < 0 else self.take(length)

    def type(self):
        """Returns an [option] as a tuple of its number and its parts."""
        kind = self.number("H")
        if kind == 0:
            return kind, self.string()
        if kind in (0x20, 0x22):
            return kind, self.type()
        if kind == 0x21:
            return kind, self.type(), self.type()
        if kind == 0x30:
            self.string(), self.string()
            return kind, [(self.string(), self.type()) for _ in range(self.number("H"))]
        if kind == 0x31:
            return kind, [self.type() for _ in range(self.number("H"))]
        return (kind,)

    def columns(self):
        """Returns the names and types of a result's metadata."""
        flags, count = self.number(), self.number()
        assert not flags & 2, "the answer has one page"
        if flags & 4:
            # Without metadata, values are shown as blobs.
            return [("?", (3,))] * count
        if flags & 1:
            self.string(), self.string()
        columns = []
        for _ in range(count):
            if not flags & 1:
                self.string(), self.string()
            columns.append((self.string(), self.type()))
        return columns


def fields(data, types):
    """Returns literals of the fields of a tuple or UDT, up to the last one that is present."""
    reader, found = Reader(data), []
    for kind in types:
        if reader.at == len(data):
            break
        found.append(literal(kind, reader.value()))
    return found


def collection(kind, data):
    reader = Reader(data)
    items = []
    for _ in range(reader.number()):
        item = literal(kind[1], reader.value())
        items.append(f"{item}: {literal(kind[2], reader.value())}" if kind[0] == 0x21 else item)
    left, right = "[]" if kind[0] == 0x20 else "{}"
    return left + ", ".join(items) + right


def decimal(data):
    (scale,), digits = struct.unpack_from(">i", data), int.from_bytes(data[4:], "big", signed=True)
    if scale <= 0:
        return str(digits * 10**-scale)
    text = str(abs(digits)).rjust(scale + 1, "0")
    return ("-" if digits < 0 else "") + text[:-scale] + "." + text[-scale:]


def signed_vint(reader):
    """Reads a zigzag number; the leading one bits of its first byte count the following bytes."""
    first = reader.take(1)[0]
    count = 8 - (first ^ 0xFF).bit_length()
    number = int.from_bytes(bytes([first & 0xFF >> count]) + reader.take(count), "big")
    return number >> 1 ^ -(number & 1)


def duration(data):
    reader = Reader(data)
    months, days, nanoseconds = (signed_vint(reader) for _ in range(3))
    parts = ((months, "mo"), (days, "d"), (nanoseconds, "ns"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def literal(kind, data):
    """Returns a value as the CQL literal that crates/types prints."""
    number = kind[0]
    if data is None or not data and number not in WITH_EMPTY and number < 0x30:
        return "null"
    if number in NUMBERS:
        return str(struct.unpack(NUMBERS[number], data)[0])
    if number in (1, 0xD):
        return "'" + data.decode().replace("'", "''") + "'"
    if number == 3:
        return "0x" + data.hex()
    if number == 4:
        return "true" if data[0] else "false"
    if number == 6:
        return decimal(data)
    if number in (7, 8):
        text = repr(struct.unpack(">d" if number == 7 else ">f", data)[0])
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    if number == 0xB:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
            milliseconds=struct.unpack(">q", data)[0]
        )
        return f"'{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z'"
    if number in (0xC, 0xF):
        return str(uuid.UUID(bytes=data))
    if number == 0xE:
        return str(int.from_bytes(data, "big", signed=True))
    if number == 0x15:
        return duration(data)
    if number == 0x10:
        return f"'{ipaddress.ip_address(data)}'"
    if number == 0x11:
        day = int.from_bytes(data, "big") - 2**31
        return f"'{datetime.date(1970, 1, 1) + datetime.timedelta(days=day)}'"
    if number == 0x12:
        seconds, nanoseconds = divmod(int.from_bytes(data, "big"), 10**9)
        return f"'{datetime.timedelta(seconds=seconds)}.{nanoseconds:09}'"
    if number in (0x20, 0x21, 0x22):
        return collection(kind, data)
    if number == 0x30:
        names = [name for name, _ in kind[1]]
        values = fields(data, [type for _, type in kind[1]])
        return "{" + ", ".join(map(": ".join, zip(names, values))) + "}"
    if number == 0x31:
        return "(" + ", ".join(fields(data, kind[1])) + ")"
    return "0x" + data.hex()


def rows(reader):
    """Returns a result's rows as text."""
    columns = reader.columns()
    lines = [" | ".join(name for name, _ in columns)]
    for _ in range(reader.number()):
        lines.append(" | ".join(literal(kind, reader.value()) for _, kind in columns))
    return lines
