//! Clients that read and conditionally write eight rows, and record what they see.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};

use crate::Outcome;
use crate::connect::connect;

const KEYS: usize = 8;

/// One line of a history, as linearizable.py reads it.
struct Operation {
    key: usize,
    client: usize,
    is_read: bool,
    begin: u128,
    end: Option<u128>,
    expected: Option<i64>,
    new: Option<i64>,
    applied: Option<bool>,
    found: Option<i64>,
}

impl Operation {
    fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        fn text(value: Option<impl ToString>) -> String {
            value.map_or("null".to_owned(), |value| value.to_string())
        }
        writeln!(
            file,
            "{{\"key\": \"{}\", \"client\": {}, \"kind\": \"{}\", \"begin\": {}, \"end\": {}, \
             \"expected\": {}, \"new\": {}, \"applied\": {}, \"found\": {}}}",
            self.key,
            self.client,
            if self.is_read { "read" } else { "cas" },
            self.begin,
            text(self.end),
            text(self.expected),
            text(self.new),
            text(self.applied),
            text(self.found),
        )
    }
}

/// The clients share this.
struct Load {
    session: Session,
    read: PreparedStatement,
    insert: PreparedStatement,
    update: PreparedStatement,
    delete: PreparedStatement,
    /// The column of a register.
    column: String,
    began: Instant,
    values: Cell<i64>,
    /// The last value that a client saw of each register; it may be old.
    latest: [Cell<Option<i64>>; KEYS],
    history: RefCell<Vec<Operation>>,
}

/// Runs the clients for some seconds, and writes what they saw to a file.
pub async fn run(address: &str, arguments: &[String]) -> Outcome<()> {
    let [seconds, clients, file] = arguments else { panic!("SECONDS CLIENTS FILE") };
    let (seconds, clients) = (Duration::from_secs(seconds.parse()?), clients.parse()?);
    let session = connect(address).await?;
    let mut read =
        session.prepare(text("READ", "SELECT v FROM registers.rows WHERE k = ?")).await?;
    read.set_consistency(Consistency::Serial);
    let load = Load {
        read,
        insert: session
            .prepare(text(
                "INSERT",
                "INSERT INTO registers.rows (k, v) VALUES (?, ?) IF NOT EXISTS",
            ))
            .await?,
        update: session
            .prepare(text("UPDATE", "UPDATE registers.rows SET v = ? WHERE k = ? IF v = ?"))
            .await?,
        delete: session
            .prepare(text("DELETE", "DELETE FROM registers.rows WHERE k = ? IF v = ?"))
            .await?,
        column: text("COLUMN", "v"),
        session,
        began: Instant::now(),
        values: Cell::new(0),
        latest: Default::default(),
        history: RefCell::default(),
    };
    println!("connected");
    try_join_all((0..clients).map(async |client| {
        let mut draw = client as u64 + 1;
        while load.began.elapsed() < seconds {
            load.operate(client, &mut draw).await?;
        }
        Ok::<_, ExecutionError>(())
    }))
    .await?;
    let mut out = BufWriter::new(File::create(file)?);
    load.history.borrow().iter().try_for_each(|one| one.write(&mut out))?;
    out.flush()?;
    Ok(())
}

/// Returns a statement or the column of a register, which the environment may replace.
fn text(name: &str, standard: &str) -> String {
    std::env::var(format!("REGISTER_{name}")).unwrap_or_else(|_| standard.to_owned())
}

/// Returns a number below `bound` (Marsaglia's xorshift).
fn below(state: &mut u64, bound: u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((*state >> 20) % bound) as usize
}

impl Load {
    /// Sends one request that suits the latest value of a random register.
    async fn operate(&self, client: usize, draw: &mut u64) -> Result<(), ExecutionError> {
        let (register, choice) = (below(draw, KEYS as u64), below(draw, 10));
        let (key, expected) = (register as i32, self.latest[register].get());
        let begin = self.began.elapsed().as_nanos();
        let is_read = choice < 3;
        let new_value = || {
            self.values.set(self.values.get() + 1);
            Some(self.values.get())
        };
        let session = &self.session;
        let (expected, new, answer) = match expected {
            _ if is_read => (None, None, session.execute_unpaged(&self.read, (key,)).await),
            Some(old) if choice == 4 => {
                (expected, None, session.execute_unpaged(&self.delete, (key, old)).await)
            }
            Some(old) if choice > 4 => {
                let new = new_value();
                (expected, new, session.execute_unpaged(&self.update, (new, key, old)).await)
            }
            _ => {
                let new = new_value();
                (None, new, session.execute_unpaged(&self.insert, (key, new)).await)
            }
        };
        let end = self.began.elapsed().as_nanos();
        let mut one = Operation {
            key: register,
            client,
            is_read,
            begin,
            end: None,
            expected,
            new,
            applied: None,
            found: None,
        };
        match answer {
            Ok(answer) => {
                let (applied, found) = seen(answer, &self.column);
                one.end = Some(end);
                one.applied = applied;
                one.found = found;
                self.latest[register].set(if applied == Some(true) { new } else { found });
            }
            Err(error) if is_wrong(&error) => return Err(error),
            // The write may have happened.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        self.history.borrow_mut().push(one);
        Ok(())
    }
}

/// Returns `[applied]` if the answer has it, and the register's value.
fn seen(answer: QueryResult, column: &str) -> (Option<bool>, Option<i64>) {
    let rows = answer.into_rows_result().expect("rows");
    let names: Vec<_> = rows.column_specs().iter().map(|column| column.name().to_owned()).collect();
    let row = rows.maybe_first_row::<Row>().expect("columns of known types");
    let value = |name: &str| {
        let at = names.iter().position(|one| one == name)?;
        row.as_ref()?.columns[at].clone()
    };
    let applied = value("[applied]").and_then(|value| value.as_boolean());
    (applied, value(column).as_ref().and_then(CqlValue::as_bigint))
}

/// Returns whether the node said that the request was wrong, so that nothing was written.
fn is_wrong(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::BadQuery(_)
            | ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized,
                _
            ))
    )
}
