//! The log as a whole, over a disk that crashes at every point.

use std::sync::Mutex as StdMutex;

use super::*;
use crate::config::MonotonicClock;
use crate::disk::{Crash, MemoryDisk};

const SEGMENT: usize = 4096;

fn options() -> LogOptions {
    // The small cache makes reads go to the disk.
    LogOptions { segment_size: SEGMENT, cache: 300, flushing: Flushing::Inline }
}

fn open(disk: &MemoryDisk) -> Result<Log, LogError> {
    Log::open(Arc::new(disk.clone()), Arc::new(MonotonicClock::default()), &options())
}

fn entry(term: u64, index: u64, size: usize) -> Record {
    let text = format!("{term}.{index};").repeat(size);
    Record { kind: Kind::Command, position: Position { term, index }, payload: text.into() }
}

/// Runs an operation of an inline log and returns its result.
fn now(start: impl FnOnce(Done)) -> io::Result<()> {
    let slot = Arc::new(StdMutex::new(None));
    let filled = slot.clone();
    start(Box::new(move |result| *filled.lock().unwrap() = Some(result)));
    let result = slot.lock().unwrap().take();
    result.expect("an inline log answers at once")
}

fn append(log: &Log, entries: Vec<Record>) -> io::Result<()> {
    now(|done| log.append(entries, done).unwrap())
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Record>),
    Truncate(Option<Position>),
    Purge(Position),
    Vote(u64),
}

/// What has to be on the disk.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    entries: Vec<Record>,
    purged: Option<Position>,
    term: Option<u64>,
}

impl Model {
    fn after(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match step {
            Step::Append(entries) => next.entries.extend(entries.iter().cloned()),
            Step::Truncate(last) => next.entries.retain(|e| Some(e.position) <= *last),
            Step::Purge(upto) => {
                next.entries.retain(|e| e.position > *upto);
                next.purged = Some(*upto);
            }
            Step::Vote(term) => next.term = Some(*term),
        }
        next
    }

    fn of(log: &Log) -> Self {
        Self {
            entries: log.read(0..u64::MAX).unwrap(),
            purged: log.bounds().0,
            term: log.vote().map(|vote| vote.term),
        }
    }

    /// Whether the log may be so after `step` began from here and did not end.
    fn allows(&self, step: &Step, found: &Self) -> bool {
        if let Step::Append(entries) = step {
            return (0..=entries.len()).any(|n| *found == self.after(&Step::Append(entries[..n].to_vec())));
        }
        found == self || *found == self.after(step)
    }
}

/// Small and large entries, several segments, each kind of change.
fn scenario() -> Vec<Step> {
    let run = |term, from: u64, to: u64, size| {
        Step::Append((from..=to).map(|index| entry(term, index, size)).collect())
    };
    let at = |term, index| Position { term, index };
    vec![
        Step::Vote(1),
        run(1, 0, 0, 1),
        run(1, 1, 3, 20),
        run(1, 4, 4, 200),
        run(1, 5, 14, 60),
        Step::Vote(2),
        Step::Truncate(Some(at(1, 11))),
        run(2, 12, 13, 150),
        Step::Purge(at(1, 3)),
        run(2, 14, 18, 120),
        Step::Purge(at(2, 13)),
        run(2, 19, 19, 2000),
        Step::Truncate(Some(at(2, 17))),
        run(3, 18, 20, 30),
        Step::Purge(at(3, 30)),
        run(3, 31, 33, 10),
    ]
}

fn perform(log: &Log, step: &Step) -> io::Result<()> {
    match step {
        Step::Append(entries) => append(log, entries.clone()),
        Step::Truncate(last) => now(|done| log.truncate_after(*last, done)),
        Step::Purge(upto) => now(|done| log.purge(*upto, done)),
        Step::Vote(term) => {
            let ballot = Ballot { term: *term, node: 1, elected: true };
            now(|done| log.save_vote(ballot, done))
        }
    }
}

/// Performs the scenario until the disk fails: what was acknowledged, and the step that was not.
fn run(disk: &MemoryDisk) -> (Model, Option<Step>) {
    let mut model = Model::default();
    let Ok(log) = open(disk) else {
        return (model, None);
    };
    for step in scenario() {
        if perform(&log, &step).is_err() {
            return (model, Some(step));
        }
        model = model.after(&step);
        assert_eq!(Model::of(&log), model, "after {step:?}");
    }
    (model, None)
}

fn crashes() -> impl Iterator<Item = Crash> {
    [Crash::Lose, Crash::Keep].into_iter().chain((1..=6).map(Crash::Tear))
}

#[test]
fn everything_comes_back_without_a_crash() {
    let disk = MemoryDisk::new();
    let (model, failed) = run(&disk);
    assert!(failed.is_none());
    assert_eq!(Model::of(&open(&disk).unwrap()), model);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_acknowledged() {
    let whole = MemoryDisk::new();
    run(&whole);
    let total = whole.operations();
    assert!(total > 60, "{total}");
    for at in 0..total {
        let disk = MemoryDisk::new();
        disk.fail_at(at);
        let (model, failed) = run(&disk);
        for crash in crashes() {
            let after = disk.crashed(crash);
            let log = open(&after).unwrap_or_else(|e| panic!("{crash:?} at {at}: {e}"));
            let found = Model::of(&log);
            let allowed = match &failed {
                Some(step) => model.allows(step, &found),
                None => found == model,
            };
            assert!(allowed, "{crash:?} at {at} in {failed:?}:\n{model:?}\n{found:?}");
            assert_eq!(recovered_twice(&disk, crash), found, "{crash:?} at {at}");
            goes_on(&after, &log);
        }
    }
}

/// What is found when the recovery crashes too, at its last operation.
fn recovered_twice(disk: &MemoryDisk, crash: Crash) -> Model {
    let counted = disk.crashed(crash);
    open(&counted).unwrap();
    let operations = counted.operations();
    let interrupted = disk.crashed(crash);
    interrupted.fail_at(operations.saturating_sub(1));
    assert_eq!(open(&interrupted).is_err(), operations > 0);
    Model::of(&open(&interrupted.crashed(Crash::Tear(operations))).unwrap())
}

/// A recovered log is written on, and recovered once more.
fn goes_on(disk: &MemoryDisk, log: &Log) {
    let next = log.bounds().1.map_or(0, |last| last.index + 1);
    append(log, vec![entry(9, next, 5)]).unwrap();
    let found = Model::of(log);
    assert_eq!(Model::of(&open(&disk.crashed(Crash::Lose)).unwrap()), found);
}

#[test]
fn a_crash_in_a_write_at_any_byte_keeps_what_was_written_before() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    append(&log, vec![entry(1, 0, 3), entry(1, 1, 3)]).unwrap();
    let before = disk.read(&segment::name(1)).unwrap();
    append(&log, vec![entry(1, 2, 3), entry(1, 3, 3)]).unwrap();
    let after = disk.read(&segment::name(1)).unwrap();
    let start = before.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let end = after.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in start..=end {
        for from_the_front in [true, false] {
            let mut bytes = if from_the_front { after.clone() } else { before.clone() };
            let rest = if from_the_front { &before } else { &after };
            bytes[cut..].copy_from_slice(&rest[cut..]);
            let torn = MemoryDisk::new();
            torn.replace(&segment::name(1), &bytes).unwrap();
            let entries = open(&torn).unwrap().read(0..9).unwrap();
            assert!(entries.len() >= 2, "byte {cut}");
            let expected = [entry(1, 0, 3), entry(1, 1, 3), entry(1, 2, 3), entry(1, 3, 3)];
            assert_eq!(entries, expected[..entries.len()]);
        }
    }
}

#[test]
fn damage_to_what_was_durable_is_refused_by_file_and_offset() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    for index in 0..60 {
        append(&log, vec![entry(1, index, 60)]).unwrap();
    }
    assert!(disk.list().unwrap().len() > 2, "several segments");
    disk.flip(&segment::name(1), segment::HEADER + 40);
    let error = open(&disk).err().unwrap().to_string();
    assert_eq!(
        error,
        "a checksum that does not match at byte 64 of log-0000000000000001.seg: \
         the log is damaged and nothing was changed"
    );
}

#[test]
fn the_last_write_of_a_full_segment_may_not_be_damaged_either() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    for index in 0..60 {
        append(&log, vec![entry(1, index, 60)]).unwrap();
    }
    let first = disk.read(&segment::name(1)).unwrap();
    let last = first.iter().rposition(|byte| *byte != 0).unwrap();
    disk.flip(&segment::name(1), last);
    assert!(matches!(open(&disk).err(), Some(LogError::Corrupt { .. })));
}

#[test]
fn a_missing_segment_is_refused() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    for index in 0..60 {
        append(&log, vec![entry(1, index, 60)]).unwrap();
    }
    disk.remove(&segment::name(1)).unwrap();
    let error = open(&disk).err().unwrap().to_string();
    assert!(error.contains("a missing segment at byte 0 of log-0000000000000001.seg"), "{error}");
}

#[test]
fn purged_segments_leave_the_disk() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    for index in 0..60 {
        append(&log, vec![entry(1, index, 60)]).unwrap();
    }
    let before = disk.list().unwrap().len();
    now(|done| log.purge(Position { term: 1, index: 58 }, done)).unwrap();
    assert!(disk.list().unwrap().len() + 3 < before);
    assert_eq!(open(&disk).unwrap().read(0..100).unwrap(), [entry(1, 59, 60)]);
}

#[test]
fn nothing_is_written_after_a_failed_sync() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    append(&log, vec![entry(1, 0, 1)]).unwrap();
    // The write succeeds, the sync does not.
    disk.fail_at(disk.operations() + 1);
    assert!(append(&log, vec![entry(1, 1, 1)]).is_err());
    disk.fail_at(u64::MAX);
    assert!(append(&log, vec![entry(1, 2, 1)]).is_err());
    assert!(now(|done| log.save_vote(Ballot { term: 9, node: 1, elected: false }, done)).is_err());
    assert_eq!(log.failure(), Some("the disk failed"));
}

#[test]
fn a_write_is_one_sync() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    let before = disk.syncs();
    for index in 0..5 {
        append(&log, vec![entry(1, index, 1)]).unwrap();
    }
    assert_eq!(disk.syncs() - before, 5);
}

#[test]
fn an_entry_larger_than_a_segment_gets_one_of_its_own() {
    let disk = MemoryDisk::new();
    let log = open(&disk).unwrap();
    let large = entry(1, 0, 5000);
    append(&log, vec![large.clone(), entry(1, 1, 1)]).unwrap();
    assert_eq!(open(&disk).unwrap().read(0..9).unwrap(), [large, entry(1, 1, 1)]);
}
