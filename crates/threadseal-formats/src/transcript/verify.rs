//! Joins the two halves of native verification to one report (`spec/transcript.md` §5 to §7).
//!
//! ```text
//! Scan + PrefixHasher + trust + now ─► Outcome { report, Verified<Coverage>?, Sealer? }
//! ```
//! Invariants: nothing is `verified` unless every check that applies passed. [`Coverage`] never
//! includes a tail. A lenient caller gets [`WithTail`], never another verdict.
//!
//! Not here: reading files and running the halves on two cores (`threadseal-store`).

use super::bodies::{Bodies, SealedRedaction};
use super::manifest::{self, Manifest};
use super::order::Order;
use super::prefix::PrefixHasher;
use super::scan::{PendingSignature, Scan, ScanOptions, Scanner};
use super::write::Sealer;
use crate::verified::{Grounds, Verified, WithTail};
use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyId, KeyUsage, PublicKey};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::heads::{self, Bearing, End};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile,
    Report, Severity, Stats, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_core::trust::{Judgement, LastOf, Purpose, ScopeFormat, Standing, Trust, covering};

/// The inputs of verification besides the bytes.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// When this verifier held a head of the record before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
    /// The thread that the caller expects.
    pub thread: Option<&'a ThreadId>,
}

/// The facts that a native record proves: the first `head.size` bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The record.
    pub record: RecordId,
    /// Its last seal.
    pub head: Head,
    /// SHA-256 of those bytes, to recognise them when they are read again.
    pub digest: Digest,
    /// Byte ranges that the record itself marks as unverified, in order, apart from each other. See
    /// [`lies_within`].
    pub adopted: Vec<[u64; 2]>,
}

/// Whether an offset is in one of these ranges, which are in order and apart from each other.
pub fn lies_within(ranges: &[[u64; 2]], offset: u64) -> bool {
    let begun = ranges.partition_point(|[from, _]| *from <= offset);
    let last = begun.checked_sub(1).and_then(|at| ranges.get(at));
    last.is_some_and(|[_, to]| offset < *to)
}

/// Bytes after the last seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Where they begin.
    pub from: u64,
    /// Where the file ends.
    pub to: u64,
}

/// The end of a verification.
pub struct Outcome {
    /// The report to show.
    pub report: Report,
    /// Present exactly when the verdict is `verified`.
    pub verified: Option<Verified<Coverage>>,
    /// The writer's state, when the file ends at a good seal: a record is continued from here.
    pub sealer: Option<Sealer>,
    /// A failure, or an adopted tail, was found without the closer look: run again with
    /// [`ScanOptions::every_signature`] to learn how far the record can be trusted, and whether the
    /// tail is the one that was found.
    pub look_closer: bool,
    /// Bodies that are still present although a sealed redaction records them as dropped.
    pub unfinished: Vec<Digest>,
    /// The seals that are the first to cover a redaction: at most
    /// [`threadseal_core::limits::MAX_REDACTING_SEALS`], in their order.
    pub redactions: Vec<SealedRedaction>,
    /// The statements in sealed events about keys that the authority admitted beside the current
    /// one.
    pub delegations: Vec<SealedDelegation>,
    lenient: Option<WithTail<Coverage, Tail>>,
}

/// The permission of a record's authority for another key, in a line that a seal covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedDelegation {
    /// The record.
    pub record: RecordId,
    /// Its authority.
    pub by: PublicKey,
    /// The key that it admitted.
    pub to: PublicKey,
    /// The line of the statement.
    pub line: u64,
}

impl Outcome {
    /// The result for a lenient policy: the sealed part and the tail, separately. All seals must
    /// hold; the end may be unproved.
    pub fn lenient(self) -> Option<WithTail<Coverage, Tail>> {
        self.lenient
    }
}

/// Both halves of verification in one place, for callers without a second core.
pub struct Verifier {
    scanner: Scanner,
    prefix: PrefixHasher,
}

impl Verifier {
    /// A verifier at the beginning of a file.
    pub fn new(options: ScanOptions) -> Self {
        Self {
            scanner: Scanner::new(options),
            prefix: PrefixHasher::new(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let points = self.scanner.push(chunk);
        self.prefix.push(chunk, &points);
    }

    /// Ends the file and gives the result.
    pub fn finish(self, options: &VerifyOptions<'_>) -> Outcome {
        conclude(self.scanner, &self.prefix, options)
    }
}

/// Verifies `bytes`, with a second look after a failure.
pub fn verify(bytes: &[u8], scan: &ScanOptions, options: &VerifyOptions<'_>) -> Outcome {
    let look = |scan: ScanOptions| {
        let mut verifier = Verifier::new(scan);
        verifier.push(bytes);
        verifier.finish(options)
    };
    let outcome = look(scan.clone());
    if outcome.look_closer {
        look(ScanOptions {
            every_signature: true,
            ..scan.clone()
        })
    } else {
        outcome
    }
}

/// Joins the results of the two halves.
pub fn conclude(scanner: Scanner, prefix: &PrefixHasher, options: &VerifyOptions<'_>) -> Outcome {
    let every_signature = scanner.options.every_signature;
    let expect = scanner.options.expect.clone();
    let bodies = scanner.options.bodies.clone();
    let (chain_leaves, chain_keys, origin) = (
        scanner.chain.leaves.clone(),
        scanner.chain.keys.clone(),
        scanner.chain.origin.clone(),
    );
    let order = scanner.chain.order;
    let line_1 = origin.as_ref().and_then(manifest::digest_of);
    let scan = scanner.finish();
    let mut report = Report::begin(Format::Transcript, Profile::Native);
    report.stats = Stats {
        bytes: scan.bytes,
        events: scan.lines,
        checkpoints: scan.checkpoints,
    };
    report.record = scan.manifest.as_ref().map(|manifest| manifest.record);
    report.trust = Some(options.trust.digest());
    check_seals(&mut report, &scan, prefix, every_signature);
    let sound = !report.verdict.is_evidence();
    let arithmetic_holds = prefix.first_bad().is_none();
    let trusted = check_trust(&mut report, &scan, arithmetic_holds, options);
    check_thread(&mut report, &scan, options.thread);
    let met = scan.met.iter().copied();
    heads::check(&mut report, &expect, met, &end(&scan));
    if let Some(line_1) = &line_1 {
        heads::check_forks(&mut report, &expect, |fork| {
            bearing(fork, line_1, &scan, order.has_ended())
        });
    }
    check_end(&mut report, &scan, &expect);
    let unfinished = check_bodies(&mut report, &scan, bodies.as_deref());
    if let Some(last) = scan.last.as_ref().filter(|_| arithmetic_holds) {
        report.head = Some(last.head);
        report.dates.sealed = Some(last.time);
        // Unless every signature was checked, the last valid numbers may not be those of the last
        // good seal.
        if trusted && (sound || every_signature) {
            report.trusted_until = Some(last.trusted_until());
        }
    }
    if report.verdict.is_evidence() {
        report.completeness = Completeness::Unproved;
    }
    let verified = mint(&report, &scan, prefix, options);
    let lenient = lenient(&report, &scan, prefix, options);
    let continues = sound
        && matches!(
            report.verdict,
            Verdict::Verified | Verdict::Open | Verdict::Partial
        );
    let sealer = match (&scan.last, &scan.manifest, origin, thread_of(&scan)) {
        (Some(last), Some(manifest), Some(origin), Some(thread))
            if continues && last.head.size == scan.bytes =>
        {
            Some(Sealer {
                thread,
                manifest: manifest.clone(),
                origin,
                rye_fp: manifest.rye_key.rye_fingerprint(),
                keys: chain_keys,
                leaves: chain_leaves,
                prefix: prefix.hasher(),
                size: scan.bytes,
                head: Some(last.head),
                turn: last.turn,
                unsealed_lines: 0,
                order: Order::after_seal(order.has_ended()),
                fence: last.fence,
                stated: None,
                bodies: scan.watch.count(),
                adopted: scan.adopted.len(),
            })
        }
        _ => None,
    };
    Outcome {
        look_closer: (!sound || scan.adopts) && !every_signature,
        report,
        verified,
        unfinished,
        redactions: scan.watch.redactions().to_vec(),
        delegations: delegations(&scan),
        sealer,
        lenient,
    }
}

fn delegations(scan: &Scan) -> Vec<SealedDelegation> {
    let said = |manifest: &Manifest| {
        let of = |(to, line): &(PublicKey, u64)| SealedDelegation {
            record: manifest.record,
            by: manifest.authority,
            to: *to,
            line: *line,
        };
        scan.delegated.iter().map(of).collect()
    };
    scan.manifest.as_ref().map_or_else(Vec::new, said)
}

/// Does a known fork affect this copy of the record with this line 1?
fn bearing(fork: &LoggedFork, line_1: &Digest, scan: &Scan, ended: bool) -> Bearing {
    let ForkPlace::Transcript { manifest, seq } = fork.place else {
        return Bearing::Clear;
    };
    // A record that ended without that key is no history of it. A delegate seals nothing after an
    // end, whatever it invents.
    let mut seals = scan.sealers.iter();
    let made_one = seals.any(|last| last.key.key_id() == fork.key && last.head.seq >= seq);
    match manifest == *line_1 && (!ended || made_one) {
        true => Bearing::Forked,
        false => Bearing::Clear,
    }
}

fn check_seals(report: &mut Report, scan: &Scan, prefix: &PrefixHasher, every_signature: bool) {
    if let Some(failure) = &scan.failure {
        report.hold(failure.verdict);
        for finding in &failure.findings {
            report.find(finding.clone());
        }
    }
    if let Some(seq) = prefix.first_bad() {
        let text = format!("seal {seq} has a wrong digest of the bytes before it");
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::PrefixHashWrong, text),
        );
    }
    let arithmetic = match report.verdict {
        Verdict::Verified => CheckResult::Pass,
        _ => CheckResult::Fail,
    };
    report.check(CheckName::Seals, arithmetic, None);
    let bad: Vec<&PendingSignature> = scan.pending.iter().filter(|p| !p.holds()).collect();
    for signature in &bad {
        let text = format!(
            "the signature of key {} does not verify",
            signature.key.key_id()
        );
        let finding = Finding::error(signature.code(), text).at_line(signature.line);
        report.downgrade(Verdict::Forged, finding.in_turn(Some(signature.turn)));
    }
    let signatures = if bad.is_empty() {
        CheckResult::Pass
    } else {
        CheckResult::Fail
    };
    let how = if every_signature {
        "every signature"
    } else {
        "the last signature of each key, which covers all before it"
    };
    report.check(CheckName::Signatures, signatures, Some(how.to_owned()));
}

/// Judges the signers; true when the trust vouches for this record.
fn check_trust(
    report: &mut Report,
    scan: &Scan,
    arithmetic_holds: bool,
    options: &VerifyOptions<'_>,
) -> bool {
    let Some(manifest) = &scan.manifest else {
        report.check(
            CheckName::Trust,
            CheckResult::Skipped,
            Some("the record has no manifest".to_owned()),
        );
        return false;
    };
    let signed = Signed {
        authority: &manifest.authority,
        sealers: &scan.sealers,
        last_word: scan.last_word,
        heirs: &scan.heirs,
        arithmetic_holds,
        thread: thread_of(scan),
    };
    judge_signers(report, &signed, options)
}

/// The keys on which a record, or a part of it, depends.
pub(super) struct Signed<'a> {
    pub(super) authority: &'a PublicKey,
    /// Keys whose seals count in it.
    pub(super) sealers: &'a [LastOf],
    /// Number of the first seal over all statements of the authority about others.
    pub(super) last_word: u64,
    /// Keys that replaced the authority. It does not vouch for their seals.
    pub(super) heirs: &'a [PublicKey],
    /// Do its bytes fit its seals? Otherwise its heads are no evidence.
    pub(super) arithmetic_holds: bool,
    pub(super) thread: Option<ThreadId>,
}

impl Signed<'_> {
    /// The heads that cover all seals up to number `seq`.
    fn heads(&self, seq: u64) -> Vec<Head> {
        match self.arithmetic_holds {
            true => covering(self.sealers, seq),
            false => Vec::new(),
        }
    }
}

fn purpose<'a>(
    thread: Option<&'a str>,
    heads: &'a [Head],
    options: &VerifyOptions<'_>,
) -> Purpose<'a> {
    Purpose {
        usage: KeyUsage::Native,
        format: ScopeFormat::Transcript,
        thread,
        evidence: options.held_since,
        heads,
    }
}

/// Judges the signers; true when the authority, or each key alone, counts.
pub(super) fn judge_signers(
    report: &mut Report,
    signed: &Signed<'_>,
    options: &VerifyOptions<'_>,
) -> bool {
    let (trust, now) = (options.trust, options.now);
    let thread = signed.thread.as_ref().map(ThreadId::as_str);
    let judge =
        |key: &PublicKey, heads: &[Head]| trust.judge(key, &purpose(thread, heads, options), now);
    let mut vouchers = Vouchers::default();
    for sealer in signed.sealers {
        let heads = signed.heads(sealer.head.seq);
        let own = judge(&sealer.key, &heads);
        let authority = judge(signed.authority, &heads);
        // A verifier that accepts the authority alone also accepts the keys that it admitted,
        // unless they are revoked.
        let is_asked = authority.standing != Standing::NotPinned;
        let unpinned = match own.standing == Standing::NotPinned && is_asked {
            true => trust.judge_unpinned(&sealer.key, &purpose(thread, &heads, options), now),
            false => own.clone(),
        };
        let counts_unpinned = unpinned.standing.counts();
        // Where such a key counts alone, the authority vouches for its own statements, and not for
        // seals after its end.
        let last_word = || judge(signed.authority, &signed.heads(signed.last_word));
        if is_revoked(&unpinned) {
            vouchers.add(&sealer.key, unpinned, Some(&sealer.key));
        } else if own.standing.counts() {
            vouchers.add(&sealer.key, own, Some(&sealer.key));
        } else if signed.heirs.contains(&sealer.key) {
            // The authority ended before a key that replaced it, and does not vouch for that key.
            let counts = counts_unpinned && last_word().standing.counts();
            let heir = if counts { unpinned } else { own };
            vouchers.add(&sealer.key, heir, Some(&sealer.key));
            // Its statement after its end is a thief's.
            if !counts && is_revoked(&authority) {
                vouchers.add(signed.authority, authority, None);
            }
        } else {
            let authority = if counts_unpinned {
                last_word()
            } else {
                authority
            };
            vouchers.add(signed.authority, authority, Some(&sealer.key));
        }
    }
    // Any seal covers line 1, which the authority signed. Only later seals cover its statements
    // about other keys. Earlier seals do not validate the statements of a thief of its key after
    // its end.
    let authority = judge(signed.authority, &signed.heads(signed.last_word));
    if is_revoked(&authority) {
        vouchers.add(signed.authority, authority, None);
    }
    let all = vouchers.tell(report);
    report.check(CheckName::Trust, CheckResult::of(all), None);
    all
}

fn is_revoked(judgement: &Judgement<'_>) -> bool {
    matches!(judgement.standing, Standing::Revoked { .. })
}

/// How bad a judgement is for the record: it counts, the signer is unknown, the seal is forged.
fn weight(judgement: &Judgement<'_>) -> u8 {
    match judgement.standing {
        Standing::Revoked { doubt: None, .. } => 2,
        _ if judgement.standing.counts() => 0,
        _ => 1,
    }
}

/// The keys on whose word the verdict rests, in the order of the seals that count through them.
#[derive(Default)]
struct Vouchers<'t>(Vec<Voucher<'t>>);

struct Voucher<'t> {
    key: PublicKey,
    judgement: Judgement<'t>,
    /// The keys of these seals.
    sealed_by: Vec<KeyId>,
}

impl<'t> Vouchers<'t> {
    /// Notes that the seals of `sealer` count as this judgement of `key` does. Of several judgements
    /// of one key the worst is kept.
    fn add(&mut self, key: &PublicKey, judgement: Judgement<'t>, sealer: Option<&PublicKey>) {
        let sealer = sealer.map(PublicKey::key_id);
        match self.0.iter_mut().find(|known| known.key == *key) {
            Some(known) => {
                known.sealed_by.extend(sealer);
                if weight(&judgement) > weight(&known.judgement) {
                    known.judgement = judgement;
                }
            }
            None => self.0.push(Voucher {
                key: *key,
                judgement,
                sealed_by: sealer.into_iter().collect(),
            }),
        }
    }

    /// Does a seal count, and every one of them?
    fn all_count(&self) -> bool {
        let mut counts = self.0.iter().map(|one| one.judgement.standing.counts());
        !self.0.is_empty() && counts.all(|counts| counts)
    }

    /// Reports them; true when all count.
    fn tell(&self, report: &mut Report) -> bool {
        for Voucher {
            key,
            judgement,
            sealed_by,
        } in &self.0
        {
            report.signer_of(key, judgement, sealed_by);
        }
        self.all_count()
    }
}

fn thread_of(scan: &Scan) -> Option<ThreadId> {
    let text = json::parse(&scan.thread_text).ok()?;
    ThreadId::parse(text.as_str()?).ok()
}

fn check_thread(report: &mut Report, scan: &Scan, expected: Option<&ThreadId>) {
    let actual = thread_of(scan);
    if actual.is_none() && scan.manifest.is_some() {
        let finding =
            Finding::error(FindingCode::ThreadIdBad, "the thread id cannot be a path").at_line(1);
        report.downgrade(Verdict::Malformed, finding);
    }
    expect_thread(report, actual.as_ref(), expected);
}

/// Reports evidence against a record that is not of the `expected` thread.
pub(super) fn expect_thread(
    report: &mut Report,
    actual: Option<&ThreadId>,
    expected: Option<&ThreadId>,
) {
    match expected {
        None => {
            let why = "no thread was asked for";
            report.check(
                CheckName::Thread,
                CheckResult::Skipped,
                Some(why.to_owned()),
            );
        }
        Some(expected) if actual == Some(expected) => {
            report.check(CheckName::Thread, CheckResult::Pass, None);
        }
        Some(expected) => {
            let text = format!("the record does not belong to thread {expected}");
            report.downgrade(
                Verdict::Foreign,
                Finding::error(FindingCode::ThreadDiffers, text).at_line(1),
            );
            report.check(CheckName::Thread, CheckResult::Fail, None);
        }
    }
}

fn end(scan: &Scan) -> End {
    let last = scan.last.as_ref();
    End {
        words: ("record", "seal"),
        record: last.map(|last| last.head.record),
        last: last.map(|last| last.head.seq),
        whole: last.is_some_and(|last| last.head.size == scan.bytes),
        place: last.map(|last| (last.line, last.turn)),
        broken: scan.failure.is_some(),
    }
}

fn check_end(report: &mut Report, scan: &Scan, expect: &[Expectation]) {
    let Some(last) = scan.last.as_ref().filter(|_| scan.failure.is_none()) else {
        return;
    };
    let held = heads::is_held(expect, &scan.met);
    report.completeness = match (last.is_final, held) {
        (true, _) => Completeness::Final,
        (false, true) => Completeness::Head,
        (false, false) => Completeness::Unproved,
    };
    for finding in &scan.dropped {
        report.find(finding.clone());
    }
    for [from, to] in &scan.adopted {
        let text = "the recorder adopted bytes that no seal covered";
        report.downgrade(
            Verdict::Partial,
            Finding::warning(FindingCode::TailAdopted, text).at_bytes(*from, *to),
        );
    }
    if last.head.size < scan.bytes {
        report.hold(Verdict::UnsignedTail);
        let (from, to) = (last.head.size, scan.bytes);
        if let Some(fault) = &scan.tail_fault {
            report.find(fault.clone());
        }
        let text = match last.is_final {
            true => format!("{} bytes follow the end of the record", to - from),
            false => format!("{} bytes after the last seal are not covered", to - from),
        };
        report.find(
            Finding::warning(FindingCode::UnsignedTail, text)
                .at_bytes(from, to)
                .in_turn(Some(last.turn)),
        );
        if scan.torn {
            let text = "the last line is incomplete: a write was interrupted";
            report.find(Finding::warning(FindingCode::TornTail, text).at_line(scan.lines + 1));
        }
    }
    // A head that contradicts the record is the better reason.
    let is_against = |finding: &Finding| {
        let code = finding.code;
        finding.severity == Severity::Error
            && (code.is_about_head() || code == FindingCode::RecordDiffers)
    };
    let contradicted = report.findings.iter().any(is_against);
    if report.completeness == Completeness::Unproved && !contradicted {
        let text = heads::end_unproved(expect);
        report.downgrade(Verdict::Open, Finding::note(FindingCode::EndUnproved, text));
    }
    let linked = scan
        .manifest
        .as_ref()
        .is_some_and(|m| m.predecessor.is_some() || m.parent.is_some());
    if linked {
        let why = "this record names a predecessor or parent, which was not given";
        report.check(CheckName::Links, CheckResult::Skipped, Some(why.to_owned()));
    }
}

/// Are the bodies present to which sealed lines commit? After a failure the set of those is
/// unknown.
fn check_bodies(report: &mut Report, scan: &Scan, bodies: Option<&Bodies>) -> Vec<Digest> {
    let last = scan.last.as_ref().filter(|_| scan.failure.is_none());
    match (&scan.manifest, last) {
        (Some(manifest), Some(last)) => {
            let (watch, record) = (&scan.watch, &manifest.record);
            watch.judge(report, record, last.line, bodies)
        }
        _ => Vec::new(),
    }
}

fn grounds(
    scan: &Scan,
    prefix: &PrefixHasher,
    options: &VerifyOptions<'_>,
) -> Option<(Coverage, Grounds)> {
    let (manifest, last) = (scan.manifest.as_ref()?, scan.last.as_ref()?);
    let coverage = Coverage {
        record: manifest.record,
        head: last.head,
        digest: prefix.sealed()?,
        adopted: scan.adopted.clone(),
    };
    let grounds = Grounds {
        record: Some(manifest.record),
        head: Some(last.head),
        trusted_until: last.trusted_until(),
        trust: options.trust.digest(),
        now: options.now,
    };
    Some((coverage, grounds))
}

fn mint(
    report: &Report,
    scan: &Scan,
    prefix: &PrefixHasher,
    options: &VerifyOptions<'_>,
) -> Option<Verified<Coverage>> {
    if report.verdict != Verdict::Verified {
        return None;
    }
    let (coverage, grounds) = grounds(scan, prefix, options)?;
    Some(Verified::mint(coverage, grounds))
}

fn lenient(
    report: &Report,
    scan: &Scan,
    prefix: &PrefixHasher,
    options: &VerifyOptions<'_>,
) -> Option<WithTail<Coverage, Tail>> {
    let acceptable = [
        Verdict::Verified,
        Verdict::Open,
        Verdict::UnsignedTail,
        Verdict::Partial,
    ];
    if !acceptable.contains(&report.verdict) {
        return None;
    }
    let (coverage, grounds) = grounds(scan, prefix, options)?;
    let unverified = Tail {
        from: coverage.head.size,
        to: scan.bytes,
    };
    Some(WithTail {
        verified: Verified::mint(coverage, grounds),
        unverified,
    })
}
