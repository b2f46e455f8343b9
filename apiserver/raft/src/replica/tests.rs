//! A replica on its own: on real files, on a disk that crashes, and against openraft's suite.

use std::sync::Arc;
use std::time::Instant;

use litek8s_store::{GroupResource, ObjectKey, Precondition};

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "configmaps"), "default", name)
}

fn create(name: &str) -> Command {
    let object = format!(r#"{{"kind":"ConfigMap","metadata":{{"name":"{name}","uid":"{name}"}}}}"#);
    Command::Create { key: key(name), object: object.into(), claims: vec![] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_and_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config::new(directory.path(), "one");
    let begin = Instant::now();
    let replica = Replica::open(config.clone()).await.unwrap();
    println!("first open: {:?}", begin.elapsed());
    let first = *replica.leadership().borrow();
    assert!(first.leader);
    let outcome = replica.propose(create("a"), None).await.unwrap();
    let object = outcome.into_object().unwrap().unwrap();
    assert_eq!(object.revision, 1);
    assert_eq!(replica.view().get(&key("a")), Some(&object));
    assert_eq!(replica.read_barrier().await, Ok(1));
    replica.stop().await;

    let begin = Instant::now();
    let replica = Replica::open(config).await.unwrap();
    println!("second open: {:?}", begin.elapsed());
    assert_eq!(replica.view().get(&key("a")), Some(&object));
    let second = *replica.leadership().borrow();
    assert!(second.term > first.term);
    let fenced = replica.propose(create("b"), Some(first.term)).await.unwrap();
    assert_eq!(fenced, Outcome::Rejected(Rejection::Fenced));
    let gone = Command::Delete { key: key("a"), precondition: Precondition::at(1) };
    assert!(matches!(replica.propose(gone, Some(second.term)).await, Ok(Outcome::Deleted(_))));
    replica.stop().await;
}
