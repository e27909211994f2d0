//! Errors that clients receive for failures of the storage and for unknown statement ids.

use espalier_storage::{CommitLogError, StorageError, TurnKind};

use crate::{Error, ErrorCode, ErrorDetail};

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        let detail = match error {
            StorageError::TurnTimedOut { kind, .. } if kind != TurnKind::SerialRead => {
                ErrorDetail::WriteTimeout { kind }
            }
            _ => ErrorDetail::None,
        };
        Error { code: error_code(&error), message: error.to_string(), detail }
    }
}

impl From<CommitLogError> for Error {
    fn from(error: CommitLogError) -> Self {
        StorageError::from(error).into()
    }
}

fn error_code(error: &StorageError) -> ErrorCode {
    match error {
        StorageError::CommitLog(CommitLogError::MutationTooLarge { .. })
        | StorageError::Unstorable(_)
        | StorageError::ExpiryTooLate { .. }
        | StorageError::UnknownTable(_)
        | StorageError::UnknownColumn(_)
        | StorageError::UnknownTableName { .. } => ErrorCode::Invalid,
        StorageError::TurnTimedOut { kind: TurnKind::SerialRead, .. } => ErrorCode::ReadTimeout,
        StorageError::TurnTimedOut { .. } => ErrorCode::WriteTimeout,
        StorageError::MemtablesFull { .. }
        | StorageError::CommitLogFull { .. }
        | StorageError::TooManyUnfinishedBatches { .. } => ErrorCode::Overloaded,
        StorageError::CommitLog(CommitLogError::Write(_)) | StorageError::BatchGivenUp { .. } => {
            ErrorCode::WriteFailure
        }
        _ => ErrorCode::ServerError,
    }
}

/// Creates the error for an unknown statement id.
pub fn unprepared(id: &[u8]) -> Error {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Error {
        code: ErrorCode::Unprepared,
        message: format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
        ),
        detail: ErrorDetail::Unprepared { id: id.to_vec() },
    }
}
