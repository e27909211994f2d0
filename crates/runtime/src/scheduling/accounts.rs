//! The accounts of the groups of one thread: the time of their polls, and their virtual time.
//!
//! Virtual time is in ticks of a group with [`STATEMENT_SHARES`]. The virtual time of the
//! statements is also the clock of the shard: when a group becomes ready again, its virtual time is
//! raised to this clock. The clock advances while statements run, while the loop holds a group back
//! for them, and when they leave the core to others.

use super::{GROUPS, GroupReport, STATEMENT_SHARES, SchedulingGroup};
use crate::ticks;
use std::cell::Cell;

/// The account of statements that run again after a yield. Their virtual time was charged when they
/// were made ready.
pub(crate) const YIELDED: usize = GROUPS;

const STATEMENTS: usize = SchedulingGroup::Statements as usize;

/// The factor of an account is its virtual ticks for each tick, times 2^`FACTOR_BITS`.
const FACTOR_BITS: u32 = 10;

pub(crate) struct Accounts {
    /// The group of which a task is polled.
    entered: Cell<usize>,
    /// The account that the poll is charged to.
    charged: Cell<usize>,
    accounts: [Account; GROUPS + 1],
}

struct Account {
    run_ticks: Cell<u64>,
    virtual_ticks: Cell<u64>,
    polls: Cell<u64>,
    longest_ticks: Cell<u64>,
    shares: Cell<u32>,
    factor: Cell<u64>,
}

impl Account {
    const fn new() -> Self {
        Self {
            run_ticks: Cell::new(0),
            virtual_ticks: Cell::new(0),
            polls: Cell::new(0),
            longest_ticks: Cell::new(0),
            shares: Cell::new(STATEMENT_SHARES),
            factor: Cell::new(1 << FACTOR_BITS),
        }
    }

    fn virtual_of(&self, ticks: u64) -> u64 {
        ticks.wrapping_mul(self.factor.get()) >> FACTOR_BITS
    }
}

impl Accounts {
    pub(crate) const fn new() -> Self {
        Self {
            entered: Cell::new(STATEMENTS),
            charged: Cell::new(STATEMENTS),
            accounts: [const { Account::new() }; GROUPS + 1],
        }
    }

    /// Resets the virtual times and the shares for a new event loop.
    pub(crate) fn begin_loop(&self) {
        self.enter(STATEMENTS);
        for group in SchedulingGroup::ALL {
            let account = &self.accounts[group as usize];
            account.virtual_ticks.set(0);
            self.set_shares(group as usize, group.initial_shares());
        }
        self.accounts[YIELDED].virtual_ticks.set(0);
    }

    /// Returns the group of which a task is polled.
    pub(crate) fn entered(&self) -> usize {
        self.entered.get()
    }

    /// Begins polls of a group.
    pub(crate) fn enter(&self, group: usize) {
        self.entered.set(group);
        self.charged.set(group);
    }

    /// Charges the poll that runs to the statements that yielded.
    pub(crate) fn charge_to_yielded(&self) {
        self.charged.set(YIELDED);
    }

    /// Charges the ticks of the poll that ends.
    #[inline]
    pub(crate) fn charge(&self, held: u64) {
        let account = &self.accounts[self.charged.replace(self.entered.get())];
        account.run_ticks.set(account.run_ticks.get() + held);
        account.virtual_ticks.set(account.virtual_ticks.get() + account.virtual_of(held));
        account.polls.set(account.polls.get() + 1);
        if held > account.longest_ticks.get() {
            account.longest_ticks.set(held);
        }
    }

    pub(crate) fn set_shares(&self, group: usize, shares: u32) {
        let (account, shares) = (&self.accounts[group], shares.max(1));
        account.shares.set(shares);
        account.factor.set(u64::from(STATEMENT_SHARES << FACTOR_BITS) / u64::from(shares));
    }

    pub(crate) fn shares(&self, group: usize) -> u32 {
        self.accounts[group].shares.get()
    }

    /// Returns the ticks for which statements ran, including the statements that had yielded.
    pub(crate) fn statement_ticks(&self) -> u64 {
        self.accounts[STATEMENTS].run_ticks.get() + self.accounts[YIELDED].run_ticks.get()
    }

    pub(crate) fn virtual_ticks(&self, group: usize) -> u64 {
        self.accounts[group].virtual_ticks.get()
    }

    /// Raises the virtual time of a group to `least` if it is less.
    pub(crate) fn raise(&self, group: usize, least: u64) {
        let account = &self.accounts[group];
        account.virtual_ticks.set(account.virtual_ticks.get().max(least));
    }

    /// Adds ticks for which a group was held back to the virtual time of the statements.
    pub(crate) fn pass(&self, ticks: u64) {
        let account = &self.accounts[STATEMENTS];
        account.virtual_ticks.set(account.virtual_ticks.get() + ticks);
    }

    pub(super) fn report(&self, group: SchedulingGroup) -> GroupReport {
        let account = &self.accounts[group as usize];
        let (mut run, mut polls) = (account.run_ticks.get(), account.polls.get());
        let mut longest = account.longest_ticks.get();
        if group == SchedulingGroup::Statements {
            let yielded = &self.accounts[YIELDED];
            run += yielded.run_ticks.get();
            polls += yielded.polls.get();
            longest = longest.max(yielded.longest_ticks.get());
        }
        GroupReport {
            group,
            shares: account.shares.get(),
            run_us: ticks::to_microseconds(run),
            polls,
            longest_us: ticks::to_microseconds(longest),
        }
    }
}
