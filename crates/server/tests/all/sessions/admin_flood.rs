//! Connections that keep the admin API busy must not lock an operator out.

use std::time::Duration;

use espalier_runtime::net::TcpStream;
use espalier_runtime::time::timeout;

use super::admin_api::ask;
use super::node::with_node;

/// More connections than the admin API accepts at the same time (64).
const MANY: usize = 100;

/// The node answers an operator within 5 s, although idle clients have opened as many connections
/// as it accepts. The clients have sent nothing, a part of a request, or one request.
#[test]
fn idle_connections_leave_when_an_operator_comes() {
    let whole = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    with_node(
        1,
        |_| {},
        |node| async move {
            for sent in [&b""[..], &whole[..30], &whole[..]] {
                let mut idle = Vec::new();
                for _ in 0..MANY {
                    let stream = TcpStream::connect(node.admin).await.unwrap();
                    stream.write_all(sent.to_vec()).await.0.unwrap();
                    idle.push(stream);
                }
                for _ in 0..10 {
                    let asking = ask(node.admin, "GET", "/storage_service/native_transport");
                    let answer = timeout(Duration::from_secs(5), asking).await;
                    assert_eq!(answer, Ok((200, "true".into())), "after {sent:?}");
                }
                drop(idle);
            }
        },
    );
}
