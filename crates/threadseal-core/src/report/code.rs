//! The codes of findings: every one that a report can contain.
//!
//! `spec/` explains each where its format is specified; a check of the repository compares the two.

use super::spelling::spelled;

spelled! {
    /// The code of a finding: a stable word, explained in `spec/`.
    pub enum FindingCode {
        // Several formats.
        BodiesUnread => "bodies_unread",
        BodyChanged => "body_changed",
        ChainBroken => "chain_broken",
        CheckpointAltered => "checkpoint_altered",
        CheckpointMalformed => "checkpoint_malformed",
        ContentChanged => "content_changed",
        DelegationBad => "delegation_bad",
        DuplicateKey => "duplicate_key",
        EndUnproved => "end_unproved",
        EventMalformed => "event_malformed",
        ExtUnknown => "ext_unknown",
        ForkKnown => "fork_known",
        ForksUnknown => "forks_unknown",
        HashWrong => "hash_wrong",
        HeadAhead => "head_ahead",
        HeadDiffers => "head_differs",
        HeadMissing => "head_missing",
        HeadNotLast => "head_not_last",
        KeyEndDoubted => "key_end_doubted",
        KeyEnded => "key_ended",
        KeyNotAllowed => "key_not_allowed",
        KeyOutOfScope => "key_out_of_scope",
        KeyRevoked => "key_revoked",
        KeyRotated => "key_rotated",
        KeyUnknown => "key_unknown",
        KeyUnusable => "key_unusable",
        LengthDiffers => "length_differs",
        LineMalformed => "line_malformed",
        LinkBroken => "link_broken",
        ManifestMissing => "manifest_missing",
        MoreFindings => "more_findings",
        NoConflict => "no_conflict",
        NonstandardJson => "nonstandard_json",
        NotJson => "not_json",
        NumberInexact => "number_inexact",
        OtherSigner => "other_signer",
        PredecessorMissing => "predecessor_missing",
        ProofMalformed => "proof_malformed",
        RecordDiffers => "record_differs",
        Redacted => "redacted",
        RyeKeyChanged => "rye_key_changed",
        RyeSignatureBad => "rye_signature_bad",
        SignatureBad => "signature_bad",
        SignatureMissing => "signature_missing",
        SignatureUnreadable => "signature_unreadable",
        SignaturesChanged => "signatures_changed",
        SignaturesGone => "signatures_gone",
        TailAdopted => "tail_adopted",
        ThreadDiffers => "thread_differs",
        ThreadIdBad => "thread_id_bad",
        ThreadIdChanged => "thread_id_changed",
        TooManyKeys => "too_many_keys",
        TornTail => "torn_tail",
        Unsigned => "unsigned",
        UnsignedTail => "unsigned_tail",

        // Documents.
        BadSignature => "bad_signature",
        ContentModified => "content_modified",
        FingerprintMismatch => "fingerprint_mismatch",
        HeaderJunk => "header_junk",
        HeaderNotRead => "header_not_read",
        ImpossibleTime => "impossible_time",
        KeyExpired => "key_expired",
        KeyVouchesForItself => "key_vouches_for_itself",
        NewlinesChanged => "newlines_changed",
        NotStrictJson => "not_strict_json",
        NotUtf8 => "not_utf8",
        OlderThanHead => "older_than_head",
        OtherHead => "other_head",
        OtherKind => "other_kind",
        OtherRecord => "other_record",
        OtherThanHead => "other_than_head",
        OtherThread => "other_thread",
        SealGone => "seal_gone",
        SealMismatch => "seal_mismatch",
        SealNotLast => "seal_not_last",
        SealUnreadable => "seal_unreadable",
        SecondHeader => "second_header",
        SeveralSeals => "several_seals",
        ShebangUncovered => "shebang_uncovered",
        SignatureEmpty => "signature_empty",
        SignatureEncoding => "signature_encoding",
        SignatureNotText => "signature_not_text",
        SignatureTail => "signature_tail",
        ThreadJsonIncomplete => "thread_json_incomplete",
        TooLarge => "too_large",
        Uncovered => "uncovered",
        UnknownSigner => "unknown_signer",

        // Native transcripts, with their bodies and copies.
        BodiesForeign => "bodies_foreign",
        BodiesMalformed => "bodies_malformed",
        BodiesTorn => "bodies_torn",
        BodyMissing => "body_missing",
        BodyUnknown => "body_unknown",
        CopyMalformed => "copy_malformed",
        EndMisplaced => "end_misplaced",
        EventAfterEnd => "event_after_end",
        FenceBackwards => "fence_backwards",
        LinesLeftOut => "lines_left_out",
        NextKeyBad => "next_key_bad",
        PrefixHashWrong => "prefix_hash_wrong",
        RedactionUnfinished => "redaction_unfinished",
        RedactorDiffers => "redactor_differs",
        Seal0Missing => "seal_0_missing",
        SealMissing => "seal_missing",
        TailDropped => "tail_dropped",
        TooManyBodies => "too_many_bodies",
        TurnBackwards => "turn_backwards",

        // Transcripts that Rye signed.
        BlankLine => "blank_line",
        CarriageReturn => "carriage_return",
        CheckpointDisplaced => "checkpoint_displaced",
        LaterCheckpoints => "later_checkpoints",
        LineTooLong => "line_too_long",
        MalformedCheckpoint => "malformed_checkpoint",
        MalformedEvent => "malformed_event",
        NoCheckpoint => "no_checkpoint",
        NotAnObject => "not_an_object",
        OffsetWrong => "offset_wrong",
        RawLineSeparator => "raw_line_separator",
        SignatureInvalid => "signature_invalid",
        SignerChanged => "signer_changed",
        SmuggledLineBreak => "smuggled_line_break",
        ThreadIdMixed => "thread_id_mixed",
        TooManySigners => "too_many_signers",
        TornCheckpoint => "torn_checkpoint",
        TurnImplausible => "turn_implausible",

        // Logs of other programs, under seals of this host.
        LeavesChanged => "leaves_changed",
        LineChanged => "line_changed",
        LineDeleted => "line_deleted",
        LineInserted => "line_inserted",
        LineMoved => "line_moved",
        LinesAfterFinal => "lines_after_final",
        LinesMissing => "lines_missing",
        LogRotated => "log_rotated",
        NoSeal => "no_seal",
        RedactionBad => "redaction_bad",
        SaltMissing => "salt_missing",
        SaltsBad => "salts_bad",
        SealFileTorn => "seal_file_torn",
        SealHeaderBad => "seal_header_bad",
        SealMalformed => "seal_malformed",
        SealOrder => "seal_order",
        SizeDiffers => "size_differs",
        TooManyLines => "too_many_lines",

        // Proofs of turns, and of two seals that conflict.
        AnchorBad => "anchor_bad",
        AnchorMissing => "anchor_missing",
        KeyStepBad => "key_step_bad",
        SealsConflict => "seals_conflict",
        SiblingsGuessable => "siblings_guessable",
        TurnBoundsWrong => "turn_bounds_wrong",
        TurnMayGoOn => "turn_may_go_on",

        // Scrolls.
        ArrayUnended => "array_unended",
        BodyHashWrong => "body_hash_wrong",
        EncodingMixed => "encoding_mixed",
        NoArray => "no_array",
        SchemaViolation => "schema_violation",
        ScrollEmpty => "scroll_empty",
        SigMemberUncovered => "sig_member_uncovered",
        SpellingUncovered => "spelling_uncovered",
        StrayBytes => "stray_bytes",
        TimestampInexact => "timestamp_inexact",
        TurnGap => "turn_gap",
        TurnRepeated => "turn_repeated",
        TurnTooLong => "turn_too_long",
        TurnTooOld => "turn_too_old",
        TurnUnsigned => "turn_unsigned",
        UnendedTurn => "unended_turn",

        // Ledgers.
        ActorDiffers => "actor_differs",
        ActorUnnamed => "actor_unnamed",
        ArtifactElsewhere => "artifact_elsewhere",
        ChainForked => "chain_forked",
        ChainRestarted => "chain_restarted",
        FileDiffers => "file_differs",
        GenesisBad => "genesis_bad",
        GenesisMisplaced => "genesis_misplaced",
        GenesisRepeated => "genesis_repeated",
        HashMissing => "hash_missing",
        HeadBroken => "head_broken",
        HeadForeign => "head_foreign",
        HeadForged => "head_forged",
        HeadUnknown => "head_unknown",
        IndexMalformed => "index_malformed",
        KnownElsewhere => "known_elsewhere",
        LedgerEmpty => "ledger_empty",
        LedgerReplay => "ledger_replay",
        LedgerWindow => "ledger_window",
        LineOfMany => "line_of_many",
        LineSkipped => "line_skipped",
        LoneSurrogate => "lone_surrogate",
        MarkersUnread => "markers_unread",
        NameRepeated => "name_repeated",
        NumberNotFinite => "number_not_finite",
        NumericNames => "numeric_names",
        RecordForeign => "record_foreign",
        RecordOdd => "record_odd",
        RecordRepeated => "record_repeated",
        RecordUnchained => "record_unchained",
        RecordUnsigned => "record_unsigned",
        RecordsLost => "records_lost",
        SlimUnresolved => "slim_unresolved",
        StepEndedTwice => "step_ended_twice",
        StepStartedTwice => "step_started_twice",
        StepUnended => "step_unended",
        StepUnstarted => "step_unstarted",
        TimeBackwards => "time_backwards",
        TimeUnreadable => "time_unreadable",

        // Lineages, and proofs of their forks.
        BodyMalformed => "body_malformed",
        BudgetIncreased => "budget_increased",
        CodeChanged => "code_changed",
        CodeDiffers => "code_differs",
        DelegationEnded => "delegation_ended",
        DelegationOlder => "delegation_older",
        DelegationTime => "delegation_time",
        Duplicate => "duplicate",
        EpochRegressed => "epoch_regressed",
        EpochWrong => "epoch_wrong",
        Fork => "fork",
        Gap => "gap",
        HandoverAlters => "handover_alters",
        HandoverDiffers => "handover_differs",
        KeyChanged => "key_changed",
        LeaseOverrun => "lease_overrun",
        LinkVoid => "link_void",
        LinksConflict => "links_conflict",
        LiveBehind => "live_behind",
        LiveElsewhere => "live_elsewhere",
        LiveMissing => "live_missing",
        NameDiffers => "name_differs",
        NoGenesis => "no_genesis",
        NotHolder => "not_holder",
        OutOfTurn => "out_of_turn",
        Replay => "replay",
        SameTick => "same_tick",
        SecondGenesis => "second_genesis",
        SeqWrong => "seq_wrong",
        StateAbsent => "state_absent",
        StateDiffers => "state_differs",
        TickRegressed => "tick_regressed",
        TimeRegressed => "time_regressed",
        UnsignedMember => "unsigned_member",
        UnsignedPrefix => "unsigned_prefix",
        VersionChanged => "version_changed",
        VersionRegressed => "version_regressed",

        // Sessions in databases, compared with the log of their rows.
        DatabaseOlder => "database_older",
        DatabaseUnread => "database_unread",
        RowChanged => "row_changed",
        RowGone => "row_gone",
        RowsUnsealed => "rows_unsealed",
        SessionDeleted => "session_deleted",

        // Pages that have a record inside.
        PageCodeUnknown => "page_code_unknown",
        PageTextDiffers => "page_text_differs",

        // Knowledge of the host: its heads, its log, links between records.
        BundleMalformed => "bundle_malformed",
        CheckpointsConflict => "checkpoints_conflict",
        CompanionDiffers => "companion_differs",
        CompanionMissing => "companion_missing",
        DelegationUnlogged => "delegation_unlogged",
        HeadMalformed => "head_malformed",
        LedgerMissing => "ledger_missing",
        LinkOpen => "link_open",
        LocalTrust => "local_trust",
        LogMissing => "log_missing",
        LogRolledBack => "log_rolled_back",
        MarkMissing => "mark_missing",
        MarkUnreadable => "mark_unreadable",
        PathBad => "path_bad",
        PlaceForgotten => "place_forgotten",
        PlaceOfAnother => "place_of_another",
        Pruned => "pruned",
        PrunedButPresent => "pruned_but_present",
        PrunedUnproved => "pruned_unproved",
        RecordMissing => "record_missing",
        RedactionUnlogged => "redaction_unlogged",
        RunNameBad => "run_name_bad",
        SealLogDamaged => "seal_log_damaged",
        SealLogMissing => "seal_log_missing",
        SealsElsewhere => "seals_elsewhere",
        SealsGone => "seals_gone",
        StoreRefuses => "store_refuses",
        Superseded => "superseded",
        ThreadUnnamed => "thread_unnamed",
    }
}

impl FindingCode {
    /// Whether a record and a head that is known of it do not fit together.
    pub fn is_about_head(self) -> bool {
        matches!(
            self,
            Self::HeadAhead
                | Self::HeadBroken
                | Self::HeadDiffers
                | Self::HeadForeign
                | Self::HeadForged
                | Self::HeadMalformed
                | Self::HeadMissing
                | Self::HeadNotLast
                | Self::HeadUnknown
        )
    }

    /// Whether the steps of a run do not fit together, or one has not ended.
    pub fn is_about_steps(self) -> bool {
        matches!(
            self,
            Self::StepStartedTwice | Self::StepEndedTwice | Self::StepUnstarted | Self::StepUnended
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_code_has_a_spelling_of_its_own() {
        let texts: BTreeSet<&str> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), FindingCode::ALL.len());
        for code in FindingCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(code.to_string(), code.as_str());
        }
    }

    #[test]
    fn a_code_about_a_head_or_a_step_begins_with_that_word() {
        for code in FindingCode::ALL {
            let begins = |word: &str| code.as_str().starts_with(word);
            assert_eq!(code.is_about_head(), begins("head_"), "{code}");
            assert_eq!(code.is_about_steps(), begins("step_"), "{code}");
        }
    }
}
