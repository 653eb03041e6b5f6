//! Who may seal, and on whose standing a record counts (§5), by short words (`script`).
//!
//! Key 1 is the authority, key 3 makes the first seals of records that begin with `b3`. A row has a name,
//! the words of the record, trusted keys, pinned keys, the verdict, codes, and the number of good seals
//! that may be trusted.

use super::script::record;
use super::{ALL, Set, Want, want};

const TABLES: [(&str, &str); 8] = [
    ("§5: current, authority, next_key", NEXT_KEYS),
    ("§5: key, next", ANNOUNCED),
    ("§5: delegates", DELEGATES),
    ("§5: final seal", ENDS),
    ("§5: authority, heir", HEIRS),
    ("§4, §5: keys of the last checkpoint", TAILS),
    ("§5: trust", TRUST),
    ("§5: trust of heirs", TRUST_OF_HEIRS),
];

const NEXT_KEYS: &str = "
key-current                           | b3 s3 s3 c f3    | 1   | - | verified | -               | all
key-authority-beside-the-current      | b3 s1 s3 s1 c f3 | 1   | - | verified | -               | all
key-authority-ends                    | b3 c f1          | 1   | - | verified | -               | all
key-stranger                          | b3 s9            | 1   | - | forged   | key_not_allowed | 1
key-stranger-who-is-trusted           | b3 s9            | 1 9 | - | forged   | key_not_allowed | 1
next-key                              | b3 s3>4 s4 c f4  | 1   | - | verified | -               | all
next-key-and-the-old-seals            | b3 s3>4 s3       | 1   | - | forged   | key_not_allowed | 2
next-key-the-current                  | b3 s3>3          | 1   | - | forged   | next_key_bad    | 1
next-key-the-authority                | b3 s3>1          | 1   | - | forged   | next_key_bad    | 1
next-key-given-up                     | b3 s3>4 s4>3     | 1   | - | forged   | next_key_bad    | 2
next-key-by-a-delegate                | b3 d5 s5>6       | 1   | - | forged   | next_key_bad    | 1
next-key-by-the-authority             | b3 s1>4 s4 c f4  | 1   | - | verified | -               | all
next-key-in-a-record-of-the-authority | b1 s1>3 s3 c f3  | 1   | - | verified | -               | all
next-key-the-authority-gave-itself-up | b1 s1>3 s1       | 1   | - | forged   | key_not_allowed | 2
next-key-back-to-the-authority        | b1 s1>3 s3>1     | 1   | - | forged   | next_key_bad    | 2
next-key-at-seal-0-is-current         | b3 s4            | 1   | - | forged   | key_not_allowed | 1
next-key-example                 | b3 t s3>4 t s4 e c f4 l f1 | 1 | - | verified | -               | all
next-key-example-line-8-by-key-1 | b3 t s3>4 t s3             | 1 | - | forged   | key_not_allowed | 2
next-key-example-line-13-by-key-2 | b3 t s3>4 t s4 e c f4 l f4 | 1 | - | forged  | key_not_allowed | 4
";

const ANNOUNCED: &str = "
announced-seals                    | b3 k4 s3 s4 c f4      | 1 | - | verified | -               | all
announced-seals-and-the-old        | b3 k4 s3 s4 s3        | 1 | - | forged   | key_not_allowed | 3
announced-not-covered              | b3 k4 s4              | 1 | - | forged   | key_not_allowed | 1
announced-covered-by-a-delegate    | b3 d5 k4 s5 s4        | 1 | - | forged   | key_not_allowed | 2
announced-covered-by-the-authority | b3 k4 s1 s4           | 1 | - | forged   | key_not_allowed | 2
announced-twice-the-first-seals    | b3 k4 k5 s3 s4        | 1 | - | forged   | key_not_allowed | 2
next-replaced-by-a-later           | b3 k4 s3 k5 s3 s4     | 1 | - | forged   | key_not_allowed | 3
next-dropped-by-next-key           | b3 k4 s3 s3>5 s4      | 1 | - | forged   | key_not_allowed | 3
announced-dropped-by-next-key      | b3 k4 s3>5 s5 s4      | 1 | - | forged   | key_not_allowed | 3
next-names-a-next-key              | b3 k4 s3 s4>5 s5 c f5 | 1 | - | verified | -               | all
next-names-the-key-it-replaced     | b3 k4 s3 s4>3         | 1 | - | forged   | next_key_bad    | 2
next-key-is-itself                 | b3 k4 s3 s4>4         | 1 | - | forged   | next_key_bad    | 2
key-event-of-the-current           | b3 k3 s3              | 1 | - | tampered | event_malformed | 1
key-event-of-the-authority         | b3 k1 s3              | 1 | - | tampered | event_malformed | 1
key-event-of-a-given-up            | b3 s3>4 k3 s4         | 1 | - | tampered | event_malformed | 2
next-replaced-and-named-again | b3 k4 s3 k5 s3 k4 s3 s4 | 1 | - | open | end_unproved | all
next-that-is-a-delegate-seals-as-next | b3 d5 k5 s3 s5 s3 | 1 | - | forged | key_not_allowed | 3
";

const DELEGATES: &str = "
delegate-seals                                  | b3 d5 s5 s5 c f5   | 1 | - | verified | -               | all
delegate-before-its-event                       | b3 s5              | 1 | - | forged   | key_not_allowed | 1
delegate-behind-the-end                         | b3 d5 s5 c f3 l f5 | 1 | - | forged   | key_not_allowed | 3
delegation-of-a-given-up-key                    | b3 s3>4 d3 s4      | 1 | - | tampered | event_malformed | 2
delegation-by-a-stranger                        | b3 d5/9 s3         | 1 | - | tampered | event_malformed | 1
delegation-by-the-current-key                   | b3 d5/3 s3         | 1 | - | tampered | event_malformed | 1
delegation-by-an-authority-that-gave-its-key-up | b1 s1>3 d5 s5 c f3 | 1 | - | verified | -               | all
delegation-by-the-key-after-the-authority       | b1 s1>3 d5/3 s3    | 1 | - | tampered | event_malformed | 2
delegate-becomes-current                        | b3 d5 s3>5 s5 c f5 | 1 | - | verified | -               | all
delegate-became-current-and-gave-up             | b3 d5 s3>5 s5>6 s5 | 1 | - | forged   | key_not_allowed | 3
delegate-that-is-the-authority-names-a-next-key | b3 d1 s1>4 | 1 | - | forged | next_key_bad | 1
";

const ENDS: &str = "
ended-link-by-the-authority    | b3 c f3 l f1         | 1 | - | verified | -               | all
ended-link-by-the-current      | b3 c f3 l f3         | 1 | - | forged   | key_not_allowed | 2
ended-link-by-the-next         | b3 k4 s3 c f3 l f4   | 1 | - | forged   | key_not_allowed | 3
ended-link-by-the-announced    | b3 k4 c f3 l f4      | 1 | - | forged   | key_not_allowed | 2
ended-with-a-next-key-it-seals | b3 c f3>4 l f4       | 1 | - | forged   | key_not_allowed | 2
ended-own-link-by-the-given-up | b1 s1>3 s3 c f3 l f1 | 1 | - | forged   | key_not_allowed | 4
ended-own-link-by-the-next     | b1 k4 s1 c f1 l f4   | 1 | - | verified | -               | all
ended-own-with-a-next-key      | b1 c f1>3 l f3       | 1 | - | verified | -               | all
";

const HEIRS: &str = "
heir-seals                        | b3 c f3 a1>6 f6              | 1 6   | - | verified | -               | all
heir-and-the-authority-seals      | b3 c f3 a1>6 f1              | 1 6   | - | forged   | key_not_allowed | 2
heir-and-the-current-seals        | b1 s1>3 s3 c f3 a1>6 f3      | 1 6   | - | forged   | key_not_allowed | 4
heir-before-the-event             | b3 c f3 l f6                 | 1 6   | - | forged   | key_not_allowed | 2
heir-while-open                   | b3 a1>6 s3                   | 1 6   | - | tampered | event_malformed | 1
heir-is-the-authority             | b3 c f3 a1>1 f1              | 1     | - | tampered | event_malformed | 2
heir-is-the-current               | b1 s1>3 s3 c f3 a1>3 f3      | 1     | - | tampered | event_malformed | 4
heir-is-the-first-key             | b3 c f3 a1>3 f1              | 1     | - | tampered | event_malformed | 2
heir-named-by-a-stranger          | b3 c f3 a1>6/9 f1            | 1 6   | - | tampered | event_malformed | 2
heir-of-the-heir                  | b3 c f3 a1>6 f6 a6>7 f7      | 1 6 7 | - | verified | -               | all
heir-of-the-heir-by-the-authority | b3 c f3 a1>6 f6 a1>7 f6      | 1 6   | - | tampered | event_malformed | 3
heir-of-the-heir-is-the-authority | b3 c f3 a1>6 f6 a6>1 f6      | 1 6   | - | tampered | event_malformed | 3
heir-of-the-heir-at-once          | b3 c f3 a1>6 a6>7 f7         | 1 7   | - | verified | -               | all
heir-names-a-next-key             | b3 c f3 a1>6 f6>7            | 1 6   | - | forged   | next_key_bad    | 2
heir-is-a-former-delegate | b3 d5 s5 c f3 a1>5 f5 | 1 5 | - | verified | - | all
heir-is-a-former-next-key | b3 k4 s3 c f3 a1>4 f4 | 1 4 | - | verified | - | all
";

const TAILS: &str = "
tail-key-adopted-and-it-seals         | b3 k4 A s3 s4            | 1 | - | forged  | key_not_allowed | 2
tail-key-dropped-and-it-seals         | b3 k4 D s3 s4            | 1 | - | forged  | key_not_allowed | 2
tail-delegation-adopted-and-it-seals  | b3 d5 A s5               | 1 | - | forged  | key_not_allowed | 1
tail-delegation-adopted-and-repeated  | b3 d5 A d5 s5 c f3       | 1 | - | partial | tail_adopted    | all
tail-heir-adopted-the-authority-seals | b3 c f3 a1>6 A f1        | 1 | - | partial | tail_adopted    | all
tail-keys-of-the-last-checkpoint-stay | b3 d5 k4 s3 A s5 s4 c f4 | 1 | - | partial | tail_adopted    | all
";

const TRUST: &str = "
trust-none                                | b1 c f1       | - | - | unknown_signer | key_unknown                | 0
trust-pin                                 | b1 c f1       | - | 1 | verified       | -                          | all
trust-pin-another                         | b1 c f1       | 1 | 9 | unknown_signer | other_signer               | 0
trust-first-key-alone                     | b3 c f3       | 3 | - | verified       | -                          | all
trust-pin-authority-of-a-first-key        | b3 c f3       | - | 1 | verified       | -                          | all
trust-first-key-and-not-the-authority     | b3 s1 c f3    | 3 | - | unknown_signer | key_unknown                | 0
trust-pin-first-key-and-not-the-authority | b3 s1 c f3    | 1 | 3 | unknown_signer | other_signer               | 0
trust-delegate-alone                      | b3 d5 s5 c f5 | 5 | - | unknown_signer | key_unknown                | 0
trust-none-and-open                       | b1 s1         | - | - | unknown_signer | end_unproved key_unknown   | 0
trust-none-and-a-fault                    | b1 j s1       | - | - | tampered       | key_unknown line_malformed | 0
";

const TRUST_OF_HEIRS: &str = "
trust-heir-not                               | b3 c f3 a1>6 f6 | 1   | -   | unknown_signer | key_unknown   | 0
trust-heir-pinned-alone                      | b3 c f3 a1>6 f6 | 1 6 | 6   | unknown_signer | other_signer  | 0
trust-heir-pinned-and-the-authority          | b3 c f3 a1>6 f6 | -   | 1 6 | verified       | -             | all
trust-heir-and-the-authority-pinned          | b3 c f3 a1>6 f6 | 1 6 | 1   | verified       | -             | all
trust-heir-by-the-store-the-authority-by-pin | b3 c f3 a1>6 f6 | 6   | 1   | verified       | -             | all
trust-heir-not-the-authority-pinned          | b3 c f3 a1>6 f6 | 1   | 1   | unknown_signer | other_signer  | 0
trust-heir-that-never-sealed                 | b3 c f3 a1>6    | 1   | -   | unsigned_tail  | unsigned_tail | all
";

pub(super) fn add(set: &mut Set) {
    for (rule, table) in TABLES {
        for row in table.lines().filter(|row| !row.is_empty()) {
            let parts: Vec<&str> = row.split('|').map(str::trim).collect();
            let [name, words, trusted, pinned, verdict, codes, good] = parts[..] else {
                panic!("no row of a table: {row}");
            };
            let good = good.parse().unwrap_or(ALL);
            let want = want(verdict, &list(codes), good).pinning(&numbers(pinned));
            set.add(name, rule, &record(words), trusting(want, trusted));
        }
    }
}

/// The folder trusts key 1.
fn trusting(want: Want, trusted: &str) -> Want {
    match trusted {
        "1" => want,
        other => want.trusting(&numbers(other)),
    }
}

/// Words apart; `-` are none.
fn list(text: &'static str) -> Vec<&'static str> {
    let words = text.split_whitespace();
    words.filter(|word| *word != "-").collect()
}

fn numbers(text: &str) -> Vec<u8> {
    let words = text.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}
