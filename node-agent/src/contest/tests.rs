//! Asking, conflicts and defences, by the clock.

use super::*;

const STRANGER: Mac = [2, 0, 0, 0, 0, 9];
const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 10));
const PLACE: Place = (2, IP);

fn after(now: Instant, milliseconds: u64) -> Instant {
    now + Duration::from_millis(milliseconds)
}

#[test]
fn a_new_address_is_asked_for_once_and_waits_for_the_first_answer() {
    let (mut contests, now) = (Contests::default(), Instant::now());
    assert_eq!(contests.judge(PLACE, false, now), (Some(Contest::Asking), true));
    assert_eq!(contests.judge(PLACE, false, after(now, 39)), (Some(Contest::Asking), false));
    assert_eq!(contests.next(now), Some(now + FIRST));
    assert_eq!(contests.judge(PLACE, false, now + FIRST), (None, false));
    assert_eq!(contests.next(now + FIRST), None);
    // Much later it has to be asked for anew, unless it is there.
    assert_eq!(contests.judge(PLACE, true, now + FREE * 2), (None, false));
    assert_eq!(contests.judge(PLACE, false, now + FREE * 2), (Some(Contest::Asking), true));
}

#[test]
fn whoever_answers_while_the_rfc_waits_has_it_though_it_is_used_already() {
    let (mut contests, now) = (Contests::default(), Instant::now());
    contests.judge(PLACE, false, now);
    contests.claimed(PLACE, STRANGER, after(now, 1900));
    assert_eq!(contests.judge(PLACE, true, after(now, 1901)), (Some(Contest::Held(STRANGER)), false));
}

#[test]
fn one_that_another_node_lets_go_of_is_used_at_once_and_given_up_when_a_stranger_has_it() {
    let (mut contests, now) = (Contests::default(), Instant::now());
    contests.leaves(IP, Some([2, 0, 0, 0, 0, 1]), now);
    contests.leaves(IP, None, now);
    assert_eq!(contests.leaver(IP), Some([2, 0, 0, 0, 0, 1]));
    assert_eq!(contests.judge(PLACE, false, now), (None, true));
    contests.claimed(PLACE, STRANGER, after(now, 5));
    assert_eq!(contests.judge(PLACE, true, after(now, 6)), (Some(Contest::Held(STRANGER)), false));
    contests.keep(&BTreeSet::new(), now + HAND_OVER);
    assert_eq!((contests.leaver(IP), contests.next(now)), (None, None));
}

#[test]
fn a_conflict_is_asked_about_ever_less_often_and_ends_when_nobody_answers() {
    let (mut contests, mut now) = (Contests::default(), Instant::now());
    contests.judge(PLACE, false, now);
    for pause in [2, 4, 8, 16, 32, 60, 60] {
        now = after(now, 5);
        contests.claimed(PLACE, STRANGER, now);
        contests.claimed(PLACE, STRANGER, now);
        let held = (Some(Contest::Held(STRANGER)), false);
        assert_eq!(contests.judge(PLACE, false, after(now, 1)), held);
        let due = now + Duration::from_secs(pause);
        assert_eq!(contests.judge(PLACE, false, due - Duration::from_millis(1)), held);
        now = due;
        assert_eq!(contests.judge(PLACE, false, now), (Some(Contest::Held(STRANGER)), true));
        assert_eq!(
            contests.judge(PLACE, false, now + FIRST),
            held,
            "it is believed only after the whole time"
        );
    }
    assert_eq!(contests.next(now + FIRST), Some(now + WHOLE));
    assert_eq!(contests.judge(PLACE, false, now + WHOLE), (None, false));
}

#[test]
fn an_address_in_place_is_defended_after_a_moment_and_not_too_often() {
    let (mut contests, now) = (Contests::default(), Instant::now());
    contests.claimed(PLACE, STRANGER, now);
    assert_eq!(contests.judge(PLACE, true, now), (Some(Contest::Claimed(STRANGER)), false));
    assert_eq!((contests.defences(now), contests.next(now)), (BTreeSet::new(), Some(now + HOLD_BACK)));
    let defended = now + HOLD_BACK;
    assert_eq!(contests.defences(defended), BTreeSet::from([PLACE]));
    contests.claimed(PLACE, STRANGER, after(defended, 1));
    assert_eq!(contests.next(defended), Some(after(defended, 1) + TELL), "enough for now");
    contests.claimed(PLACE, STRANGER, defended + DEFEND);
    assert_eq!(contests.defences(defended + DEFEND + HOLD_BACK), BTreeSet::from([PLACE]));
    let places = BTreeSet::from([PLACE]);
    contests.keep(&places, defended + DEFEND + TELL);
    assert_eq!(contests.judge(PLACE, true, defended + DEFEND + TELL), (None, false));
}

#[test]
fn who_claims_an_address_that_leaves_this_node_is_not_fought() {
    let (mut contests, now) = (Contests::default(), Instant::now());
    contests.claimed(PLACE, STRANGER, now);
    contests.keep(&BTreeSet::new(), after(now, 500));
    assert_eq!(contests.defences(now + HOLD_BACK), BTreeSet::new());
}
