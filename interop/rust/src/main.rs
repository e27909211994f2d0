//! The programs of the interop tests that use the `scylla` driver.
//!
//!     espalier-interop-rust flights HOST PORT SHARDS FLIGHTS.csv
//!     espalier-interop-rust login HOST PORT
//!     espalier-interop-rust registers HOST PORT SECONDS CLIENTS FILE
//!
//! test_drivers.py, test_driver_security.py and test_conditional_drivers.py run them.

mod connect;
mod flights;
mod registers;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, host, port, rest @ ..] = &arguments[..] else { panic!("COMMAND HOST PORT …") };
    let address = format!("{host}:{port}");
    match command.as_str() {
        "flights" => flights::run(&address, rest).await,
        "login" => connect::login(&address).await,
        "registers" => registers::run(&address, rest).await,
        _ => panic!("there is no command {command}"),
    }
}
