//! Instantiates the processor's futures in this crate, so that the crates that use it need not
//! compile them again (see `espalier_storage::compiled_here`).

use std::{pin::Pin, sync::Arc};

use crate::{Batch, ClientState, Prepared, QueryOptions, QueryProcessor, QueryResult, Result};

/// Names all futures of [`QueryProcessor`], so that this crate compiles them. It is never called.
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
