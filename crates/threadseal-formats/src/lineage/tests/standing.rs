//! The state of a lineage after each link.

use super::*;

fn follow(standing: &Standing, link: &Made) -> Result<Standing, StandingFault> {
    standing.follow(&link.whole())
}

fn begun() -> (Standing, Made) {
    let link = first(1, 1);
    (follow(&Standing::begin(), &link).unwrap(), link)
}

#[test]
fn links_follow_in_order_and_no_other_way() {
    let (one, link) = begun();
    assert_eq!(one.newest(), Some(link.hash));
    let second = link.next(1, b"s");
    let two = follow(&one, &second).unwrap();
    assert_eq!(two.header().unwrap().tick, second.header.tick);
    let skipped = link.next_with(1, b"s", |header| part(header).seq += 1);
    for (standing, link) in [
        (&Standing::begin(), &second),
        (&one, &link),
        (&two, &second),
        (&one, &skipped),
    ] {
        assert_eq!(follow(standing, link), Err(StandingFault::Chain));
    }
    assert!(follow(&Standing::cut(), &skipped).is_ok());
}

#[test]
fn what_may_not_fall_or_rise_is_named() {
    let (one, link) = begun();
    let edits: [(Option<&str>, fn(&mut CheckpointHeader)); 3] = [
        (Some("tick"), |header| header.tick = 4),
        (Some("budget"), |header| header.budget += 1),
        (None, |header| header.epoch.generation += 1),
    ];
    for (field, edit) in edits {
        let fault = follow(&one, &link.next_with(1, b"s", edit)).err();
        assert_eq!(fault, field.map(StandingFault::Transition));
    }
}

#[test]
fn nothing_but_an_answer_follows_a_release() {
    let (one, link) = begun();
    let release = link.release(1, 2);
    let released = follow(&one, &release).unwrap();
    let fault = follow(&released, &release.next(1, b"s")).unwrap_err();
    assert!(matches!(fault, StandingFault::Place(Refusal::Kind(_))));
    let refused = follow(&released, &release.refuse(2)).unwrap();
    assert_eq!(refused.authority().holder(), one.authority().holder());
}
