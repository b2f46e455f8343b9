//! A replica on its own: on real files, on a disk that crashes, and its storage against
//! openraft's suite.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use litek8s_store::{GroupResource, Limits, Object, ObjectKey, Precondition};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

use super::*;
use crate::config::{Flushing, MonotonicClock, Timers};
use crate::disk::{Crash, MemoryDisk, RealDisk};
use crate::log::LogOptions;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "configmaps"), "default", name)
}

fn object(name: &str, value: u64) -> bytes::Bytes {
    let text = "x".repeat(100);
    format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}"}},"data":{{"v":"{value}","x":"{text}"}}}}"#)
        .into()
}

fn create(name: &str) -> Command {
    Command::Create { key: key(name), object: object(name, 0), claims: vec![] }
}

fn update(name: &str, value: u64) -> Command {
    Command::Update {
        key: key(name),
        object: object(name, value),
        precondition: Precondition::default(),
        claims: vec![],
    }
}

fn delete(name: &str) -> Command {
    Command::Delete { key: key(name), precondition: Precondition::default() }
}

/// A replica in one thread, so that the disk sees one order of operations.
fn in_memory(disk: &MemoryDisk) -> Config {
    Config {
        disk: Some(Arc::new(disk.clone())),
        flushing: Flushing::Inline,
        segment_size: 4096,
        log_cache: 1000,
        snapshot_entries: 12,
        keep_entries: 4,
        patience: Duration::from_secs(5),
        ..Config::new("", "one")
    }
}

fn objects(view: &View) -> BTreeMap<String, Arc<Object>> {
    let all = view.list(&GroupResource::new("", "configmaps"), None);
    all.map(|object| (object.key.name.to_string(), object.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_and_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config::new(directory.path(), "one");
    let replica = Replica::open(config.clone()).await.unwrap();
    let first = *replica.leadership().borrow();
    assert!(first.leader);
    let mut applied = replica.applied();
    let outcome = replica.propose(create("a"), None).await.unwrap();
    assert!(applied.has_changed().unwrap());
    assert_eq!(*applied.borrow_and_update(), 1);
    let object = outcome.into_object().unwrap().unwrap();
    assert_eq!(object.revision, 1);
    assert_eq!(replica.view().get(&key("a")), Some(&object));
    assert_eq!(replica.read_barrier().await, Ok(1));
    replica.stop().await;

    let replica = Replica::open(config).await.unwrap();
    assert_eq!(replica.view().get(&key("a")), Some(&object));
    assert!(replica.leadership().borrow().term > first.term);
    replica.stop().await;
}

#[tokio::test]
async fn a_write_wakes_those_who_wait_for_its_resource_and_no_others() {
    let replica = Replica::open(in_memory(&MemoryDisk::new())).await.unwrap();
    let mut own = replica.changes(&key("a").resource);
    let other = replica.changes(&GroupResource::new("", "others"));
    replica.propose(create("a"), None).await.unwrap();
    assert!(own.has_changed().unwrap() && !other.has_changed().unwrap());
    assert_eq!(*own.borrow_and_update(), replica.view().revision());
    replica.stop().await;
}

#[tokio::test]
async fn a_write_bound_to_an_earlier_term_is_fenced() {
    let disk = MemoryDisk::new();
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    let first = replica.leadership().borrow().term;
    assert!(matches!(replica.propose(create("a"), Some(first)).await, Ok(Outcome::Created(_))));
    replica.stop().await;
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    let fenced = replica.propose(create("b"), Some(first)).await;
    assert_eq!(fenced, Ok(Outcome::Rejected(Rejection::Fenced)));
    assert_eq!(replica.view().revision(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn a_directory_belongs_to_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config::new(directory.path(), "one");
    let replica = Replica::open(config.clone()).await.unwrap();
    let error = Replica::open(config.clone()).await.err().unwrap();
    assert!(error.to_string().ends_with("raft is in use by another process"), "{error}");
    replica.stop().await;
    Replica::open(config).await.unwrap().stop().await;
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let replica = Replica::open(Config::new(directory.path(), "one")).await.unwrap();
    replica.propose(create("a"), None).await.unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let raft = directory.path().join("raft");
    assert_eq!(mode(&raft), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&raft).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["identity", "lock", "log-0000000000000001.seg", "vote"]);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_share_syncs_and_a_lone_write_has_one() {
    let directory = tempfile::tempdir().unwrap();
    let replica = Replica::open(Config::new(directory.path(), "one")).await.unwrap();
    let before = replica.status().syncs;
    for number in 0..20 {
        replica.propose(create(&format!("lone-{number}")), None).await.unwrap();
    }
    assert_eq!(replica.status().syncs - before, 20);
    let before = replica.status().syncs;
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let replica = replica.clone();
            tokio::spawn(async move {
                for number in 0..20 {
                    replica.propose(create(&format!("w{writer}-{number}")), None).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let syncs = replica.status().syncs - before;
    assert!(syncs < 1280 / 4, "{syncs} syncs for 1280 writes");
    assert_eq!(replica.view().revision(), 1300);
    replica.stop().await;
}

#[tokio::test]
async fn a_snapshot_and_the_log_behind_it_give_the_same_state_as_the_whole_log() {
    let disk = MemoryDisk::new();
    let whole = Config { snapshot_entries: 1_000_000, ..in_memory(&MemoryDisk::new()) };
    let (with, without) =
        (Replica::open(in_memory(&disk)).await.unwrap(), Replica::open(whole).await.unwrap());
    for number in 0..60 {
        let name = format!("n{}", number % 7);
        let command = match number % 5 {
            0 => create(&name),
            3 => delete(&name),
            _ => update(&name, number),
        };
        let outcome = with.propose(command.clone(), None).await.unwrap();
        assert_eq!(without.propose(command, None).await.unwrap(), outcome);
        // Snapshots are written beside the proposals.
        tokio::task::yield_now().await;
    }
    let expected = objects(&without.view());
    assert_eq!(objects(&with.view()), expected);
    assert!(with.status().snapshot.is_some());
    with.stop().await;
    let with = Replica::open(in_memory(&disk)).await.unwrap();
    assert_eq!(objects(&with.view()), expected);
    assert_eq!(with.view().revision(), without.view().revision());
    // A watcher that was behind goes on where it was.
    let behind = with.view().revision() - 10;
    let events = |replica: &Replica| replica.view().events_after(behind, usize::MAX).unwrap();
    assert_eq!(events(&with), events(&without));
    with.stop().await;
    without.stop().await;
}

#[tokio::test]
async fn large_entries_bring_a_snapshot_sooner() {
    let config =
        Config { snapshot_entries: 1_000_000, snapshot_bytes: 2_000, ..in_memory(&MemoryDisk::new()) };
    let replica = Replica::open(config).await.unwrap();
    for number in 0..30 {
        replica.propose(create(&format!("n{number}")), None).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(replica.status().snapshot.is_some_and(|index| index > 10));
    replica.stop().await;
}

#[tokio::test]
async fn a_repeated_proposal_is_applied_once_even_across_a_restart() {
    let disk = MemoryDisk::new();
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    let entry = |sequence, acknowledged, command| {
        Proposal(Arc::new(Entry { session: 77, sequence, acknowledged, bound_term: None, command }))
    };
    let write = |replica: &Replica, proposal: Proposal| {
        let raft = replica.inner.raft.clone();
        async move { raft.client_write(proposal).await.unwrap().data.0.unwrap() }
    };
    let created = write(&replica, entry(1, 0, create("a"))).await;
    assert!(matches!(created, Outcome::Created(_)));
    assert_eq!(write(&replica, entry(1, 0, create("a"))).await, created);
    for _ in 0..30 {
        write(&replica, entry(1, 0, create("a"))).await;
    }
    replica.stop().await;
    // From the snapshot as well as from the log.
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    assert_eq!(write(&replica, entry(1, 0, create("a"))).await, created);
    write(&replica, entry(2, 1, update("a", 1))).await;
    let late = write(&replica, entry(1, 0, create("a"))).await;
    assert_eq!(late, Outcome::Rejected(Rejection::Fenced));
    assert_eq!(replica.view().revision(), 2);
    replica.stop().await;
}

#[tokio::test]
async fn a_server_alone_leads_on_after_its_lease() {
    let timers = Timers {
        heartbeat: Duration::from_millis(20),
        election_min: Duration::from_millis(40),
        election_max: Duration::from_millis(60),
    };
    let config = Config { timers, patience: Duration::from_secs(1), ..in_memory(&MemoryDisk::new()) };
    let replica = Replica::open(config).await.unwrap();
    let term = replica.leadership().borrow().term;
    for name in ["a", "b", "c"] {
        // Nothing runs for three leases, as in a stopped process.
        std::thread::sleep(Duration::from_millis(180));
        assert!(matches!(replica.propose(create(name), Some(term)).await, Ok(Outcome::Created(_))));
    }
    replica.stop().await;
}

#[tokio::test]
async fn a_failed_sync_ends_all_writing() {
    let disk = MemoryDisk::new();
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    replica.propose(create("a"), None).await.unwrap();
    disk.fail_at(disk.operations() + 1);
    let lost = replica.propose(create("b"), None).await;
    assert!(matches!(lost, Err(ProposeError::Unknown(_))), "{lost:?}");
    disk.fail_at(u64::MAX);
    let refused = replica.propose(create("c"), None).await;
    assert_eq!(refused, Err(ProposeError::NotApplied("the disk failed".to_owned())));
    assert!(!replica.leadership().borrow().leader);
    assert!(replica.read_barrier().await.is_err());
    assert_eq!(replica.status().failure.as_deref(), Some("the disk failed"));
    replica.stop().await;
}

/// What was acknowledged, until the disk fails.
async fn write_until_failure(disk: &MemoryDisk) -> (BTreeMap<String, Arc<Object>>, u64, Option<String>) {
    let mut acknowledged = BTreeMap::new();
    let mut revision = 0;
    let Ok(replica) = Replica::open(in_memory(disk)).await else {
        return (acknowledged, revision, None);
    };
    let mut pending = None;
    for number in 0..40 {
        let name = format!("n{}", number % 9);
        let command = match number % 6 {
            4 => delete(&name),
            _ if acknowledged.contains_key(&name) => update(&name, number),
            _ => create(&name),
        };
        let Ok(outcome) = replica.propose(command, None).await else {
            pending = Some(name);
            break;
        };
        match outcome {
            Outcome::Created(object) | Outcome::Updated(object) => {
                revision = object.revision;
                acknowledged.insert(name, object);
            }
            Outcome::Deleted(object) => {
                revision = object.revision;
                acknowledged.remove(&name);
            }
            Outcome::Batch(_) | Outcome::Rejected(_) => {}
        }
    }
    replica.stop().await;
    (acknowledged, revision, pending)
}

#[tokio::test]
async fn a_crash_at_any_operation_of_the_disk_loses_no_acknowledged_write() {
    let whole = MemoryDisk::new();
    let (_, _, pending) = write_until_failure(&whole).await;
    assert_eq!(pending, None);
    let total = whole.operations();
    assert!(total > 100, "{total}");
    for at in 0..total {
        let disk = MemoryDisk::new();
        disk.fail_at(at);
        let (acknowledged, revision, pending) = write_until_failure(&disk).await;
        for crash in [Crash::Lose, Crash::Keep, Crash::Tear(at)] {
            let opened = Replica::open(in_memory(&disk.crashed(crash))).await;
            let replica = opened.unwrap_or_else(|e| panic!("{crash:?} at {at}: {e:?}"));
            let view = replica.view();
            let mut found = objects(&view);
            let mut expected = acknowledged.clone();
            assert!((revision..=revision + 1).contains(&view.revision()), "{crash:?} at {at}");
            if view.revision() > revision {
                // The write that was not answered was made.
                let name = pending.as_ref().unwrap();
                found.remove(name);
                expected.remove(name);
            }
            assert_eq!(found, expected, "{crash:?} at {at}");
            replica.propose(create("after"), None).await.unwrap();
            replica.stop().await;
        }
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let replica = Replica::open(in_memory(&disk)).await.unwrap();
    for number in 0..30 {
        replica.propose(create(&format!("n{number}")), None).await.unwrap();
        tokio::task::yield_now().await;
    }
    replica.stop().await;
    let names = disk.list().unwrap();
    let snapshots: Vec<_> = names.iter().filter(|name| name.ends_with(".snap")).collect();
    let [name] = snapshots[..] else { panic!("{names:?}") };
    disk.flip(name, 200);
    let error = Replica::open(in_memory(&disk)).await.err().unwrap();
    let OpenError::Snapshot(error) = error else { panic!("{error}") };
    assert_eq!(error.to_string(), format!("{name} is damaged: the checksum does not match"));
}

/// Builds the storage for openraft's suite, with a disk of its own for each test.
struct Builder(Flushing);

impl StoreBuilder<TypeConfig, LogStorage, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStorage, Machine), StorageError<TypeConfig>> {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = match self.0 {
            Flushing::Inline => Arc::new(MemoryDisk::new()),
            Flushing::Thread => Arc::new(RealDisk::open(directory.path()).unwrap()),
        };
        let limits = Limits::default();
        let options = LogOptions { segment_size: 4096, cache: 100, flushing: self.0 };
        let log = Log::open(disk.clone(), Arc::new(MonotonicClock::default()), &options).unwrap();
        let (snapshots, state) = Snapshots::open(disk, limits).unwrap();
        let state = state.unwrap_or_else(|| State::empty(limits));
        let machine = Machine::new(state, snapshots, limits, self.0);
        Ok((directory, LogStorage::new(log, 0), machine))
    }
}

#[tokio::test]
async fn the_storage_passes_the_suite_of_openraft_in_memory() {
    Suite::test_all(Builder(Flushing::Inline)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_passes_the_suite_of_openraft_on_files() {
    Suite::test_all(Builder(Flushing::Thread)).await.unwrap();
}
