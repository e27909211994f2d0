//! Materialized views: tables whose rows follow from the rows of a base table.
//!
//! A write to a table with views takes a turn on its rows ([`crate::turns`]) at the shard that owns
//! them, and then:
//!
//! 1. `change` reads the rows as they are stored, tombstones included, and merges the write into a
//!    copy. So it knows each row before and after the write.
//! 2. `plan` makes a view row from each of the two. A view row has exactly the content that the
//!    view's SELECT shows of the base row, and expires with the base row.
//! 3. `change` compares the two view rows, and adds, changes or deletes the view's row.
//! 4. The stored view row may hold timestamps that the write does not exceed. Then `outcome` reads
//!    the stored row, and raises timestamps of the write, so that the row gets the content of step
//!    2.
//! 5. `write` writes the base row and the view rows. If one shard owns them, they are one record of
//!    the commit log; otherwise they are a batch that all shards apply, or none.
//!
//! A view row belongs to one base row, because its key holds the base table's key. The turn on the
//! base row therefore protects the view row, too.
//!
//! `build` fills a new view in the background, and repairs views after files were added to a table.
//! Memory: the rows that one write changes, and a page of rows for each build.

mod build;
mod change;
mod outcome;
mod plan;
mod progress;
mod state;
mod truncate;
mod write;

use std::{cell::RefCell, rc::Rc};

use espalier_mutation::schema::TableId;
use espalier_runtime::sync::Notify;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

pub use build::ViewBuilds;
pub(crate) use build::run;
pub(super) use truncate::truncate_with_views;
pub(super) use write::{apply_with_views, check_view_keys, with_view_writes, write_with_views};
use {build::ViewState, plan::ViewPlan, progress::RunningBuild};

/// The plans and builds of views on a shard.
#[derive(Default)]
pub(super) struct ViewWork {
    /// On shard 0: wakes the task that builds materialized views.
    pub(super) build_wanted: Notify,
    /// Plans of the views of each base table, in the present schema.
    pub(super) plans: RefCell<HashMap<TableId, Rc<[Rc<ViewPlan>]>, FixedState>>,
    /// On shard 0: the states of views.
    states: RefCell<HashMap<TableId, ViewState, FixedState>>,
    /// The builds that run on this shard.
    builds: RefCell<Vec<RunningBuild>>,
}
