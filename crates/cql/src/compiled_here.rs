//! The processor's futures, compiled once: as `espalier_storage::compiled_here`, which says why.

use std::{pin::Pin, sync::Arc};

use crate::{Batch, ClientState, Prepared, QueryOptions, QueryProcessor, QueryResult, Result};

/// All of [`QueryProcessor`]'s futures. Nobody calls it.
#[doc(hidden)]
pub fn compiled_here<'a>(
    processor: &'a QueryProcessor,
    prepared: &'a Arc<Prepared>,
    batch: Batch<'a>,
    client: &'a mut ClientState,
    options: &'a QueryOptions<'a>,
) -> Pin<Box<dyn Future<Output = Result<QueryResult>> + 'a>> {
    Box::pin(async move {
        processor.query("", client, options).await?;
        processor.execute(prepared, client, options).await?;
        processor.batch(batch, client, options).await
    })
}
