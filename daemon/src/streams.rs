//! What a server and an agent agree on for the connection that carries streams: who dials, how much may be under way.
//!
//! The agent dials and upgrades `GET /v1-litek8s/nodes/NAME/streams` to [`PROTOCOL`]; from then on the agent is the server
//! of HTTP/2 on that connection and the one that was dialled its only client.

pub mod frame;

/// What the connection is upgraded to.
pub const PROTOCOL: &str = "litek8s-streams.v1";
/// Streams of one node at a time.
pub const MAX_STREAMS: u32 = 256;
/// Bytes that may be under way on one stream, unread.
pub const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all streams of a connection: enough for all of them, so that one that nobody reads stops no other.
pub const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// The largest head of a request; a command line is in it.
pub const MAX_HEAD: u32 = 256 * 1024;

/// What the path of a request to the agent itself begins with.
pub const OWN: &str = "/own";

const PREFIX: &str = "/v1-litek8s/nodes/";
const SUFFIX: &str = "/streams";

/// The path a node dials.
pub fn path(node: &str) -> String {
    format!("{PREFIX}{node}{SUFFIX}")
}

/// The node that a path belongs to.
pub fn node_of(path: &str) -> Option<&str> {
    let node = path.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (!node.is_empty() && !node.contains('/')).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_one_node() {
        assert_eq!(node_of(&path("n1.example.org")), Some("n1.example.org"));
        for other in
            ["/v1-litek8s/nodes//streams", "/v1-litek8s/nodes/a/b/streams", "/v1-litek8s/nodes/streams"]
        {
            assert_eq!(node_of(other), None, "{other}");
        }
    }
}
