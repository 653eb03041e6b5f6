//! In which order entries stand in the log that takes the place of another one.

use super::prelude::*;

fn ended(scene: &OnDisk, seed: u8) {
    scene.open().commit_key_event(&revoked(seed)).unwrap();
}

/// A turn, or a record of one of several actors, is judged by the head that covers it, and not by the last one.
// T-KLOG-17
#[test]
fn all_that_stood_before_the_last_end_of_a_key_keeps_its_place() {
    let scene = on_disk();
    scene.commit([head(1, 0), head(2, 0)]);
    scene.commit([head(1, 1), head(1, 2)]);
    ended(&scene, 1);
    scene.commit([head(1, 3), head(2, 1)]);
    let created = event(3, KeyChange::Create);
    scene.open().commit_key_event(&created).unwrap();
    ended(&scene, 2);
    scene.commit([head(1, 4), head(1, 5), head(3, 0)]);
    for next in [NEXT, id(0xef)] {
        assert_eq!(scene.restart(next, &[], &[]), (3, 0));
        let log = scene.open();
        let expected = "1:0 2:0 1:1 1:2 end 1:3 2:1 key end 1:5 3:0";
        assert_eq!(order(&log), expected);
        log.assert_whole();
    }
}

// T-KLOG-17
#[test]
fn of_more_heads_than_come_along_the_newest_before_each_end_do_and_that_is_not_done_by_the_way() {
    let scene = on_disk();
    scene.commit(heads(1, 0..60));
    ended(&scene, 1);
    scene.commit(heads(1, 60..120));
    ended(&scene, 2);
    let refused = scene.replace(scene.past(&[])).unwrap_err();
    assert!(refused.to_string().contains("--anyway"), "{refused}");
    scene.restart(id(0xef), &[], &[]);
    let order = order(&scene.open());
    assert!(order.starts_with("1:59 end "), "{order:?}");
    assert!(order.ends_with(" 1:119 end"), "{order:?}");
    assert!(order.split(' ').count() < 100, "{order:?}");
}
