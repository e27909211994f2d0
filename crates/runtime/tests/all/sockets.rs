//! Tests that connections carry bytes, are split, shut down and handed over.

use bytes::{Bytes, BytesMut};
use espalier_runtime::net::{ListenOptions, Shutdown, TcpListener, TcpStream};
use espalier_runtime::{ShardOptions, block_on, spawn_local, start_shards, submit_to};
use std::net::SocketAddr;

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn read_to_end(stream: &TcpStream) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(1024);
        let (count, back) = stream.read(buffer).await;
        buffer = back;
        if count.unwrap() == 0 {
            return buffer.to_vec();
        }
    }
}

#[test]
fn bytes_go_both_ways_through_split_halves() {
    block_on(async {
        let listener = TcpListener::bind(local(), ListenOptions::default()).unwrap();
        let address = listener.local_address().unwrap();
        let server = spawn_local(async move {
            let (stream, peer) = listener.accept().await.unwrap();
            assert_eq!(stream.peer_address().unwrap(), peer);
            stream.set_nodelay(true).unwrap();
            let (mut reading, mut writing) = stream.split();
            let (sender, mut receiver) = espalier_runtime::sync::channel::bounded(2);
            let writer = spawn_local(async move {
                while let Some(bytes) = receiver.receive().await {
                    let (result, _): (_, Bytes) = writing.write_all(bytes).await;
                    result.unwrap();
                }
                writing.stream().shutdown(Shutdown::Write).unwrap();
            });
            loop {
                let (count, mut buffer) = reading.read(BytesMut::with_capacity(7)).await;
                if count.unwrap() == 0 {
                    break;
                }
                sender.send(buffer.split().freeze()).await.unwrap();
            }
            drop(sender);
            writer.await;
        });
        let client = TcpStream::connect(address).await.unwrap();
        let sent: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let parts: Vec<Bytes> = sent.chunks(33).map(Bytes::copy_from_slice).collect();
        let (mut reading, mut writing) = client.split();
        let writer = spawn_local(async move {
            let (result, _) = writing.write_all_vectored(parts).await;
            result.unwrap();
            writing.stream().shutdown(Shutdown::Write).unwrap();
        });
        let mut echoed = BytesMut::new();
        loop {
            echoed.reserve(4096);
            let (count, back) = reading.read(echoed).await;
            echoed = back;
            if count.unwrap() == 0 {
                break;
            }
        }
        writer.await;
        server.await;
        assert!(echoed[..] == sent[..]);
    });
}

#[test]
fn shutting_down_ends_a_read_under_way() {
    block_on(async {
        let listener = TcpListener::bind(local(), ListenOptions::default()).unwrap();
        let client = TcpStream::connect(listener.local_address().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let (mut reading, writing) = server.split();
        let reader = spawn_local(async move { reading.read(BytesMut::with_capacity(10)).await.0 });
        espalier_runtime::time::sleep(std::time::Duration::from_millis(5)).await;
        writing.stream().shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.await.unwrap(), 0);
        assert!(read_to_end(&client).await.is_empty());
    });
}

#[test]
fn an_accepted_connection_is_handed_to_another_shard() {
    let options = ShardOptions { count: 2, ..ShardOptions::default() };
    let started = start_shards(&options, |context| async move {
        if context.index == 1 {
            return;
        }
        let listener = TcpListener::bind(local(), ListenOptions::default()).unwrap();
        let client = TcpStream::connect(listener.local_address().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let detached = server.detach().unwrap();
        submit_to(1, move || async move {
            let stream = TcpStream::attach(detached).unwrap();
            stream.write_all(&b"from shard 1"[..]).await.0.unwrap();
        })
        .await;
        assert_eq!(read_to_end(&client).await, b"from shard 1");
    });
    started.unwrap().join().unwrap();
}

#[test]
fn each_shard_listens_on_the_same_address() {
    block_on(async {
        let shared = ListenOptions { shared: true, ..ListenOptions::default() };
        let first = TcpListener::bind(local(), shared).unwrap();
        let address = first.local_address().unwrap();
        let _second = TcpListener::bind(address, shared).unwrap();
        let alone = TcpListener::bind(address, ListenOptions::default());
        assert_eq!(alone.err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    });
}

#[test]
fn an_ipv4_peer_has_an_ipv4_address_on_a_listener_for_both_families() {
    block_on(async {
        let both = "[::]:0".parse().unwrap();
        // A machine without IPv6 has no such listener.
        let Ok(listener) = TcpListener::bind(both, ListenOptions::default()) else { return };
        let port = listener.local_address().unwrap().port();
        let client = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, client.local_address().unwrap());
        assert_eq!(stream.peer_address().unwrap(), peer);
    });
}
