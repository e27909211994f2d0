"""A client of the native protocol, versions 3 to 5, for requests that no driver sends.

It uses no driver's code: frames, segments and their checksums are built here from the
specification.
"""
import socket
import struct
import zlib
from dataclasses import dataclass

import lz4.block

(
    ERROR,
    STARTUP,
    READY,
    AUTHENTICATE,
    OPTIONS,
    SUPPORTED,
    QUERY,
    RESULT,
    PREPARE,
    EXECUTE,
    REGISTER,
    EVENT,
    BATCH,
    AUTH_RESPONSE,
    AUTH_SUCCESS,
) = (
    0x00,
    0x01,
    0x02,
    0x03,
    0x05,
    0x06,
    0x07,
    0x08,
    0x09,
    0x0A,
    0x0B,
    0x0C,
    0x0D,
    0x0F,
    0x10,
)
SERVER_ERROR, PROTOCOL, OVERLOADED, SYNTAX, INVALID, UNPREPARED = (
    0x0000,
    0x000A,
    0x1001,
    0x2000,
    0x2200,
    0x2500,
)
VOID, ROWS, SET_KEYSPACE, PREPARED, SCHEMA_CHANGE = 1, 2, 3, 4, 5
COMPRESSED, TRACING, CUSTOM_PAYLOAD, WARNING = 0x01, 0x02, 0x04, 0x08
SKIP_METADATA, PAGE_SIZE, PAGING_STATE = 0x02, 0x04, 0x08  # flags of parameters
GLOBAL_TABLE, HAS_MORE, NO_METADATA = 0x01, 0x02, 0x04  # flags of a result
HEADER = struct.Struct(">BBhBi")
ONE, SERIAL = 0x0001, 0x0008
SEGMENT_PAYLOAD = (1 << 17) - 1


class Closed(Exception):
    """The node closed the connection."""


def crc24(data):
    """Returns the checksum of a segment's header."""
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974F0B
    return crc & 0xFFFFFF


def crc32(data):
    """Returns the checksum of a segment's payload."""
    return zlib.crc32(data, zlib.crc32(b"\xfa\x2d\x55\xca"))


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">H", len(data)) + data


def long_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">i", len(data)) + data


def value(data):
    """Returns a [value]: bytes, or None for null."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def string_map(pairs):
    return struct.pack(">H", len(pairs)) + b"".join(
        string(key) + string(text) for key, text in pairs.items()
    )


def parameters(version, values=(), consistency=ONE, page_size=0):
    """Returns consistency, flags, values and page size of a QUERY or EXECUTE."""
    flags = (0x01 if values else 0) | (PAGE_SIZE if page_size else 0)
    flags = struct.pack(">I" if version >= 5 else ">B", flags)
    counted = struct.pack(">H", len(values)) + b"".join(map(value, values)) if values else b""
    paged = struct.pack(">i", page_size) if page_size else b""
    return struct.pack(">H", consistency) + flags + counted + paged


def segment(payload, self_contained=True, compressing=False):
    """Returns a version 5 segment of one payload."""
    if compressing:
        packed = lz4.block.compress(payload, store_size=False)
        if len(packed) < len(payload):
            bits, payload = len(packed) | len(payload) << 17, packed
        else:
            bits = len(payload)
        head = (bits | self_contained << 34).to_bytes(5, "little")
    else:
        head = (len(payload) | self_contained << 17).to_bytes(3, "little")
    return head + crc24(head).to_bytes(3, "little") + payload + struct.pack("<I", crc32(payload))


@dataclass
class Answer:
    """The envelope of a response."""

    opcode: int
    stream: int
    body: bytes
    trace_id: bytes | None = None
    warnings: tuple = ()

    @property
    def code(self):
        """Returns the error code, None if this is no error."""
        return struct.unpack_from(">i", self.body)[0] if self.opcode == ERROR else None

    @property
    def message(self):
        """Returns the error's text."""
        assert self.opcode == ERROR, f"not an error: {self}"
        (length,) = struct.unpack_from(">H", self.body, 4)
        return self.body[6:6 + length].decode()

    @property
    def kind(self):
        """Returns the kind of a RESULT."""
        assert self.opcode == RESULT, self.message if self.opcode == ERROR else self
        return struct.unpack_from(">i", self.body)[0]

    @property
    def prepared_id(self):
        """Returns the id of a prepared statement, and in version 5 the id of its
        result's metadata."""
        assert self.kind == PREPARED
        (length,) = struct.unpack_from(">H", self.body, 4)
        rest = self.body[6 + length:]
        return self.body[6:6 + length], rest[2:2 + struct.unpack_from(">H", rest)[0]]

    @property
    def paging_state(self):
        """Returns the start of the next page, None after the last."""
        assert self.kind == ROWS
        flags, _, length = struct.unpack_from(">iii", self.body, 4)
        return self.body[16:16 + length] if flags & HAS_MORE else None

    def rows(self):
        """Returns rows as lists of bytes, None for null. The method can skip only metadata of
        simple types."""
        return self.table()[1]

    def named_rows(self):
        """Returns rows as dictionaries of bytes by the names of their columns."""
        names, rows = self.table()
        return [dict(zip(names, row, strict=True)) for row in rows]

    def table(self):
        """Returns the names of the columns, empty if the answer has none, and the rows."""
        assert self.kind == ROWS
        flags, columns = struct.unpack_from(">ii", self.body, 4)
        at, names = 12, []
        if flags & HAS_MORE:
            (length,) = struct.unpack_from(">i", self.body, at)
            at += 4 + length
        if not flags & NO_METADATA:
            # Keyspace and table stand once, or before each column's name.
            is_global = flags & GLOBAL_TABLE
            at = self._skip_strings(2, at) if is_global else at
            for _ in range(columns):
                at = at if is_global else self._skip_strings(2, at)
                (length,) = struct.unpack_from(">H", self.body, at)
                names.append(self.body[at + 2:at + 2 + length].decode())
                at += 2 + length
                (kind,) = struct.unpack_from(">H", self.body, at)
                assert kind < 0x20, "only simple types"
                at += 2
        (count,) = struct.unpack_from(">i", self.body, at)
        at += 4
        table = []
        for _ in range(count):
            row = []
            for _ in range(columns):
                (length,) = struct.unpack_from(">i", self.body, at)
                at += 4
                row.append(None if length < 0 else self.body[at:at + length])
                at += max(length, 0)
            table.append(row)
        return names, table

    def _skip_strings(self, count, at):
        for _ in range(count):
            at += 2 + struct.unpack_from(">H", self.body, at)[0]
        return at


class Wire:
    """One connection. A node may have `credentials`, name and password, and an `ssl_context`."""

    def __init__(self, node, version=4, compression=None, startup=True, timeout_s=60):
        self.version, self.compression = version, compression
        self.socket = socket.create_connection((node.host, node.port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if getattr(node, "ssl_context", None):
            self.socket = node.ssl_context.wrap_socket(self.socket)
        self.credentials = getattr(node, "credentials", None)
        self.started, self.received, self.envelopes = False, b"", b""
        if startup:
            self.startup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def startup(self):
        """Sends STARTUP, logs in if the node asks for it, and switches the framing accordingly."""
        options = {"CQL_VERSION": "3.0.0"} | (
            {"COMPRESSION": self.compression} if self.compression else {}
        )
        answer = self.ask(STARTUP, string_map(options))
        if answer.opcode == AUTHENTICATE and self.credentials:
            # The node uses the new framing from its answer to STARTUP on.
            self.started = True
            token = "".join(f"\0{part}" for part in self.credentials).encode()
            answer = self.ask(AUTH_RESPONSE, value(token))
        assert answer.opcode in (READY, AUTH_SUCCESS), answer
        self.started = True

    @property
    def segmented(self):
        return self.version >= 5 and self.started

    def envelope(self, opcode, body, stream=1, flags=0, version=None, length=None):
        """Returns the bytes of an envelope; `version` and `length` may be wrong on purpose."""
        version, length = self.version if version is None else version, (
            len(body) if length is None else length
        )
        return HEADER.pack(version, flags, stream, opcode, length) + body

    def send(self, data):
        """Sends envelopes, in segments if the connection uses them."""
        if not self.segmented:
            return self.send_raw(data)
        pieces = [data[at:at + SEGMENT_PAYLOAD] for at in range(0, len(data), SEGMENT_PAYLOAD)]
        compressing = self.compression == "lz4"
        self.send_raw(b"".join(segment(piece, len(pieces) == 1, compressing) for piece in pieces))

    def send_raw(self, data):
        """Sends bytes as they are."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed from error

    def ask(self, opcode, body=b"", stream=1, flags=0):
        """Sends a request and receives its answer."""
        self.send(self.envelope(opcode, body, stream, flags))
        return self.receive()

    def query(self, text, values=(), consistency=ONE, page_size=0):
        sent = parameters(self.version, values, consistency, page_size)
        return self.ask(QUERY, long_string(text) + sent)

    def prepare(self, text):
        return self.ask(
            PREPARE, long_string(text) + (struct.pack(">I", 0) if self.version >= 5 else b"")
        ).prepared_id

    def execute_body(self, prepared, values, consistency=ONE):
        """Returns the body of an EXECUTE of a result of `prepare`."""
        statement, result = prepared
        return (
            string(statement)
            + (string(result) if self.version >= 5 else b"")
            + parameters(self.version, values, consistency)
        )

    def batch_body(self, statements):
        """Returns the body of a logged BATCH of (result of `prepare`, values)."""
        parts = []
        for (statement, _), values in statements:
            counted = struct.pack(">H", len(values)) + b"".join(map(value, values))
            parts.append(b"\1" + string(statement) + counted)
        flags = struct.pack(">I" if self.version >= 5 else ">B", 0)
        return struct.pack(">BH", 0, len(parts)) + b"".join(parts) + struct.pack(">H", ONE) + flags

    def execute(self, prepared, values=()):
        return self.ask(EXECUTE, self.execute_body(prepared, values))

    def page(self, prepared, page_size, state=None, flags=SKIP_METADATA):
        """Executes a statement without values for one page; `state` is where the page begins."""
        flags |= PAGE_SIZE | (PAGING_STATE if state is not None else 0)
        statement, result = prepared
        body = string(statement) + (string(result) if self.version >= 5 else b"")
        body += struct.pack(">HI" if self.version >= 5 else ">HB", ONE, flags) + struct.pack(
            ">i", page_size
        )
        return self.ask(EXECUTE, body + (value(state) if state is not None else b""))

    def select(self, text, page_size=1000):
        """Returns all rows of a query as bytes, through all pages."""
        return [row for page in self.pages(text, page_size) for row in page]

    def pages(self, text, page_size):
        """Yields the rows of each page of a query."""
        prepared, state = self.prepare(text), None
        while True:
            answer = self.page(prepared, page_size, state)
            yield answer.rows()
            state = answer.paging_state
            if state is None:
                return

    def receive(self):
        """Returns the next envelope."""
        head = self.take(HEADER.size)
        _, flags, stream, opcode, length = HEADER.unpack(head)
        body = self.take(length)
        if flags & COMPRESSED and not self.segmented:
            assert self.compression == "lz4"
            body = lz4.block.decompress(
                body[4:], uncompressed_size=struct.unpack(">i", body[:4])[0]
            )
        trace_id = None
        if flags & TRACING:
            trace_id, body = body[:16], body[16:]
        warnings = ()
        if flags & WARNING:
            warnings, body = self._warnings(body)
        assert not flags & CUSTOM_PAYLOAD, "no custom payload is expected"
        return Answer(opcode, stream, body, trace_id, warnings)

    @staticmethod
    def _warnings(body):
        """Returns the warnings before the body of a response, and the rest."""
        (count,), at, warnings = struct.unpack_from(">H", body), 2, []
        for _ in range(count):
            (length,) = struct.unpack_from(">H", body, at)
            warnings.append(body[at + 2:at + 2 + length].decode())
            at += 2 + length
        return tuple(warnings), body[at:]

    def take(self, count):
        """Returns bytes of envelopes, out of segments if the connection uses them."""
        while len(self.envelopes) < count:
            self.envelopes += self._segment() if self.segmented else self._some()
        data, self.envelopes = self.envelopes[:count], self.envelopes[count:]
        return data

    def _segment(self):
        compressing = self.compression == "lz4"
        size = 5 if compressing else 3
        head = self._raw(size + 3)
        bits = int.from_bytes(head[:size], "little")
        assert crc24(head[:size]) == int.from_bytes(
            head[size:], "little"
        ), "the node's segment header is wrong"
        payload = self._raw(bits & SEGMENT_PAYLOAD)
        (checksum,) = struct.unpack("<I", self._raw(4))
        assert crc32(payload) == checksum, "the node's segment payload is wrong"
        plain = bits >> 17 & SEGMENT_PAYLOAD if compressing else 0
        return lz4.block.decompress(payload, uncompressed_size=plain) if plain else payload

    def _raw(self, count):
        while len(self.received) < count:
            self.received += self._some()
        data, self.received = self.received[:count], self.received[count:]
        return data

    def _some(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise Closed from error
        if not data:
            raise Closed
        return data

    def is_alive(self):
        """Returns True if the node still answers on this connection."""
        try:
            return self.ask(OPTIONS, stream=77).opcode == SUPPORTED
        except Closed:
            return False

    def is_closed(self):
        """Waits until the node closes this connection; returns False after the timeout."""
        try:
            while True:
                self._some()
        except Closed:
            return True
        except TimeoutError:
            return False
