//! Measures the cost of one socket operation on a shard, without a second core: `cargo run
//! --release --example socket_cost`.
//!
//! Both ends of each connection are tasks of one shard, so that only this thread is measured. For
//! comparison it makes the same exchange by plain blocking system calls of one thread; the
//! difference is the cost (or the gain) of the runtime. It measures processor time, so that a busy
//! machine does not matter much.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::BytesMut;
use espalier_runtime::net::{ListenOptions, TcpListener, TcpStream};
use espalier_runtime::{block_on, driver_notice, shard::loop_report, spawn_local};
use std::io::{Read as _, Write as _};
use std::time::Duration;

const MESSAGE: usize = 64;
const ROUNDS: usize = 200_000;

fn main() {
    println!(
        "connections  ns/operation  looks/operation   (an operation is one read or one write)"
    );
    for connections in [1, 8, 64, 256] {
        block_on(on_a_shard(connections));
    }
    println!("driver: {}", driver_notice().unwrap_or("none"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let mut buffer = [0; MESSAGE];
    let from = thread_time();
    for _ in 0..ROUNDS {
        near.write_all(&buffer).unwrap();
        far.read_exact(&mut buffer).unwrap();
        far.write_all(&buffer).unwrap();
        near.read_exact(&mut buffer).unwrap();
    }
    let each = (thread_time() - from).as_nanos() as f64 / (4 * ROUNDS) as f64;
    println!("plain system calls: {each:.0} ns/operation");
}

async fn on_a_shard(connections: usize) {
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = TcpListener::bind(any, ListenOptions::default()).unwrap();
    let rounds = ROUNDS / connections;
    let mut pairs = Vec::new();
    for _ in 0..connections {
        let near = TcpStream::connect(listener.local_address().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        pairs.push((near, far));
    }
    let (from, looks) = (thread_time(), loop_report().unwrap().kernel_looks);
    let mut tasks = Vec::new();
    for (near, far) in pairs {
        tasks.push(spawn_local(exchange(near, rounds, true)));
        tasks.push(spawn_local(exchange(far, rounds, false)));
    }
    for task in tasks {
        task.await;
    }
    let operations = (4 * rounds * connections) as f64;
    let looks = loop_report().unwrap().kernel_looks - looks;
    let each = (thread_time() - from).as_nanos() as f64 / operations;
    println!("{connections:11}  {each:12.0}  {:15.3}", looks as f64 / operations);
}

async fn exchange(stream: TcpStream, rounds: usize, begins: bool) {
    let mut buffer = BytesMut::zeroed(MESSAGE);
    if begins {
        let (written, back) = stream.write_all(buffer).await;
        written.unwrap();
        buffer = back;
    }
    for round in 0..rounds {
        buffer.clear();
        while buffer.len() < MESSAGE {
            let (count, back) = stream.read(buffer).await;
            assert!(count.unwrap() > 0);
            buffer = back;
        }
        if begins && round + 1 == rounds {
            return;
        }
        let (written, back) = stream.write_all(buffer).await;
        written.unwrap();
        buffer = back;
    }
}

/// Returns the processor time of the calling thread.
fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}
