//! Measures the number of small messages that one shard echoes, and the cost of each: `cargo run
//! --release --example echo`.
//!
//! One shard runs on the first processor, client threads with blocking sockets on the last. Each
//! client writes `pipeline` messages of 64 bytes at once and reads them back. Besides throughput,
//! the example reports the processor time of the shard's thread per message, which is more
//! meaningful on a busy machine, and the number of times that the shard asked the kernel. `echo
//! split` gives each connection a reader and a writer task with a channel between them, as a server
//! of a pipelined protocol has; `echo threads` runs a thread per connection, for comparison.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::BytesMut;
use espalier_runtime::net::{ListenOptions, TcpListener, TcpStream};
use espalier_runtime::shard::loop_report;
use espalier_runtime::sync::channel;
use espalier_runtime::{ShardOptions, cpu, driver_notice, spawn_local, start_shards};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const MESSAGE: usize = 64;
const SECONDS: u64 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Plain,
    Split,
    Threads,
}

fn main() {
    let mode = match std::env::args().nth(1).as_deref() {
        None => Mode::Plain,
        Some("split") => Mode::Split,
        Some("threads") => Mode::Threads,
        Some(other) => panic!("unknown mode {other}"),
    };
    println!(
        "connections  pipeline  messages/s  ns/message  ns/batch  in user mode  looks/batch  asleep"
    );
    for (connections, pipeline) in [(1, 1), (1, 16), (8, 1), (8, 16), (64, 1), (64, 16), (64, 128)]
    {
        measure(mode, connections, pipeline);
    }
    println!("driver: {}", driver_notice().unwrap_or("none"));
}

fn measure(mode: Mode, connections: usize, pipeline: usize) {
    let cpus = cpu::allowed_cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let (address_sender, address) = mpsc::channel();
    let (report_sender, report) = mpsc::channel();
    let echoed = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let server = std::thread::spawn(move || match mode {
        Mode::Threads => serve_threads(first, connections, &address_sender, &report_sender),
        _ => serve_shard(mode, first, connections, address_sender, report_sender),
    });
    let address: SocketAddr = address.recv().unwrap();
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (echoed, stop) = (Arc::clone(&echoed), Arc::clone(&stop));
            std::thread::spawn(move || client(last, address, pipeline, &echoed, &stop))
        })
        .collect();
    let from = Instant::now();
    std::thread::sleep(Duration::from_secs(SECONDS));
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let elapsed = from.elapsed();
    server.join().unwrap();
    let (busy, user, looks, asleep): Report = report.recv().unwrap();
    let messages = echoed.load(Ordering::Relaxed);
    let batches = messages / pipeline as u64;
    println!(
        "{connections:11}  {pipeline:8}  {:10.0}  {:10.0}  {:8.0}  {:11.0}%  {:11.2}  {:5.0}%",
        messages as f64 / elapsed.as_secs_f64(),
        busy.as_nanos() as f64 / messages as f64,
        busy.as_nanos() as f64 / batches as f64,
        100.0 * user,
        looks as f64 / batches as f64,
        100.0 * asleep.as_secs_f64() / elapsed.as_secs_f64(),
    );
}

fn client(cpu: usize, address: SocketAddr, pipeline: usize, echoed: &AtomicU64, stop: &AtomicBool) {
    cpu::pin_current_thread(cpu).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let sent = vec![7; pipeline * MESSAGE];
    let mut received = vec![0; pipeline * MESSAGE];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut received).unwrap();
        echoed.fetch_add(pipeline as u64, Ordering::Relaxed);
    }
}

/// Processor time, the part of it in user mode, looks at the kernel, time asleep.
type Report = (Duration, f64, u64, Duration);

fn serve_shard(
    mode: Mode,
    cpu: usize,
    connections: usize,
    address: mpsc::Sender<SocketAddr>,
    report: mpsc::Sender<Report>,
) {
    let options = ShardOptions { count: 1, pin_to: Some(vec![cpu]), ..ShardOptions::default() };
    let started = start_shards(&options, move |_| {
        let (address, report) = (address.clone(), report.clone());
        async move {
            let any = "127.0.0.1:0".parse().unwrap();
            let listener = TcpListener::bind(any, ListenOptions::default()).unwrap();
            address.send(listener.local_address().unwrap()).unwrap();
            let from = thread_time();
            let mut echoes = Vec::new();
            for _ in 0..connections {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                echoes.push(match mode {
                    Mode::Split => spawn_local(echo_split(stream)),
                    _ => spawn_local(echo(stream)),
                });
            }
            for echo in echoes {
                echo.await;
            }
            let turned = loop_report().unwrap();
            let asleep = Duration::from_micros(turned.asleep_us);
            report.send((thread_time() - from, user_share(), turned.kernel_looks, asleep)).unwrap();
        }
    });
    started.unwrap().join().unwrap();
}

async fn echo(stream: TcpStream) {
    let mut buffer = BytesMut::with_capacity(16 << 10);
    loop {
        buffer.clear();
        let (count, back) = stream.read(buffer).await;
        if !matches!(count, Ok(1..)) {
            return;
        }
        let (written, back) = stream.write_all(back).await;
        if written.is_err() {
            return;
        }
        buffer = back;
    }
}

async fn echo_split(stream: TcpStream) {
    let (mut reading, mut writing) = stream.split();
    let (sender, mut receiver) = channel::bounded::<BytesMut>(16);
    let writer = spawn_local(async move {
        while let Some(bytes) = receiver.receive().await {
            if writing.write_all(bytes).await.0.is_err() {
                return;
            }
        }
    });
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(16 << 10);
        let (count, mut back) = reading.read(buffer).await;
        if !matches!(count, Ok(1..)) || sender.send(back.split()).await.is_err() {
            break;
        }
        buffer = back;
    }
    drop(sender);
    writer.await;
}

fn serve_threads(
    cpu: usize,
    connections: usize,
    address: &mpsc::Sender<SocketAddr>,
    report: &mpsc::Sender<Report>,
) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    address.send(listener.local_addr().unwrap()).unwrap();
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                cpu::pin_current_thread(cpu).unwrap();
                let from = thread_time();
                let mut buffer = vec![0; 16 << 10];
                let mut batches = 0;
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    batches += 2;
                    stream.write_all(&buffer[..count]).unwrap();
                }
                (thread_time() - from, user_share(), batches)
            })
        })
        .collect();
    let mut total = (Duration::ZERO, 0.0, 0, Duration::ZERO);
    for thread in threads {
        let (busy, user, calls) = thread.join().unwrap();
        total.0 += busy;
        total.1 += user / connections as f64;
        total.2 += calls;
    }
    report.send(total).unwrap();
}

/// Returns the processor time of the calling thread.
fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// Returns the part of the thread's processor time in user mode, as the kernel's clock tick has
/// sampled it.
fn user_share() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let (user, system): (f64, f64) = (fields[11].parse().unwrap(), fields[12].parse().unwrap());
    user / (user + system).max(1.0)
}
