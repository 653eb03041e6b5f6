// What runs everywhere: Node, Deno, Bun, browsers and workers.

export {
  checkProof, inspectIdentity, openSession, prove, verifiedEvents, verify, version, Session,
  type EventOptions, type Identity, type Row, type SealState, type Source, type Summary, type TokenCounts, type Turn,
  type VerifiedEvent,
} from "./core.js";
export { CommandError, InputError, RefusedLineError, StateError, ThreadSealError, VerdictError } from "./errors.js";
export type { ProofOptions, TrustOptions, TrustSource, Usage, VerifyOptions } from "./question.js";
export {
  Report, exitOf,
  type Check, type Exit, type FileReport, type Finding, type Format, type ProofReport, type ReportFields, type Signer,
  type TrustedUntil, type Verdict,
} from "./report.js";
export { init, type ModuleSource } from "./wasm.js";
