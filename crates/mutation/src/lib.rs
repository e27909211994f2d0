//! Schema, keys and tokens, cells, rows, tombstones, fragment streams, reconciliation.
