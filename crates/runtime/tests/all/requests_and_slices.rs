//! A request that arrives while a task of another scheduling group has the core is served when the
//! slice of that task is over.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::BytesMut;
use espalier_runtime::net::{ListenOptions, TcpListener};
use espalier_runtime::{
    SchedulingGroup, block_on, should_yield, spawn_blocking, spawn_local, yield_now,
};

const REQUESTS: usize = 200;

/// The slices of a task of another group.
#[derive(Default)]
struct Slices {
    ended: AtomicU64,
    is_stopped: AtomicBool,
}

impl Slices {
    async fn use_the_core(self: Arc<Self>) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            if should_yield() {
                self.ended.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        }
    }
}

/// Sends each request when the answer to the last one has arrived, at the start of a slice. An
/// answer is the number of slices that had ended when the server read the request. Returns the
/// number of slices that ended while each request waited. The socket blocks, so that the client
/// sends the next request at once.
#[allow(clippy::disallowed_types)]
fn send_requests(address: SocketAddr, slices: &Slices) -> Vec<u64> {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = [0; 8];
    let mut waits = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let ended = slices.ended.load(Ordering::Relaxed);
        stream.write_all(b"request").unwrap();
        stream.read_exact(&mut answer).unwrap();
        waits.push(u64::from_be_bytes(answer) - ended);
    }
    waits
}

#[test]
fn a_request_waits_for_the_rest_of_one_slice() {
    let slices = Arc::new(Slices::default());
    let mut waits = block_on(async {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(local, ListenOptions::default()).unwrap();
        let (address, of_client) = (listener.local_address().unwrap(), Arc::clone(&slices));
        let client = spawn_local(spawn_blocking(move || send_requests(address, &of_client)));
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        SchedulingGroup::Compaction.spawn(Arc::clone(&slices).use_the_core()).detach();
        let mut buffer = BytesMut::with_capacity(64);
        loop {
            buffer.clear();
            let (count, back) = stream.read(buffer).await;
            if count.unwrap() == 0 {
                break;
            }
            buffer = back;
            let ended = slices.ended.load(Ordering::Relaxed);
            stream.write_all(ended.to_be_bytes().to_vec()).await.0.unwrap();
        }
        slices.is_stopped.store(true, Ordering::Relaxed);
        client.await
    });
    waits.sort_unstable();
    // Some wait longer, because other processes have the client's core at times.
    assert!(waits[REQUESTS * 9 / 10] <= 1, "slices that ended: {waits:?}");
}
